"""Planted defect: a result that comes after the close leaves all the same.

Answers to an operator that goes on emitting when its task is over (A68, FLINK-13063, FLINK-35810): whoever has taken
over replays that record too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from reference_impl.mutants.own_settlement import OperatorOfSettlements
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.result import Settlement, checked_results

__all__ = ["build_operator"]


class _LastingSettlement(Settlement):
    __slots__ = ()

    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is None and self.owner.closed:  # mail is refused by now
            self.outcome = checked_results(results)
            self.action()
        else:
            super().complete(results)


class _LastingOperator(OperatorOfSettlements):
    settlement = _LastingSettlement

    def close(self) -> None:
        probe, emit = self.probe, self.emit
        super().close()
        self.probe, self.emit = probe, emit


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that is not silenced by its close."""
    return operator_around(queue_for(mode, capacity), kind=_LastingOperator, **parts)
