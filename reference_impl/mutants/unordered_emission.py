"""Planted defect: whatever the mode, records leave as they complete.

Answers to a queue that emits any completed entry instead of a completed head (A15). Watermarks still keep
their place, so only the order among records is broken, and in unordered mode nothing is.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for

__all__ = ["build_operator"]


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that is unordered even if asked for order."""
    del mode
    return operator_around(queue_for("unordered", capacity), **parts)
