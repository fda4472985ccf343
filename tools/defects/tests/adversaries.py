"""Defects that no catalogue names, each a variant of one part: what somebody else might plant.

They keep what is usual and break one thing in a corner: after a restore, in a full queue, behind a shut door. Each is
to be convicted although nobody planned for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.sut.variant import Variant
from reference_impl.elements import QueueElement, Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import operator_around, queue_for
from reference_impl.operator.queues import Emit, Entry, GatedQueue, OrderedQueue, UnorderedQueue


class _RecordsFirst(AsyncWaitOperator):
    """A restore replays the records, then the watermarks."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        super().open(sorted(restored, key=lambda element: type(element) is not Record))


class _JoinsTheSegment(UnorderedQueue):
    """A watermark behind one single record shares its segment."""

    def _put_watermark(self, entry: Entry) -> None:
        last = self._segments[-1]
        if len(last.members) == 1:
            last.add(entry)
            last.completed.append(entry)
        else:
            super()._put_watermark(entry)


class _SecondOvertakes(OrderedQueue):
    """In a full queue the second leaves before a slow head."""

    def emit_completed(self, emit: Emit) -> bool:
        entries = self._entries
        if len(entries) == self._capacity > 1 and entries[0].results is None:
            entries.rotate(-1)
            if entries[0].results is None:
                entries.rotate(1)
        return super().emit_completed(emit)


def _operator(kind: type[AsyncWaitOperator], **queues: type[Any]) -> Variant:
    def build(*, mode: Any, capacity: int, **parts: Any) -> AsyncWaitOperator:
        queue = queues[mode](capacity) if mode in queues else queue_for(mode, capacity, parts.get("key_of"))
        return operator_around(queue, kind=kind, **parts)

    return Variant(build_operator=build)


class _LosesTheResume(AsyncWaitOperator):
    """An emission that was held for want of room downstream is never made up for."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        if isinstance(self.queue, GatedQueue):
            self.queue._resume = _nothing


def _nothing() -> None:
    """Nothing."""


ADVERSARIES: dict[str, tuple[Variant, str, int]] = {
    "restore replays records first": (_operator(_RecordsFirst), "V2", 20),
    "a held emission is never resumed": (_operator(_LosesTheResume), "V16", 38),
    "watermark joins a segment of one": (_operator(AsyncWaitOperator, unordered=_JoinsTheSegment), "V5", 0),
    "second overtakes in a full queue": (_operator(AsyncWaitOperator, ordered=_SecondOvertakes), "V1", 0),
}
"""By name: the variant, an invariant that convicts it, and a seed shortly before one in which it does."""
