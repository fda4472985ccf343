"""Planted defect: a restored snapshot is replayed from its last element to its first.

Answers to state in a container without an order, or read from the wrong end (A12, A61, D13). What was behind a
watermark comes before it then, and in ordered mode the results leave in the wrong order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from reference_impl.elements import QueueElement
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["build_operator"]


class _BackwardOperator(AsyncWaitOperator):
    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        super().open(reversed(tuple(restored)))


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that replays its snapshots backwards."""
    return operator_around(queue_for(mode, capacity), kind=_BackwardOperator, **parts)
