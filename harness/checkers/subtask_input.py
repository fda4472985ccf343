"""The input of a subtask: what its source held, as far as any attempt took it in.

Invariant: the source is deterministic, so the first `in` or `wm` of a position says what stands there; the
file's rules have refused every history that contradicts itself. Memory grows with positions.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from harness.checkers.history_trace import Subtask
from harness.history.event import Id, In, W, Wm

__all__ = ["SubtaskInput", "Taken"]


class Taken(NamedTuple):
    """A record as it was taken in."""

    pos: int
    n: int
    """The event that first took it in."""
    ts: int | None
    expect: list[Any] | UnsetType
    key: Any | UnsetType
    """Absent is no key; null is one."""


class SubtaskInput:
    """Records by id and watermarks by position, over all attempts of a subtask."""

    def __init__(self, subtask: Subtask) -> None:
        self.records: dict[Id, Taken] = {}
        self.watermarks: dict[int, Wm] = {}
        for attempt in subtask.attempts.values():
            for event in attempt.events:
                if isinstance(event, In):
                    self._take(event)
                elif isinstance(event, Wm):
                    self.watermarks.setdefault(event.pos, event)
        self.marks: list[int] = sorted(self.watermarks)
        self.positions_of: dict[W, list[int]] = {}
        """Where each watermark's value stands, in rising order."""
        for pos in self.marks:
            self.positions_of.setdefault(self.watermarks[pos].w, []).append(pos)

    def position(self, record: Id) -> int | None:
        """Where the record stands; None if this subtask never took it in."""
        taken = self.records.get(record)
        return None if taken is None else taken.pos

    def expect(self, record: Id) -> list[Any] | UnsetType:
        """What its `in` says it must yield; absent if none says so."""
        taken = self.records.get(record)
        return UNSET if taken is None else taken.expect

    def mark_before(self, pos: int) -> int | None:
        """The position of the last watermark that precedes `pos`."""
        index = bisect_left(self.marks, pos)
        return self.marks[index - 1] if index else None

    def _take(self, event: In) -> None:
        known = self.records.get(event.id)
        if known is None:
            ts = None if event.ts is UNSET else event.ts
            self.records[event.id] = Taken(event.pos, event.n, ts, event.expect, event.key)
        elif known.expect is UNSET and event.expect is not UNSET:
            self.records[event.id] = known._replace(expect=event.expect)
