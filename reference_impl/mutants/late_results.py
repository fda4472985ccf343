"""Planted defect: a result that comes after the record's timeout leaves too, behind the substitute.

Answers to a timeout handler whose outcome does not shut the door (A36, A45). Only a call that is not cancelled by
its timeout can be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from reference_impl.elements import Record
from reference_impl.mutants.own_settlement import OperatorOfSettlements
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.probe import Ending
from reference_impl.operator.result import Settlement

__all__ = ["build_operator"]


class _OpenSettlement(Settlement):
    __slots__ = ()

    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is not None and hasattr(self, "timed_out"):
            self.post(partial(self._settle_late, results), "settle a record late")
        super().complete(results)

    def _settle_late(self, results: Sequence[Any]) -> None:
        if (probe := self.owner.probe) is not None:
            probe.settled(self.element, attempt=1, ending=Ending.OK, final=True, results=results)
        for value in results:
            self.owner.emit(Record(value=value, timestamp=self.element.timestamp))


class _UnguardedOperator(OperatorOfSettlements):
    settlement = _OpenSettlement


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that emits late results."""
    return operator_around(queue_for(mode, capacity), kind=_UnguardedOperator, **parts)
