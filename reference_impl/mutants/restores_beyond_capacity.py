"""Planted defect: a restored snapshot is called all at once, on top of the capacity.

Answers to a replay that asks for no slots (A62): after each crash the database meets the restored calls and as many
new ones again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from reference_impl.elements import QueueElement
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around
from reference_impl.operator.queues import OrderedQueue, UnorderedQueue

__all__ = ["build_operator"]


class _OrderedRoom(OrderedQueue):
    def grow(self, slots: int) -> None:
        self._capacity += slots


class _UnorderedRoom(UnorderedQueue):
    def grow(self, slots: int) -> None:
        self._capacity += slots


class _StampedingOperator(AsyncWaitOperator):
    slots: _OrderedRoom | _UnorderedRoom

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        elements = tuple(restored)
        self.slots.grow(len(elements))
        super().open(elements)


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator whose restored records take no slots."""
    slots = _OrderedRoom(capacity) if mode == "ordered" else _UnorderedRoom(capacity)
    operator = operator_around(slots, kind=_StampedingOperator, **parts)
    assert isinstance(operator, _StampedingOperator), "it is built of that kind"
    operator.slots = slots
    return operator
