"""Coverage of random runs: how often each kind of event and fault that a sweep is meant to try occurred.

Answers to etcd's lesson that a test without any stress passes (V23). Invariant: everything is counted from the
history alone; a fault counts only if it left evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from harness.explore.drawn_faults import DRAWN_FAULTS
from harness.history.event import (
    Abort,
    AttemptEvent,
    Call,
    Close,
    Commit,
    Dead,
    Done,
    Effect,
    End,
    Ended,
    Event,
    Failed,
    FaultEvent,
    GiveUp,
    In,
    Kill,
    Out,
    Owm,
    Res,
    Restore,
    Retire,
    Snap,
    Start,
    Wm,
)
from harness.history.header import Header
from harness.scenario.model import Scenario

__all__ = ["COVERAGE", "coverage"]

COVERAGE: Final = (
    "attempts",
    "restores",
    "restores of elements",
    "kills",
    "failures",
    "attempts fenced",
    "checkpoints done",
    "checkpoints retired",
    "commits",
    "commits of dead attempts",
    "calls",
    "calls again",
    "calls failed",
    "timeouts",
    "dead letters",
    "results",
    "watermarks in",
    "watermarks lower than before",
    "watermarks out",
    "final watermarks",
    "snapshots of elements",
    "snapshots of a blocked element",
    "effects",
    "events of zombies",
    "giveups",
    *(f"fault {do}" for do in DRAWN_FAULTS),
)
"""All names that a sweep counts; a name with count zero was not tried."""


def coverage(scenario: Scenario, header: Header, events: Sequence[Event]) -> Counter[str]:
    """The counts of one history."""
    kinds = Counter(map(type, events))
    seen = Counter({name: kinds[kind] for kind, name in _NAMES.items() if kinds[kind]})
    capacity = header.operator.capacity
    dead: dict[tuple[int, int], None] = {}
    mark: dict[tuple[int, int], int] = {}
    kind_of_fault = {fault.id: fault.do for fault in scenario.faults}
    for event in events:
        if type(event) in _SILENT:
            continue
        match event:
            case Commit(s=subtask, a=int(attempt)):
                seen["commits of dead attempts"] += (subtask, attempt) in dead
            case Kill(s=subtask, a=attempt) | Failed(s=subtask, a=attempt):
                dead[subtask, attempt] = None
            case Snap(elements=elements) if len(elements) > capacity:
                seen["snapshots of a blocked element"] += 1
            case Wm(s=subtask, a=attempt, w=int(w)):
                seen["watermarks lower than before"] += w < mark.get((subtask, attempt), w)
                mark[subtask, attempt] = w
            case FaultEvent(f=fault, phase="end", evidence=evidence) if evidence:
                seen[f"fault {kind_of_fault[fault]}"] += 1
        if (name := _name_of(event)) is not None:
            seen[name] += 1
    if seen["fault zombie"]:
        seen["events of zombies"] += sum(_of_zombies(events))
    return +seen


_SILENT: Final = frozenset({Abort, Close, Dead, Done, Effect, End, Ended, GiveUp, In, Out, Retire, Start})
"""Kinds of event that are only counted, never inspected."""
_ENDINGS: Final = {"fail": "calls failed", "timeout": "timeouts"}


def _of_zombies(events: Sequence[Event]) -> Iterator[bool]:
    """For each event of an attempt: whether a later attempt of its subtask had started (a zombie acts)."""
    latest: dict[int, int] = {}
    for event in events:
        if isinstance(event, Start):
            latest[event.s] = event.a
        elif isinstance(event, AttemptEvent) and not isinstance(event, Kill):
            yield event.a < latest.get(event.s, event.a)


_NAMES: Final[dict[type[object], str]] = {
    Start: "attempts",
    Kill: "kills",
    Failed: "failures",
    Done: "checkpoints done",
    Retire: "checkpoints retired",
    Commit: "commits",
    Call: "calls",
    Dead: "dead letters",
    Out: "results",
    Wm: "watermarks in",
    Owm: "watermarks out",
    Effect: "effects",
    GiveUp: "giveups",
    Restore: "restores",
}


def _name_of(event: Event) -> str | None:
    """A further name under which this event counts, besides its kind."""
    match event:
        case Res(r=ending):
            return _ENDINGS.get(ending)
        case Call(try_=number) if number > 1:
            return "calls again"
        case Snap(elements=[_, *_]):
            return "snapshots of elements"
        case Restore(elements=[_, *_]):
            return "restores of elements"
        case Owm(w="end"):
            return "final watermarks"
        case Failed(error=str(error)) if "Fenced" in error:
            return "attempts fenced"
    return None
