"""Planted defect: a record's timeout does not end its attempts; who waits for the next one makes it all the same.

Answers to a backoff timer that outlives the timeout (A80, FLINK-30477, FLINK-38082).
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.retry import Attempts, JudgedSettlement

__all__ = ["build_operator"]


class _TirelessAttempts(Attempts):
    def _cancel_backoff(self) -> None:
        """Leave the timer alone."""

    def _retry(self) -> None:
        """Whatever the outcome."""
        if not self.settlement.owner.closed:
            self.awaiting = False
            self.shared.last_calls.pop(self, None)
            self._call_again()


class _TirelessOperator(AsyncWaitOperator):
    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(self, record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        _TirelessAttempts(self, entry, self.timers.now_ms()).begin()


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that asks again after it has answered."""
    return operator_around(queue_for(mode, capacity), kind=_TirelessOperator, **parts)
