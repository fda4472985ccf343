"""Canaries: for each invariant a small history that it must convict, and one history that all must acquit.

Answers to the self-test of a smoke detector. Invariant: a judge that does not convict every canary, or convicts the
honest history, is defective, and none of its verdicts counts. What is wrong in a canary is in its last attempt, so a
judge that skips last attempts fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.defects.harness import Judge
from harness.errors import HarnessError
from harness.history.event import Event
from harness.history.header import Header
from harness.history.read import open_text
from harness.verdict import Outcome

__all__ = ["CANARIES", "HONEST", "Canary", "overlooked"]

_OF_THE_RUN = frozenset({"done", "giveup"})
_OF_A_SUBTASK = frozenset({"commit", "effect"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A small history: one event a line, as `kind name=value ...`; `at=` is its time in milliseconds."""

    invariant: str
    """The invariant that must convict it; V23 does so by `vacuous`."""
    events: str
    claims: dict[str, Any] = field(default_factory=dict)
    """Fields of the header, besides an ordered operator of capacity 4 without a timeout."""

    def history(self) -> tuple[Header, list[Event]]:
        """Header and events. Raises HarnessError if they break the rules of a history."""
        reader = open_text("\n".join(map(json.dumps, self._lines())).encode())
        events = list(reader.events())
        if reader.header is None or reader.breaches:
            told = "; ".join(f"line {breach.line}: {breach.say}" for breach in reader.breaches)
            raise HarnessError(f"the canary of {self.invariant} is no history: {told}")
        return reader.header, events

    def _lines(self) -> Iterator[dict[str, Any]]:
        operator = {"mode": "ordered", "capacity": 4, "timeout_ms": 0, **self.claims.get("operator", {})}
        yield {"history": 1, **self.claims, "operator": operator}
        at_ms = 0
        for n, line in enumerate(self.events.strip().splitlines(), start=1):
            kind, *words = line.split()
            told = {name: json.loads(value) for name, _, value in (word.partition("=") for word in words)}
            at_ms = told.pop("at", at_ms)
            yield {"n": n, "t": at_ms * 1000, "k": kind, **_whose(kind), **told}


def _whose(kind: str) -> dict[str, int]:
    """Subtask and attempt that an event has, unless its line says otherwise: attempt 1 of subtask 0."""
    return {} if kind in _OF_THE_RUN else {"s": 0} if kind in _OF_A_SUBTASK else {"s": 0, "a": 1}


HONEST = """
start from=null pos=0
in pos=0 id=1 expect=["v"]
call id=1 try=1
wm pos=1 w=5
res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
owm w=5
end
ended
close
"""
"""One record and a watermark, without a breach."""

_TWO = """
start from=null pos=0
in pos=0 id=1 key=1 expect=["v"]
call id=1 try=1
in pos=1 id=2 key=1 expect=["v"]
call id=2 try=1
"""
_SECOND_FIRST = """
res id=2 try=1 r="ok" final=true v=["v"]
out id=2 j=0 v="v"
res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
end
ended
"""
_ONE = """
start from=null pos=0
in pos=0 id=1 expect=["v"]
call id=1 try=1
"""
_ANSWERED = """
res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
"""
_OVER = """
end
ended
"""
_UNORDERED = {"operator": {"mode": "unordered"}}

CANARIES: Sequence[Canary] = (
    Canary(invariant="V1", events=_TWO.rstrip() + _SECOND_FIRST),
    Canary(
        invariant="V2",
        claims=_UNORDERED,
        events="""
start from=null pos=0
wm pos=0 w=5
in pos=1 id=1 expect=["v"]
call id=1 try=1
res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
owm w=5
end
ended
""",
    ),
    Canary(
        invariant="V3",
        claims={"operator": {"mode": "unordered", "per_key_order": True}},
        events=_TWO.rstrip() + _SECOND_FIRST,
    ),
    Canary(
        invariant="V4",
        events="start from=null pos=0\nwm pos=0 w=5\nwm pos=1 w=6\nowm w=6\nowm w=5" + _OVER,
    ),
    Canary(invariant="V5", events=_ONE + "wm pos=1 w=5\nowm w=5" + _ANSWERED.rstrip() + _OVER),
    Canary(invariant="V6", events="start from=null pos=0\nwm pos=0 w=5" + _OVER),
    Canary(invariant="V7", events="start from=null pos=0\nwm pos=0 w=5\nowm w=5\nowm w=6" + _OVER),
    Canary(invariant="V8", events=_ONE + 'res id=1 try=1 r="ok" final=true v=["v"]' + _OVER),
    Canary(invariant="V9", claims={"effects": "outputs"}, events=_ONE.rstrip() + _ANSWERED.rstrip() + _OVER),
    Canary(
        invariant="V10", events=_ONE + "snap c=1 pos=1 elements=[]\ndone c=1" + _ANSWERED.rstrip() + _OVER
    ),
    Canary(
        invariant="V11",
        events=_ONE
        + """snap c=1 pos=1 elements=[{"id":1}]
done c=1
kill
start a=2 from=1 pos=1
restore a=2 c=1 elements=[]
end a=2
ended a=2
""",
    ),
    Canary(
        invariant="V12",
        claims={"sink": "two-phase"},
        events=_ONE.rstrip() + _ANSWERED + "snap c=1 pos=1 elements=[]\ncommit c=1 a=1\ndone c=1" + _OVER,
    ),
    Canary(
        invariant="V13",
        claims={"sink": "two-phase"},
        events="""
start from=null pos=0
snap c=1 pos=0 elements=[]
done c=1
start a=2 from=null pos=0
snap a=2 c=2 pos=0 elements=[]
done c=2
commit c=2 a=2
commit c=1 a=1
end a=2
ended a=2
""",
    ),
    Canary(invariant="V14", claims={"operator": {"capacity": 1}}, events=_TWO.rstrip() + _SECOND_FIRST),
    Canary(
        invariant="V15",
        events=_ONE.rstrip() + _ANSWERED + 'res id=1 try=1 r="ok" final=true v=["v"]' + _OVER,
    ),
    Canary(invariant="V16", events=_ONE + 'giveup at=60000 why="quiet"'),
    Canary(
        invariant="V18",
        claims={"bounds": {"checkpoint_gap": 10}},
        events="start from=null pos=0\nend at=100\nended",
    ),
    Canary(
        invariant="V19",
        events="""
start from=null pos=0
in pos=0 id=1 expect=["v"]
call id=1 try=1 nonce=7
res id=1 try=1 r="ok" final=true v=["v"] nonce=8
out id=1 j=0 v="v"
end
ended
""",
    ),
    Canary(invariant="V20", events=_ONE + 'res id=1 try=1 r="fail" final=true error="refused"' + _OVER),
    Canary(
        invariant="V21",
        events=_ONE.replace("try=1", 'try=1 thread="task"')
        + 'res id=1 try=1 r="ok" final=true v=["v"] thread="task"\nout id=1 j=0 v="v" thread="client"'
        + _OVER,
    ),
    Canary(
        invariant="V23",
        claims={"expects": {"records": 2}},
        events=HONEST,
    ),
    Canary(
        invariant="V24",
        claims={"explained": "alone"},
        events="""
            start from=null pos=0
            in pos=0 id=1
            failed error="by-itself" at=5
        """,
    ),
)
"""In the order of the invariants."""


def overlooked(judge: Judge) -> tuple[str, ...]:
    """The invariants that did not convict their canary; `acquittal` too, unless the honest history passes."""
    missed = [canary.invariant for canary in CANARIES if not _convicts(judge, canary)]
    honest = judge(*Canary(invariant="none", events=HONEST).history()).outcome
    return (*missed, *(() if honest is Outcome.PASS else ("acquittal",)))


def _convicts(judge: Judge, canary: Canary) -> bool:
    verdicts = {verdict.invariant: verdict for verdict in judge(*canary.history()).invariants}
    found = verdicts.get(canary.invariant)
    if found is None:
        return False
    if canary.invariant == "V23":
        return found.outcome is Outcome.VACUOUS
    return found.outcome is Outcome.FAIL
