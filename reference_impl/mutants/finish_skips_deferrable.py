"""Planted defect: an operator that finishes runs its mail, but for the deferrable.

Answers to FLINK-39481 and FLINK-39930: the rest of an interrupted advance of the watermark stays in the mailbox until
after the end of data has left, so whatever its timers emit is lost. Where no mail is deferred, the mutant is the
reference.
"""

from __future__ import annotations

from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_operator import StreamOperatorWrapper

__all__ = ["ChainThatSkipsDeferrable"]


class _Wrapper(StreamOperatorWrapper):
    def _run_own_mail(self) -> None:
        while self._executor.try_yield():
            pass


class ChainThatSkipsDeferrable(OperatorChain):
    """Its operators leave the deferrable mail where it is."""

    wrapper = _Wrapper
