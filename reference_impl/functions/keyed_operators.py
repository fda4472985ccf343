"""The operators that run a user's function over keyed streams: over one, over two, over one with a broadcast one.

Answers to Flink's `KeyedProcessOperator`, `KeyedCoProcessOperator` and `CoBroadcastWithKeyedOperator`, and to what they
inherit, which is here a part of each. Invariant: no call of the function without its key being the current one (S1),
and a watermark leaves after the timers that it releases (T12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.functions.process_function import (
    BroadcastContext,
    Collector,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OnTimer,
    ProcessContext,
    RichFunction,
    RuntimeContext,
    TimeDomain,
    TimerService,
)
from reference_impl.functions.sink import FunctionState
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.state.internal_timer_services import (
    InternalTimerServices,
    PassWatermark,
    watermark_emission,
)
from reference_impl.state.internal_timers import MIN_WATERMARK, InternalTimer, KeyContext
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.operator_state import BroadcastState, ReadOnlyBroadcastState
from reference_impl.state.state_descriptor import MapStateDescriptor
from reference_impl.task.stream_operator import Closing

__all__ = [
    "CombinedWatermarkStatus",
    "KeyedBroadcastProcessOperator",
    "KeyedCoProcessOperator",
    "KeyedFunctionOperator",
    "KeyedFunctionRun",
    "KeyedProcessOperator",
    "SeveralInputs",
]


class CombinedWatermarkStatus:
    """The watermark of an operator with several inputs: the least of those that are active.

    Of as many inputs as there are, counted from 0. Mutable.

    Answers to Flink's `IndexedCombinedWatermarkStatus`. Invariant: the combined watermark never falls; an idle input
    holds nobody back, and while all are idle it stands still.
    """

    def __init__(self, inputs: int) -> None:
        self._watermarks = [MIN_WATERMARK] * inputs
        self._idle = [False] * inputs
        self.watermark = MIN_WATERMARK

    @property
    def is_idle(self) -> bool:
        """Whether every input is."""
        return all(self._idle)

    def update_watermark(self, index: int, timestamp: int) -> bool:
        """The input's watermark has come, and so it is active; whether the combined one rises."""
        self._idle[index] = False
        self._watermarks[index] = max(self._watermarks[index], timestamp)
        return self._combine()

    def update_status(self, index: int, *, idle: bool) -> bool:
        """The input falls idle or is active again; whether the combined watermark rises."""
        self._idle[index] = idle
        return self._combine()

    def _combine(self) -> bool:
        active = [mark for mark, idle in zip(self._watermarks, self._idle, strict=True) if not idle]
        least = min(active, default=MIN_WATERMARK)
        if least <= self.watermark:
            return False
        self.watermark = least
        return True


class SeveralInputs:
    """The doors of an operator with several inputs: records to their side, one event time for all.

    One door each, counted from 0. Mutable.

    Answers to what Flink's `AbstractStreamOperator` does in `processWatermark1`, `processWatermarkStatus2` and their
    like. Invariant: the operator's watermark is the least of its active inputs', and it is idle while all of them are.
    """

    def __init__(
        self,
        take_record: Sequence[Callable[[Record], None]],
        *,
        pass_watermark: PassWatermark,
        emit: Callable[[OperatorInput], None],
    ) -> None:
        """`take_record`: what to do with a record of each input."""
        self._take_record = take_record
        self._combined = CombinedWatermarkStatus(len(take_record))
        self._pass_watermark = pass_watermark
        self._emit = emit

    def process(self, index: int, element: OperatorInput) -> None:
        """An element of that input; what is neither record, watermark nor status goes on."""
        match element:
            case Record():
                self._take_record[index](element)
            case Watermark():
                self.process_watermark(index, element)
            case WatermarkStatus():
                self.process_watermark_status(index, element)
            case _:
                self._emit(element)

    def process_watermark(self, index: int, watermark: Watermark) -> None:
        """It passes if it lets the combined one rise."""
        if self._combined.update_watermark(index, watermark.timestamp):
            self._pass_combined(watermark.position)

    def process_watermark_status(self, index: int, status: WatermarkStatus) -> None:
        """It passes if the operator as a whole falls idle or wakes up; that one input is idle may let time go on."""
        was_idle = self._combined.is_idle
        if self._combined.update_status(index, idle=status.idle):
            self._pass_combined(status.position)
        if was_idle != self._combined.is_idle:
            self._emit(status)

    def _pass_combined(self, position: int | None) -> None:
        """It has the position of what let it rise."""
        self._pass_watermark(Watermark(timestamp=self._combined.watermark, position=position))


_USER_TIMERS = "user-timers"
_NOTHING: Mapping[str, ReadOnlyBroadcastState[Any, Any]] = MappingProxyType({})


class KeyedFunctionRun:
    """What the keyed operators do alike: timers to the function, values downstream, life to both.

    One function in one operator. Mutable.

    Answers to the parts of Flink's `AbstractUdfStreamOperator` and `KeyedProcessOperator` that do not depend on the
    number of inputs. Invariant: no call of the function without its key being the current one (S1), and none by a timer
    once the operator is closed (T16).
    """

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


class KeyedProcessOperator(KeyedFunctionOperator):
    """Runs a function over a keyed stream: sets the key, calls, fires timers, passes watermarks on.

    Mutable. `key_context` is the keyed state backend; whoever made it and `timer_services` saves and restores both.

    With `executor` its mail, a checkpoint's for instance, goes between two timers of one watermark (T13).

    Answers to Flink's `KeyedProcessOperator`. Invariant: a watermark leaves after the timers that it releases (T12),
    and a record's results leave before whatever came after the record.
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


class KeyedCoProcessOperator(KeyedFunctionOperator):
    """Runs a function over two keyed streams that share keys, state and timers.

    Mutable. As `KeyedProcessOperator`, with a door for each input: `process1` and `process2`.

    Answers to Flink's `KeyedCoProcessOperator`. Invariant: its event time is the lesser of its inputs' (an idle one
    holds nobody back), and a watermark leaves after the timers that it releases (T12).
    """

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


class KeyedBroadcastProcessOperator(KeyedFunctionOperator):
    """Runs a function over a keyed stream (its first input) and a broadcast one (its second).

    Mutable. Parts as of a `KeyedCoProcessOperator`, and the descriptors of what is broadcast.

    Answers to Flink's `CoBroadcastWithKeyedOperator`. Invariant: each subtask keeps a whole copy of each broadcast
    state in its operator state, and the keyed side has nothing but a view of it (S24).

    Deviation: while a broadcast element is processed no key is current, so keyed state is refused but for
    `apply_to_keyed_state`; in Flink the key of whichever record came last is left over, and is written to unnoticed.
    """

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
