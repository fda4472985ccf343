"""The progress of an attempt at a moment: which records have an outcome, and what of them has left.

Answers to "Resolved" of `docs/history.md`. Mutable: whoever walks an attempt's events feeds them in order
and asks in between. Invariant: it looks at this attempt alone. Memory grows with the records of the
attempt.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from harness.checkers.expected_outputs import outputs_by
from harness.checkers.history_trace import Settled
from harness.checkers.subtask_input import SubtaskInput
from harness.history.event import Dead, Event, Id, Out, Res

__all__ = ["Progress"]


class Progress:
    """What has become of the records by now."""

    def __init__(self, source: SubtaskInput) -> None:
        self._source = source
        self._left: dict[Id, set[int]] = {}
        self._wanted_left: dict[Id, int] = {}
        """Counted already: a record may have a million outputs, and is asked after at each of them."""
        self._outcomes: dict[Id, Settled] = {}
        self._wanted: dict[Id, list[Any] | None] = {}
        """Worked out already, by the outcome so far."""

    def step(self, event: Event) -> Id | None:
        """Take an event; returns the record whose standing it may have changed."""
        match event:
            case Out():
                self._leave(event.id, event.j)
            case Res(final=True) | Dead():
                self._outcomes.setdefault(event.id, event)
                self._wanted.pop(event.id, None)
                self._wanted_left.pop(event.id, None)
            case _:
                return None
        return event.id

    def _leave(self, record: Id, j: int) -> None:
        left = self._left.setdefault(record, set())
        if j not in left and record in self._wanted_left:
            self._wanted_left[record] += self._is_wanted(record, j)
        left.add(j)

    def _is_wanted(self, record: Id, j: int) -> bool:
        wanted = self.wanted(record)
        return wanted is None or j < len(wanted)

    def has_left(self, record: Id) -> bool:
        """Whether any output of it has left."""
        return record in self._left

    def wanted(self, record: Id) -> list[Any] | None:
        """Its outputs by its outcome in this attempt, by its `expect` while it has none; None: unknown."""
        if record not in self._wanted:
            expect = self._source.expect(record)
            outcome = self._outcomes.get(record)
            unsettled = None if expect is UNSET else expect
            self._wanted[record] = unsettled if outcome is None else outputs_by(outcome, expect)
        return self._wanted[record]

    def count_left(self, record: Id) -> int:
        """How many of its wanted outputs have left; of unknown ones, those that have."""
        if record not in self._wanted_left:
            self._wanted_left[record] = sum(self._is_wanted(record, j) for j in self._left.get(record, ()))
        return self._wanted_left[record]

    def all_left(self, record: Id) -> bool:
        """Whether all of at least one output have left; where outputs are unknown, what has left is all."""
        count = self.count_left(record)
        return count > 0 and ((wanted := self.wanted(record)) is None or count == len(wanted))

    def resolved(self, record: Id) -> bool:
        """Whether nothing of it is open any more."""
        wanted = self.wanted(record)
        if record in self._outcomes:
            return not wanted or self.count_left(record) == len(wanted)
        return bool(wanted) and self.all_left(record)
