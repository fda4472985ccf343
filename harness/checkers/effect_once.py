"""V9 effect once: the database's audit log holds one row for each accepted record, and no other row.

Invariant: the rows read after the run equal what the accepted records expect, row by row. Exception: if a call
of a record did not end in `ok` and no output or a timeout's substitute is expected, its row may be present or
absent. O(n); memory grows with effects and records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from harness.checkers.case import Case, SubtaskView
from harness.checkers.invariant import Findings, Invariant
from harness.checkers.outputs import Expectation
from harness.history.event import Call, Effect, Id, Res
from harness.history.values import same, shown
from harness.verdict import Anomaly

__all__ = ["EffectOnce"]

Key = tuple[Id, int]
"""What may have one row: a record (number 0), or one output of it (its `j`)."""


class EffectOnce(Invariant):
    """Checks V9 over all subtasks."""

    name = "V9"
    vacuous = "no accepted record expects an output, so none an effect"

    def not_claimed(self, case: Case) -> str:
        """It applies if the header claims effects, or the history has any."""
        claimed = case.header.effects is not None or case.trace.effects
        return "" if claimed else "the header claims no effects, and the history has none"

    def examine(self, view: SubtaskView) -> Findings:
        """Whether this subtask has a record whose effect could be missing."""
        expecting = any(view.expected.of(record).outputs for record in view.source.records)
        return Findings(exposed=expecting)

    def across(self, case: Case) -> Findings:
        """Rows and records are joined by id; the subtask that a row names is not compared."""
        claim = _Claim(case)
        missing = list(claim.missing())
        return Findings(
            anomalies=(*claim.doubled(), *claim.odd(), *(missing if case.finished else ())),
            pending=() if case.finished else tuple(anomaly.say for anomaly in missing),
            observed=len(case.trace.effects),
        )


class _Claim:
    """The rows of one case, compared with the expected outputs."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._by_output = case.header.effects == "outputs"
        self._rows: dict[Key, list[Effect]] = {}
        for effect in case.trace.effects:
            self._rows.setdefault(self._key(effect), []).append(effect)
        self._owner = {record: view for view in case.views for record in view.source.records}
        self._unclear = {record for view in case.views for record in _unclear_calls(view)}

    def _key(self, effect: Effect) -> Key:
        by_output = self._by_output and effect.j is not UNSET
        return (effect.id, effect.j if by_output and effect.j is not UNSET else 0)

    def doubled(self) -> Iterator[Anomaly]:
        for key, rows in self._rows.items():
            if len(rows) > 1:
                tokens = ", ".join(str(row.token) for row in rows)
                say = (
                    f"{self._named(key)} has {len(rows)} rows in the audit log (written by attempts {tokens})"
                )
                yield _anomaly("double-effect", rows, say)

    def odd(self) -> Iterator[Anomaly]:
        for key, rows in self._rows.items():
            for row in rows:
                yield from self._odd(key, row)

    def _odd(self, key: Key, row: Effect) -> Iterator[Anomaly]:
        record, j = key
        view = self._owner.get(record)
        if view is None:
            say = f"{self._named(key)} has a row in the audit log, but no subtask took the record in"
            yield _anomaly("phantom-effect", [row], say)
            return
        expectation = view.expected.of(record)
        wanted = expectation.outputs
        if wanted is None or self._may_be_either(record, expectation):
            return
        if not 0 <= j < len(wanted):
            count = len(wanted) or "no"
            say = f"{self._named(key)} has a row in the audit log, but {count} outputs are expected of the record"
            yield _anomaly("phantom-effect", [row], say)
        elif row.v is not UNSET and not any(same(row.v, value) for value in self._allowed(wanted, j)):
            say = f"{self._named(key)} has a row with {shown(row.v)} in the audit log, but {shown(wanted)} is expected"
            yield _anomaly("wrong-effect", [row], say)

    def missing(self) -> Iterator[Anomaly]:
        for record, view in self._owner.items():
            expectation = view.expected.of(record)
            wanted = expectation.outputs or []
            if not wanted or self._may_be_either(record, expectation):
                continue
            for j in range(len(wanted) if self._by_output else 1):
                if (record, j) not in self._rows:
                    taken = view.source.records[record]
                    say = f"{self._named((record, j))} (position {taken.pos}) has no row in the audit log"
                    yield Anomaly(kind="no-effect", s=view.s, id=record, events=(taken.n,), say=say)

    def _allowed(self, wanted: list[Any], j: int) -> list[Any]:
        if self._by_output:
            return [wanted[j]]
        return [wanted, *(wanted if len(wanted) == 1 else ())]

    def _may_be_either(self, record: Id, expectation: Expectation) -> bool:
        """Whether the row may be present or absent, with any value, because a call did not end in `ok`."""
        indifferent = expectation.outputs == [] or expectation.substituted
        return indifferent and record in self._unclear

    def _named(self, key: Key) -> str:
        return f"output {key[1]} of record {shown(key[0])}" if self._by_output else f"record {shown(key[0])}"


def _unclear_calls(view: SubtaskView) -> Iterator[Id]:
    """Records with a call that ended in fail, timeout or unknown, or has no `res`."""
    for attempt in view.subtask.attempts.values():
        open_calls: dict[Key, None] = {}
        called: set[Id] = set()
        for event in attempt.events:
            if isinstance(event, Call):
                called.add(event.id)
                open_calls[event.id, event.try_] = None
            elif isinstance(event, Res):
                open_calls.pop((event.id, event.try_), None)
                if event.r != "ok" and event.id in called:
                    yield event.id
        yield from (record for record, _ in open_calls)


def _anomaly(kind: str, rows: list[Effect], say: str) -> Anomaly:
    first = rows[0]
    return Anomaly(kind=kind, s=first.s, id=first.id, events=tuple(row.n for row in rows), say=say)
