"""Operators that run a user's function over one or two keyed streams, or a keyed and a broadcast stream.

Answers to Flink's `KeyedProcessOperator`, `KeyedCoProcessOperator` and `CoBroadcastWithKeyedOperator`, and to their
common parents. Invariant: the key of the record or timer is selected during each call of the function (S1); a
watermark is emitted after its timers have fired (T12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NotRequired, TypedDict, Unpack

from reference_impl.checkpoints.state_handler import FunctionInitializationContext
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
from reference_impl.state.key_groups import HashableKey
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore
from reference_impl.state.operator_state import BroadcastState, ReadOnlyBroadcastState
from reference_impl.state.state_descriptor import MapStateDescriptor
from reference_impl.task.stream_operator import Closing


class CombinedWatermarkStatus:
    """The watermark of an operator with several inputs: the minimum over the active ones. Mutable.

    Answers to Flink's `IndexedCombinedWatermarkStatus`. Invariant: the combined watermark never falls. Idle inputs do
    not count; when all are idle it is the highest of all inputs (W3), since none holds another back any more.
    """

    def __init__(self, inputs: int) -> None:
        self._watermarks = [MIN_WATERMARK] * inputs
        self._idle = [False] * inputs
        self.watermark = MIN_WATERMARK

    @property
    def is_idle(self) -> bool:
        """Whether every input is idle."""
        return all(self._idle)

    def update_watermark(self, index: int, timestamp: int) -> bool:
        """Record an input's watermark, which also makes it active; return whether the combined one rises."""
        self._idle[index] = False
        self._watermarks[index] = max(self._watermarks[index], timestamp)
        return self._combine()

    def update_status(self, index: int, *, idle: bool) -> bool:
        """Record that an input becomes idle or active; return whether the combined watermark rises."""
        self._idle[index] = idle
        return self._combine()

    def _combine(self) -> bool:
        active = [mark for mark, idle in zip(self._watermarks, self._idle, strict=True) if not idle]
        reached = min(active) if active else max(self._watermarks)
        if reached <= self.watermark:
            return False
        self.watermark = reached
        return True


class SeveralInputs:
    """Dispatches the elements of several inputs and combines their watermarks. Inputs count from 0. Mutable.

    Answers to `processWatermark1`, `processWatermarkStatus2` and similar methods of Flink's `AbstractStreamOperator`.
    Invariant: the operator's watermark is the minimum over its active inputs, and it is idle while all of them are;
    the highest watermark precedes that status.
    """

    def __init__(
        self,
        take_record: Sequence[Callable[[Record], None]],
        *,
        pass_watermark: PassWatermark,
        emit: Callable[[OperatorInput], None],
    ) -> None:
        """`take_record` processes a record, one function for each input."""
        self._take_record = take_record
        self._combined = CombinedWatermarkStatus(len(take_record))
        self._pass_watermark = pass_watermark
        self._emit = emit

    def process(self, index: int, element: OperatorInput) -> None:
        """Process an element of input `index`; latency markers and attributes are emitted unchanged."""
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
        """Process the combined watermark if it rises."""
        if self._combined.update_watermark(index, watermark.timestamp):
            self._pass_combined(watermark.position)

    def process_watermark_status(self, index: int, status: WatermarkStatus) -> None:
        """Emit the status if the operator as a whole changes, after the watermark that an idle input lets rise."""
        was_idle = self._combined.is_idle
        if self._combined.update_status(index, idle=status.idle):
            self._pass_combined(status.position)
        if was_idle != self._combined.is_idle:
            self._emit(status)

    def _pass_combined(self, position: int | None) -> None:
        """Process the combined watermark, with the position of the element that raised it."""
        self._pass_watermark(Watermark(timestamp=self._combined.watermark, position=position))


_USER_TIMERS = "user-timers"


class _UnkeyedParts(TypedDict):
    timer_services: InternalTimerServices
    emit: Callable[[OperatorInput], None]
    executor: NotRequired[MailboxExecutor | None]
    runtime_context: NotRequired[RuntimeContext | None]


class KeyedOperatorParts(_UnkeyedParts):
    """Arguments of every keyed operator."""

    key_context: KeyContext


class KeyedFunctionOperator(FunctionState):
    """What all keyed operators share: calls of the function, its timers, its state and its output. Mutable.

    Answers to the parts of Flink's `AbstractUdfStreamOperator` and `KeyedProcessOperator` that do not depend on the
    number of inputs. Invariant: the key of the record or timer is selected during each call of the function (S1), and
    no timer calls it after the operator is closed (T16).
    """

    def __init__(self, function: object, **parts: Unpack[KeyedOperatorParts]) -> None:
        super().__init__(function)
        self._on_timer_of_function = function.on_timer if isinstance(function, OnTimer) else None
        self._key_context = parts["key_context"]
        self._timer_services = parts["timer_services"]
        self._emit = parts["emit"]
        self._runtime_context = parts.get("runtime_context") or RuntimeContext()
        self._views: dict[str, ReadOnlyBroadcastState[object, object]] = {}
        """What `get_broadcast_state` returns; filled before `open`."""
        self._keyed_state_store: KeyedStateStore | None = None
        self._context: ProcessContext | None = None
        self._pass_watermark = watermark_emission(
            self._timer_services, interrupted_by=parts.get("executor"), emit=self._emit
        )

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Keep the store of keyed state, and initialize the function's operator state (C45)."""
        self._keyed_state_store = context.keyed_state_store
        super().initialize_state(context)

    def open(self) -> None:
        """Let timers fire from now on; restored ones that are overdue fire first (T15)."""
        service = self._timer_services.get_internal_timer_service(_USER_TIMERS, self)
        self._context = ProcessContext(
            key_context=self._key_context, timer_service=TimerService(service), broadcast=self._views
        )
        if isinstance(self._function, RichFunction):
            self._function.open(self._runtime_context.with_keyed_state(self._keyed_state_store))

    def close(self) -> None:
        """No timer fires afterwards (T16)."""
        self._timer_services.close()
        if isinstance(self._function, Closing):
            self._function.close()

    def _call_with_key(
        self, record: Record, key: HashableKey, call: Callable[[object, ProcessContext, Collector], None]
    ) -> None:
        """Pass the record's value to `call`, with `key` selected."""
        self._key_context.set_current_key(key)
        call(record.value, self._at(record.timestamp, record.position), self._collect)

    def on_event_time(self, timer: InternalTimer) -> None:
        """The timer's key is already selected."""
        self._on_timer(timer, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timer: InternalTimer) -> None:
        """The timer's key is already selected."""
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

    def _collect(self, value: object) -> None:
        context = self._context
        assert context is not None, "as above"
        self._emit(Record(value=value, timestamp=context.emitted_timestamp, position=context.position))


class KeyedProcessOperator(KeyedFunctionOperator):
    """Runs a function over a keyed stream: selects the key, calls the function, fires timers, emits watermarks.

    Mutable. `key_context` is the keyed state backend; it and `timer_services` are saved and restored by the state
    handler. With `executor`, its mail can run between two timers of one watermark (T13).

    Answers to Flink's `KeyedProcessOperator`. Invariant: a watermark is emitted after its timers have fired (T12); a
    record's results are emitted before anything that came after the record.
    """

    def __init__(
        self,
        *,
        function: KeyedProcessFunction,
        key_selector: Callable[[Any], HashableKey],
        **parts: Unpack[KeyedOperatorParts],
    ) -> None:
        self._call = function.process_element
        self._key_of = key_selector
        super().__init__(function, **parts)

    def process(self, element: OperatorInput) -> None:
        match element:
            case Record():
                self._call_with_key(element, self._key_of(element.value), self._call)
            case Watermark():
                self._pass_watermark(element)
            case _:
                self._emit(element)


class KeyedCoProcessOperator(KeyedFunctionOperator):
    """Runs a function over two keyed streams that share keys, state and timers. Mutable.

    As `KeyedProcessOperator`, with `process1` and `process2` for the inputs.

    Answers to Flink's `KeyedCoProcessOperator`. Invariant: its event time is the minimum over its active inputs; a
    watermark is emitted after its timers have fired (T12).
    """

    def __init__(
        self,
        *,
        function: KeyedCoProcessFunction,
        key_selectors: tuple[Callable[[Any], HashableKey], Callable[[Any], HashableKey]],
        **parts: Unpack[KeyedOperatorParts],
    ) -> None:
        self._calls = (function.process_element1, function.process_element2)
        self._key_selectors = key_selectors
        super().__init__(function, **parts)
        self.process_element1 = partial(self._process_element, 0)
        self.process_element2 = partial(self._process_element, 1)
        self._inputs = SeveralInputs(
            (self.process_element1, self.process_element2),
            pass_watermark=self._pass_watermark,
            emit=self._emit,
        )
        self.process_watermark1 = partial(self._inputs.process_watermark, 0)
        self.process_watermark2 = partial(self._inputs.process_watermark, 1)
        self.process_watermark_status1 = partial(self._inputs.process_watermark_status, 0)
        self.process_watermark_status2 = partial(self._inputs.process_watermark_status, 1)

    def process1(self, element: OperatorInput) -> None:
        self._inputs.process(0, element)

    def process2(self, element: OperatorInput) -> None:
        self._inputs.process(1, element)

    def _process_element(self, index: int, record: Record) -> None:
        self._call_with_key(record, self._key_selectors[index](record.value), self._calls[index])


class KeyedBroadcastProcessOperator(KeyedFunctionOperator):
    """Runs a function over a keyed stream, its first input, and a broadcast stream, its second. Mutable.

    As `KeyedCoProcessOperator`, with the descriptors of the broadcast states.

    Answers to Flink's `CoBroadcastWithKeyedOperator`. Invariant: each subtask has a full copy of each broadcast state
    in its operator state, and the keyed side gets only a read-only view (S24).

    Difference from Flink: while a broadcast element is processed, no key is selected, so keyed state is accessible
    only through `apply_to_keyed_state`. In Flink the key of the last record stays selected, and can be written to by
    mistake.
    """

    def __init__(
        self,
        *,
        function: KeyedBroadcastProcessFunction,
        key_selector: Callable[[Any], HashableKey],
        broadcast_states: Sequence[MapStateDescriptor],
        key_context: KeyedStateBackend,
        **parts: Unpack[_UnkeyedParts],
    ) -> None:
        self._broadcast_function = function
        self._key_of = key_selector
        self._descriptors = broadcast_states
        self._states: dict[str, BroadcastState[object, object]] = {}
        self._keys = key_context.context
        self._broadcast_context = BroadcastContext(states=self._states, backend=key_context)
        super().__init__(function, key_context=key_context, **parts)
        self._inputs = SeveralInputs(
            (self.process_element, self.process_broadcast_element),
            pass_watermark=self._pass_watermark,
            emit=self._emit,
        )

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the broadcast states, at each start."""
        for descriptor in self._descriptors:
            state = context.operator_state_store.get_broadcast_state(descriptor)
            self._states[descriptor.name], self._views[descriptor.name] = state, state.read_only()
        super().initialize_state(context)

    def process1(self, element: OperatorInput) -> None:
        self._inputs.process(0, element)

    def process2(self, element: OperatorInput) -> None:
        self._inputs.process(1, element)

    def process_element(self, record: Record) -> None:
        self._call_with_key(record, self._key_of(record.value), self._broadcast_function.process_element)

    def process_broadcast_element(self, record: Record) -> None:
        """Process a broadcast element with no key selected."""
        self._keys.select_none()
        context = self._broadcast_context
        context.timestamp, context.position = record.timestamp, record.position
        self._broadcast_function.process_broadcast_element(record.value, context, self._collect_broadcast)

    def _collect_broadcast(self, value: object) -> None:
        """Emit a result of a broadcast element."""
        context = self._broadcast_context
        self._emit(Record(value=value, timestamp=context.timestamp, position=context.position))
