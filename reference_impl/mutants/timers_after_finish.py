"""Planted defect: the timers of an operator that finishes still fire.

Answers to FLINK-14228: a timer that falls due while the operator finishes, or later, emits behind the next operator's
end of input. Where no timer is pending at the end, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import StopMode
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_operator import Finishing, StreamOperatorWrapper

__all__ = ["ChainThatLetsTimersFire"]


class _Wrapper(StreamOperatorWrapper):
    def finish(self, mode: StopMode) -> None:
        drains = mode is StopMode.DRAIN
        if drains and not self._is_head:
            self.end_input()
        self._run_own_mail()
        if drains and isinstance(self.operator, Finishing):
            self.operator.finish()
        self._run_own_mail()


class ChainThatLetsTimersFire(OperatorChain):
    """It quiesces nobody's timers."""

    wrapper = _Wrapper
