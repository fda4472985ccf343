"""Planted defect: a record is queued as it came, although whoever gave it uses the object again.

Answers to object reuse without a copy (FLINK-12351, A29): what is in the queue turns into a later record. Where
records are not used again, the mutant is the reference.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts
from reference_impl.operator.build import build_operator as build_honest

__all__ = ["build_operator"]


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that copies no record, whether it is told to or not."""
    parts["copy_value"] = None
    return build_honest(mode=mode, capacity=capacity, **parts)
