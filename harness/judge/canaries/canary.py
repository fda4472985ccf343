"""Canaries: for each class of violation a small history that must be convicted, and honest ones that must pass.

Answers to the self-test of a smoke detector. Invariant: a judge that does not convict each canary of its class, or that
convicts an honest history, is defective, and none of its verdicts counts. What is wrong in a canary is in its last
attempt, so a judge that skips last attempts fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import msgspec

from harness.history.event import Event
from harness.history.header import Header
from harness.history.read import open_text
from harness.history.verdict import Judgement, Outcome
from harness.system.errors import HarnessError

__all__ = ["AUDIT_TABLE", "OUTPUT_TABLES", "TABLES", "Canary", "Judge", "is_found", "overlooked"]

Judge = Callable[[Header, Iterable[Event]], Judgement]

_OF_THE_RUN = frozenset({"done", "abort", "retire", "rescale", "giveup", "fault", "change", "row", "read"})
_OF_A_SUBTASK = frozenset({"commit", "effect"})
_ROWS = frozenset({"row", "effect"})

TABLES: Mapping[str, Any] = {
    "audit": {"holds": ["audit"]},
    "output": {"holds": ["outputs", "effects"], "keep": "all", "ordered": True},
    "dead_letter": {"holds": ["dead"], "keep": "all"},
}
"""The header's `tables` of a run without keys in its output; each has all columns that our sinks write."""
AUDIT_TABLE: Mapping[str, Any] = {"audit": TABLES["audit"]}
OUTPUT_TABLES: Mapping[str, Any] = {"output": TABLES["output"]}
"""The table of the outputs alone: without an audit, its rows are judged against what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A small history: one event a line, as `kind name=value ...`; `at=` is its time in milliseconds.

    Rows (`row`, `effect`) come last and are numbered and stamped as our sinks do it; that each table of the header was
    read to its end is added.
    """

    invariant: str
    """The invariant that must convict it; empty: the history is honest."""
    kind: str = ""
    """The class of the anomaly; empty: `outcome` alone is compared."""
    about: str = ""
    """What is wrong, or right, where there is no class."""
    outcome: Outcome = Outcome.FAIL
    """What the invariant must say; of an honest history what the judgement must say."""
    events: str
    claims: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the header, besides an ordered operator of capacity 4 without a timeout."""
    unread: tuple[str, ...] = ()
    """Tables of the header that are not read to their end."""

    @property
    def name(self) -> str:
        """`V8 duplicate`."""
        return " ".join(word for word in (self.invariant or "honest", self.kind, self.about) if word)

    @property
    def header(self) -> dict[str, Any]:
        """Its header as JSON."""
        operator = {"mode": "ordered", "capacity": 4, "timeout_ms": 0, **self.claims.get("operator", {})}
        return {"history": 1, **self.claims, "operator": operator}

    def history(self) -> tuple[Header, list[Event]]:
        """Header and events. Raises HarnessError if they break the rules of a history."""
        reader = open_text("\n".join(map(json.dumps, (self.header, *self.lines()))).encode())
        events = list(reader.events())
        if reader.header is None or reader.breaches:
            told = "; ".join(f"line {breach.line}: {breach.say}" for breach in reader.breaches)
            raise HarnessError(f"the canary {self.name} is no history: {told}")
        return reader.header, events

    def lines(self) -> Iterator[dict[str, Any]]:
        """Its events as JSON: `n` from 1, times that rise with each event."""
        rows: dict[str, int] = {}
        at_ms = n = 0
        for n, line in enumerate(self.events.strip().splitlines(), start=1):
            kind, decoded = _decoded(line)
            told = dict(decoded)
            at_ms = told.pop("at", at_ms)
            if "at_place" in told:  # the field `at` of an `in`
                told["at"] = told.pop("at_place")
            if kind in _ROWS:
                table = told.get("table", "audit")
                rows[table] = rows.get(table, 0) + 1
                told = {"seq": rows[table], "token": 1, **({"c": 1} if kind == "row" else {}), **told}
            yield {"n": n, "t": at_ms * 1000 + n, "k": kind, **_whose(kind), **told}
        for number, table in enumerate(self.claims.get("tables", ()), start=n + 1):
            if table not in self.unread:
                t = at_ms * 1000 + number
                yield {"n": number, "t": t, "k": "read", "table": table, "rows": rows.get(table, 0)}


@cache
def _decoded(line: str) -> tuple[str, Mapping[str, Any]]:
    """The kind and the fields of a line; most lines stand in many canaries."""
    kind, *words = line.split()
    pairs = (word.partition("=") for word in words)
    return kind, {name: msgspec.json.decode(value) for name, _, value in pairs}


def _whose(kind: str) -> dict[str, int]:
    """Subtask and attempt that an event has, unless its line says otherwise: attempt 1 of subtask 0."""
    return {} if kind in _OF_THE_RUN else {"s": 0} if kind in _OF_A_SUBTASK else {"s": 0, "a": 1}


class _Told(Protocol):
    """What must be said of a canary."""

    @property
    def invariant(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def outcome(self) -> Outcome: ...


def is_found(canary: _Told, judgement: Judgement) -> bool:
    """Whether the judgement says of the canary what it must: the class too, not only the invariant."""
    if not canary.invariant:
        return judgement.outcome is canary.outcome
    verdicts = {verdict.invariant: verdict for verdict in judgement.invariants}
    found = verdicts.get(canary.invariant)
    if found is None or found.outcome is not canary.outcome:
        return False
    return judgement.outcome is not Outcome.PASS and (
        not canary.kind or canary.kind in {anomaly.kind for anomaly in found.anomalies}
    )


def overlooked(judge: Judge, canaries: Iterable[Canary]) -> tuple[str, ...]:
    """The names of the canaries that the judge does not convict, and of the honest ones that it does not acquit."""
    return tuple(canary.name for canary in canaries if not is_found(canary, judge(*canary.history())))
