"""Planted defect: a call's error is swallowed, and a default value leaves in its place.

Answers to the bare `except` around a call (A41): the task goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Unpack

from reference_impl.mutants.own_settlement import OperatorOfSettlements
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.probe import Ending
from reference_impl.operator.result import Settlement

__all__ = ["build_operator"]

Default = Callable[[Any], Sequence[Any]]
"""What leaves in place of a value's results."""


class _QuietSettlement(Settlement):
    __slots__ = ()

    owner: _QuietOperator

    def fail(self, error: BaseException) -> None:
        if get_ident() != self.owner.thread:
            self.post(partial(self.fail, error), "error from a foreign thread")
        elif self.outcome is None and not self.owner.closed:
            self.outcome = tuple(self.owner.default(self.element.value))
            self.tell(Ending.FAIL, error=error)
            self.post(self._answer, "settle a failed record with the default")

    def _answer(self) -> None:
        self.complete_with(self.outcome or ())
        self.owner.emit_completed()


class _QuietOperator(OperatorOfSettlements):
    settlement = _QuietSettlement
    default: Default


def build_operator(
    *, mode: Mode, capacity: int, default: Default = lambda value: [value], **parts: Unpack[Parts]
) -> AsyncWaitOperator:
    """An operator that answers a failed call with `default` of its value."""
    operator = operator_around(queue_for(mode, capacity), kind=_QuietOperator, **parts)
    assert isinstance(operator, _QuietOperator), "it is built of that kind"
    operator.default = default
    return operator
