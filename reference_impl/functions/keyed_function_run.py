"""What the keyed operators do alike: timers to the function, values downstream, life to both.

Answers to the parts of Flink's `AbstractUdfStreamOperator` and `KeyedProcessOperator` that do not depend on the number
of inputs. Invariant: no call of the function without its key being the current one (S1), and none by a timer once the
operator is closed (T16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from reference_impl.elements import OperatorInput, Record
from reference_impl.functions.checkpointed_function import FunctionState
from reference_impl.functions.keyed_process_function import Collector, OnTimer, ProcessContext
from reference_impl.functions.runtime_context import RichFunction, RuntimeContext
from reference_impl.functions.timer_service import TimeDomain, TimerService
from reference_impl.internal_timers.internal_timer import InternalTimer, KeyContext
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.snapshots.state_contexts import StateInitializationContext, StateSnapshotContext
from reference_impl.state.broadcast_state import ReadOnlyBroadcastState
from reference_impl.task.stream_operator import Closing

__all__ = ["KeyedFunctionOperator", "KeyedFunctionRun"]

_USER_TIMERS = "user-timers"
_NOTHING: Mapping[str, ReadOnlyBroadcastState[Any, Any]] = MappingProxyType({})


class KeyedFunctionRun:
    """One function in one operator. Mutable."""

    def __init__(
        self,
        function: object,
        *,
        key_context: KeyContext,
        timer_services: InternalTimerServices,
        emit: Callable[[OperatorInput], None],
        runtime_context: RuntimeContext,
        broadcast: Mapping[str, ReadOnlyBroadcastState[Any, Any]] = _NOTHING,
    ) -> None:
        """`broadcast`: what the function may read by `get_broadcast_state`; may be filled until `open`."""
        self._function = function
        self._on_timer_of_function = function.on_timer if isinstance(function, OnTimer) else None
        self._state = FunctionState(function)
        self._key_context = key_context
        self._timer_services = timer_services
        self._emit = emit
        self._runtime_context = runtime_context
        self._broadcast = broadcast
        self._keyed_state_store: Any = None
        self._context: ProcessContext | None = None

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Remember where keyed state is; let a function with operator state register it (C45)."""
        self._keyed_state_store = context.keyed_state_store
        self._state.initialize(context)

    def open(self) -> None:
        """Timers fire from now on, restored ones that are overdue first of all (T15)."""
        service = self._timer_services.get_internal_timer_service(_USER_TIMERS, self)
        self._context = ProcessContext(
            key_context=self._key_context, timer_service=TimerService(service), broadcast=self._broadcast
        )
        if isinstance(self._function, RichFunction):
            self._function.open(self._runtime_context.with_keyed_state(self._keyed_state_store))

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Of the function; keyed state and timers are saved by whoever holds them."""
        self._state.snapshot(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Pass it on."""
        self._state.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Pass it on."""
        self._state.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """No timer fires after this (T16)."""
        self._timer_services.close()
        if isinstance(self._function, Closing):
            self._function.close()

    def process(
        self, record: Record, key: Any, call: Callable[[Any, ProcessContext, Collector], None]
    ) -> None:
        """Let `call` see the record, with `key` as the current one."""
        self._key_context.set_current_key(key)
        call(record.value, self._at(record.timestamp, record.position), self._collect)

    def on_event_time(self, timer: InternalTimer) -> None:
        """The timer's key is the current one already."""
        self._on_timer(timer, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timer: InternalTimer) -> None:
        """The timer's key is the current one already."""
        self._on_timer(timer, TimeDomain.PROCESSING_TIME)

    def _on_timer(self, timer: InternalTimer, time_domain: TimeDomain) -> None:
        if self._on_timer_of_function is not None:
            context = self._at(timer.timestamp, position=None, time_domain=time_domain)
            self._on_timer_of_function(timer.timestamp, context, self._collect)

    def _at(
        self, timestamp: int | None, position: int | None, time_domain: TimeDomain | None = None
    ) -> ProcessContext:
        context = self._context
        assert context is not None, "the chain opens an operator before it hands it anything (M46)"
        context.timestamp, context.position, context.time_domain = timestamp, position, time_domain
        return context

    def _collect(self, value: Any) -> None:
        context = self._context
        assert context is not None, "as above"
        self._emit(Record(value=value, timestamp=context.emitted_timestamp, position=context.position))


class KeyedFunctionOperator:
    """The life of an operator with one such run, which has all of it. Mutable, as the run is."""

    def __init__(self, run: KeyedFunctionRun) -> None:
        self._run = run

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Before `open`."""
        self._run.initialize_state(context)

    def open(self) -> None:
        """Before any element."""
        self._run.open()

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """The function's own operator state, if it has any."""
        self._run.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Pass it on to the function."""
        self._run.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Pass it on to the function."""
        self._run.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """After everything."""
        self._run.close()
