"""Planted defect: the snapshot leaves out records whose results are there but have not been emitted.

Answers to the naive idea that state is what is still being asked for (A12, A58). After a restore those
records are lost.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import QueueElement, Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["build_operator"]


class _ForgetfulOperator(AsyncWaitOperator):
    def snapshot(self) -> tuple[QueueElement, ...]:
        entries = self.queue.entries()
        return tuple(
            e.element for e in entries if not (isinstance(e.element, Record) and e.results is not None)
        )


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that forgets completed records in its snapshots."""
    return operator_around(queue_for(mode, capacity), kind=_ForgetfulOperator, **parts)
