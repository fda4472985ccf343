"""Planted defect: a watermark equal to the one before it is taken for news that are none, and dropped.

Answers to thrift where every watermark has to be passed on (A51). Whoever counts watermarks, or waits for the one
behind the last record, waits for ever.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import OperatorInput, Watermark
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["build_operator"]


class _ThriftyOperator(AsyncWaitOperator):
    last: int | None = None
    """The timestamp of the watermark before."""

    def process(self, element: OperatorInput) -> None:
        if type(element) is Watermark:
            if element.timestamp == self.last:
                return
            self.last = element.timestamp
        super().process(element)


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that passes on no watermark twice."""
    return operator_around(queue_for(mode, capacity), kind=_ThriftyOperator, **parts)
