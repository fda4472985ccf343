"""Planted defect: a completion is delivered twice, and counts twice.

Answers to a handle without its guard, on which a client calls `complete` again (A36). The results leave a second
time, whatever the mode.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import Record
from reference_impl.mutants.own_settlement import OperatorOfSettlements
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.probe import Ending
from reference_impl.operator.result import Settlement

__all__ = ["build_operator"]


class _TwiceSettled(Settlement):
    __slots__ = ()

    def action(self) -> None:
        super().action()
        self.post(self._settle_again, "settle the record again")

    def _settle_again(self) -> None:
        self.tell(Ending.OK, results=self.outcome)
        for value in self.outcome or ():
            self.owner.emit(Record(value=value, timestamp=self.element.timestamp))


class _RepeatingOperator(OperatorOfSettlements):
    settlement = _TwiceSettled


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that settles each record twice."""
    return operator_around(queue_for(mode, capacity), kind=_RepeatingOperator, **parts)
