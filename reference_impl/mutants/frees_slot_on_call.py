"""Planted defect: a slot is free again as soon as the call has begun.

Answers to a permit that is given back by who begins a call, and not by who has its result (A9, A11). So there is
always room, and as many calls run as there are records.
"""

from __future__ import annotations

from sys import maxsize
from typing import Unpack

from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.queues import checked_capacity

__all__ = ["build_operator"]


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that never waits for a slot."""
    checked_capacity(capacity)
    return operator_around(queue_for(mode, maxsize), **parts)
