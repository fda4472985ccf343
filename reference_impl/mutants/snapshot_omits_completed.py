"""Planted defect: the snapshot leaves out records whose results are there but have not been emitted.

Answers to the naive idea that state is what is still being asked for (A12, A58). After a restore those
records are lost.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.async_wait import AsyncWaitOperator, Mode, Parts, queue_for
from reference_impl.elements import QueueElement, Watermark

__all__ = ["build_operator"]


class _ForgetfulOperator(AsyncWaitOperator):
    def snapshot(self) -> tuple[QueueElement, ...]:
        entries = self._queue.entries()
        return tuple(e.element for e in entries if isinstance(e.element, Watermark) or not e.done)


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that forgets completed records in its snapshots."""
    return _ForgetfulOperator(queue=queue_for(mode, capacity), **parts)
