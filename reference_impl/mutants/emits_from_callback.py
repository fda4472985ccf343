"""Planted defect: a completion emits in the caller's frame instead of as mail.

Answers to an operator without a mailbox (A37): the client's callback changes the queue and writes the output, whatever
the task is doing meanwhile, on whatever thread the client has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from reference_impl.mutants.own_settlement import OperatorOfSettlements
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.result import Settlement, checked_results

__all__ = ["build_operator"]


class _ImpatientSettlement(Settlement):
    __slots__ = ()

    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is None:
            self.outcome = checked_results(results)
            self.action()


class _ImpatientOperator(OperatorOfSettlements):
    settlement = _ImpatientSettlement


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that emits where its calls end."""
    return operator_around(queue_for(mode, capacity), kind=_ImpatientOperator, **parts)
