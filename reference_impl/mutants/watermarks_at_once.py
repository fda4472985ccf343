"""Planted defect: a watermark is forwarded as it comes, past the records that are still in flight.

Answers to forwarding watermarks like latency markers (A51, A52). Downstream then takes those records for
late ones.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.async_wait import AsyncWaitOperator, Mode, Parts, queue_for
from reference_impl.elements import QueueElement, Watermark

__all__ = ["build_operator"]


class _HastyOperator(AsyncWaitOperator):
    def process(self, element: QueueElement) -> None:
        if isinstance(element, Watermark):
            self._emit(element)
        else:
            super().process(element)


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator whose watermarks overtake its records."""
    return _HastyOperator(queue=queue_for(mode, capacity), **parts)
