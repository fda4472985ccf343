"""Runs a function over a keyed stream (its first input) and a broadcast one (its second).

Answers to Flink's `CoBroadcastWithKeyedOperator`. Invariant: each subtask keeps a whole copy of each broadcast state in
its operator state, and the keyed side has nothing but a view of it (S24).

Deviation: while a broadcast element is processed no key is current, so keyed state is refused but for
`apply_to_keyed_state`; in Flink the key of whichever record came last is left over, and is written to unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reference_impl.elements import OperatorInput, Record
from reference_impl.functions.keyed_broadcast_process_function import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
)
from reference_impl.functions.keyed_function_run import KeyedFunctionOperator, KeyedFunctionRun
from reference_impl.functions.runtime_context import RuntimeContext
from reference_impl.functions.several_inputs import SeveralInputs
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.internal_timers.watermark_emission import watermark_emission
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.snapshots.state_contexts import StateInitializationContext
from reference_impl.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import MapStateDescriptor

__all__ = ["KeyedBroadcastProcessOperator"]


class KeyedBroadcastProcessOperator(KeyedFunctionOperator):
    """Mutable. Parts as of a `KeyedCoProcessOperator`, and the descriptors of what is broadcast."""

    def __init__(
        self,
        *,
        function: KeyedBroadcastProcessFunction,
        key_selector: Callable[[Any], Any],
        broadcast_states: Sequence[MapStateDescriptor],
        key_context: KeyedStateBackend,
        timer_services: InternalTimerServices,
        emit: Callable[[OperatorInput], None],
        executor: MailboxExecutor | None = None,
        runtime_context: RuntimeContext | None = None,
    ) -> None:
        self._function = function
        self._key_of = key_selector
        self._descriptors = broadcast_states
        self._emit = emit
        self._states: dict[str, BroadcastState[Any, Any]] = {}
        self._views: dict[str, ReadOnlyBroadcastState[Any, Any]] = {}
        self._keys = key_context.context
        self._context = BroadcastContext(states=self._states, backend=key_context)
        super().__init__(
            KeyedFunctionRun(
                function,
                key_context=key_context,
                timer_services=timer_services,
                emit=emit,
                runtime_context=runtime_context or RuntimeContext(),
                broadcast=self._views,
            )
        )
        self._inputs = SeveralInputs(
            (self.process_element, self.process_broadcast_element),
            pass_watermark=watermark_emission(timer_services, interrupted_by=executor, emit=emit),
            emit=emit,
        )

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Register what is broadcast, on each start."""
        for descriptor in self._descriptors:
            state = context.operator_state_store.get_broadcast_state(descriptor)
            self._states[descriptor.name], self._views[descriptor.name] = state, state.read_only()
        super().initialize_state(context)

    def process1(self, element: OperatorInput) -> None:
        """Of the keyed input."""
        self._inputs.process(0, element)

    def process2(self, element: OperatorInput) -> None:
        """Of the broadcast input."""
        self._inputs.process(1, element)

    def process_element(self, record: Record) -> None:
        """A record of the keyed input."""
        self._run.process(record, self._key_of(record.value), self._function.process_element)

    def process_broadcast_element(self, record: Record) -> None:
        """An element of the broadcast input; it has no key, and that of the last record is none of its business."""
        self._keys.select_none()
        context = self._context
        context.timestamp, context.position = record.timestamp, record.position
        self._function.process_broadcast_element(record.value, context, self._collect)

    def _collect(self, value: Any) -> None:
        """For a broadcast element."""
        context = self._context
        self._emit(Record(value=value, timestamp=context.timestamp, position=context.position))
