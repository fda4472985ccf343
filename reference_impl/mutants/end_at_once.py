"""Planted defect: the final watermark is forwarded as it comes, before the drain has ended.

Answers to a race at the end of input (A66). Every window downstream closes before the last records come.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import OperatorInput, Watermark
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["FINAL_WATERMARK", "build_operator"]

FINAL_WATERMARK = 2**63 - 1
"""The timestamp after which nothing comes, as Flink's `Watermark.MAX_WATERMARK` has it."""


class _HastyEndOperator(AsyncWaitOperator):
    def process(self, element: OperatorInput) -> None:
        if type(element) is Watermark and element.timestamp == FINAL_WATERMARK:
            self.emit(element)
        else:
            super().process(element)


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator whose final watermark overtakes its records."""
    return operator_around(queue_for(mode, capacity), kind=_HastyEndOperator, **parts)
