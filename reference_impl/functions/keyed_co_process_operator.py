"""Runs a function over two keyed streams that share keys, state and timers.

Answers to Flink's `KeyedCoProcessOperator`. Invariant: its event time is the lesser of its inputs' (an idle one holds
nobody back), and a watermark leaves after the timers that it releases (T12).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.functions.keyed_function_run import KeyedFunctionOperator, KeyedFunctionRun
from reference_impl.functions.keyed_process_function import KeyedCoProcessFunction
from reference_impl.functions.runtime_context import RuntimeContext
from reference_impl.functions.several_inputs import SeveralInputs
from reference_impl.internal_timers.internal_timer import KeyContext
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.internal_timers.watermark_emission import watermark_emission
from reference_impl.mailbox_executor import MailboxExecutor

__all__ = ["KeyedCoProcessOperator"]


class KeyedCoProcessOperator(KeyedFunctionOperator):
    """Mutable. As `KeyedProcessOperator`, with a door for each input: `process1` and `process2`."""

    def __init__(
        self,
        *,
        function: KeyedCoProcessFunction,
        key_selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        key_context: KeyContext,
        timer_services: InternalTimerServices,
        emit: Callable[[OperatorInput], None],
        executor: MailboxExecutor | None = None,
        runtime_context: RuntimeContext | None = None,
    ) -> None:
        self._calls = (function.process_element1, function.process_element2)
        self._key_selectors = key_selectors
        super().__init__(
            KeyedFunctionRun(
                function,
                key_context=key_context,
                timer_services=timer_services,
                emit=emit,
                runtime_context=runtime_context or RuntimeContext(),
            )
        )
        self._inputs = SeveralInputs(
            (self.process_element1, self.process_element2),
            pass_watermark=watermark_emission(timer_services, interrupted_by=executor, emit=emit),
            emit=emit,
        )

    def process1(self, element: OperatorInput) -> None:
        """Of the first input."""
        self._inputs.process(0, element)

    def process2(self, element: OperatorInput) -> None:
        """Of the second input."""
        self._inputs.process(1, element)

    def process_element1(self, record: Record) -> None:
        """A record of the first input."""
        self._process_element(0, record)

    def process_element2(self, record: Record) -> None:
        """A record of the second input."""
        self._process_element(1, record)

    def process_watermark1(self, watermark: Watermark) -> None:
        """A watermark of the first input."""
        self._inputs.process_watermark(0, watermark)

    def process_watermark2(self, watermark: Watermark) -> None:
        """A watermark of the second input."""
        self._inputs.process_watermark(1, watermark)

    def process_watermark_status1(self, status: WatermarkStatus) -> None:
        """The first input falls idle or is active again."""
        self._inputs.process_watermark_status(0, status)

    def process_watermark_status2(self, status: WatermarkStatus) -> None:
        """The second input falls idle or is active again."""
        self._inputs.process_watermark_status(1, status)

    def _process_element(self, index: int, record: Record) -> None:
        self._run.process(record, self._key_selectors[index](record.value), self._calls[index])
