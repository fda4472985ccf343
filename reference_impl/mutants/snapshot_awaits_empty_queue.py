"""Planted defect: a snapshot is taken only once the queue is empty, so that there is nothing to keep.

Answers to a checkpoint that waits for the running calls (A57): with a slow database none completes.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import QueueElement
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["build_operator"]


class _WaitingOperator(AsyncWaitOperator):
    def snapshot(self) -> tuple[QueueElement, ...]:
        while len(self.queue):
            self._executor.yield_()
        return super().snapshot()


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that drains itself for each snapshot."""
    return operator_around(queue_for(mode, capacity), kind=_WaitingOperator, **parts)
