"""Runs a function over a keyed stream: sets the key, calls, fires timers, passes watermarks on.

Answers to Flink's `KeyedProcessOperator`. Invariant: a watermark leaves after the timers that it releases (T12), and
a record's results leave before whatever came after the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.functions.keyed_function_run import KeyedFunctionOperator, KeyedFunctionRun
from reference_impl.functions.keyed_process_function import KeyedProcessFunction
from reference_impl.functions.runtime_context import RuntimeContext
from reference_impl.internal_timers.internal_timer import KeyContext
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.internal_timers.watermark_emission import watermark_emission
from reference_impl.mailbox_executor import MailboxExecutor

__all__ = ["KeyedProcessOperator"]


class KeyedProcessOperator(KeyedFunctionOperator):
    """Mutable. `key_context` is the keyed state backend; whoever made it and `timer_services` saves and restores both.

    With `executor` its mail, a checkpoint's for instance, goes between two timers of one watermark (T13).
    """

    def __init__(
        self,
        *,
        function: KeyedProcessFunction,
        key_selector: Callable[[Any], Any],
        key_context: KeyContext,
        timer_services: InternalTimerServices,
        emit: Callable[[OperatorInput], None],
        executor: MailboxExecutor | None = None,
        runtime_context: RuntimeContext | None = None,
    ) -> None:
        self._call = function.process_element
        self._key_of = key_selector
        self._emit = emit
        super().__init__(
            KeyedFunctionRun(
                function,
                key_context=key_context,
                timer_services=timer_services,
                emit=emit,
                runtime_context=runtime_context or RuntimeContext(),
            )
        )
        self._pass_watermark = watermark_emission(timer_services, interrupted_by=executor, emit=emit)

    def process(self, element: OperatorInput) -> None:
        """A record to the function; a watermark to the timers; whatever else streams goes on."""
        match element:
            case Record():
                self._run.process(element, self._key_of(element.value), self._call)
            case Watermark():
                self._pass_watermark(element)
            case _:
                self._emit(element)
