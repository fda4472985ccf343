"""The effects that the accepted records call for: what V9 compares rows of the audit and of tables with.

Invariant: a record calls for one effect, or for one of each of its outputs, as the header's `effects` says. Exception:
if a call of it did not end in `ok`, and no output or a timeout's substitute is expected, its effect may be there or
not. Memory grows with records and with open calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from harness.history.event import Call, Effect, Id, Res, Row
from harness.history.values import shown
from harness.judge.checkers.case import Case, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.outputs import Expectation
from harness.judge.checkers.tables import Key


class ExpectedEffects:
    """The effects that one case calls for, by key: a record, or an output of it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.by_output: bool = case.header.effects == "outputs"
        self._unclear = {record for view in case.views for record in _unclear_calls(view)}

    def key(self, row: Effect | Row) -> Key:
        """What a row is a row of."""
        return (row.id, row.j if self.by_output and row.j is not UNSET else None)

    def excess(self, key: Key) -> str:
        """Why no row of a key is expected; empty if one is, or if that is not known."""
        record, j = key
        if record not in self._case.owner:
            return "no subtask took the record in"
        wanted = self._wanted(record)
        if wanted is None or (j or 0) < len(wanted):
            return ""
        return f"{len(wanted) or 'no'} outputs are expected of the record"

    def values(self, key: Key) -> list[Any] | None:
        """The values that a row of a key may have; None if any, or if no row is expected."""
        record, j = key
        wanted = self._wanted(record)
        if wanted is None or (j or 0) >= len(wanted):
            return None
        return [wanted, *(wanted if len(wanted) == 1 else ())] if j is None else [wanted[j]]

    def must_exist(self) -> Iterator[tuple[Key, SubtaskView, Taken]]:
        """The keys of which there must be a row, with the record's subtask and its entry."""
        for record, view in self._case.owner.items():
            if wanted := self._wanted(record):
                numbers = range(len(wanted)) if self.by_output else (None,)
                yield from (((record, j), view, view.source.records[record]) for j in numbers)

    def named(self, key: Key) -> str:
        """A key for a message."""
        return f"record {shown(key[0])}" if key[1] is None else f"output {key[1]} of record {shown(key[0])}"

    def _wanted(self, record: Id) -> list[Any] | None:
        view = self._case.owner.get(record)
        if view is None:
            return None
        expectation = view.expected.of(record)
        return None if self._may_be_either(record, expectation) else expectation.outputs

    def _may_be_either(self, record: Id, expectation: Expectation) -> bool:
        """Whether the row may be present or absent, with any value, because a call did not end in `ok`."""
        indifferent = expectation.outputs == [] or expectation.substituted
        return indifferent and record in self._unclear


def _unclear_calls(view: SubtaskView) -> Iterator[Id]:
    """Records with a call that ended in fail, timeout or unknown, or has no `res`."""
    for attempt in view.subtask.attempts.values():
        open_calls: dict[tuple[Id, int], None] = {}
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
