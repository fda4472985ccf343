"""Planted defect: a watermark is forwarded as it comes, past the records that are still in flight.

Answers to forwarding watermarks like latency markers (A51, A52). Downstream then takes those records for
late ones.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import OperatorInput, Watermark
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["build_operator"]


class _HastyOperator(AsyncWaitOperator):
    def process(self, element: OperatorInput) -> None:
        if isinstance(element, Watermark):
            self.emit(element)
        else:
            super().process(element)


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator whose watermarks overtake its records."""
    return operator_around(queue_for(mode, capacity), kind=_HastyOperator, **parts)
