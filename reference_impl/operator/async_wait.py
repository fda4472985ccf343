"""The asynchronous wait operator: calls a function for each record and emits the results when they arrive.

Answers to Flink's `StreamElementSerializer`. Invariant: an element comes back equal, its value as the state's
serializer decodes it; an unknown kind of element is refused (A61).

Answers to Flink's `AsyncWaitOperator`. Invariant: an element is in the queue from its admission until its results
have been passed to `emit`; the queue and what was emitted together account for every element received, so a snapshot
of the queue is a complete checkpoint (A59). All code here runs on the task's thread, as mail or as the default
action, one step at a time: no snapshot falls inside a step.

    process -> try_put (full: run mail until a slot is free) -> set the timer -> invoke
    handle  -> mail -> set the entry's results -> emit one entry
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from threading import get_ident
from typing import Any

from msgspec.structs import replace

from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.elements import (
    LatencyMarker,
    OperatorInput,
    QueueElement,
    Record,
    RecordAttributes,
    Watermark,
    WatermarkStatus,
)
from reference_impl.errors import CallbackFailed, MailboxClosed, SimulationStuck, WrongState
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import Deliverable, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator import functions
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.queues import CheckedEntry, ElementQueue, Entry, GatedQueue
from reference_impl.operator.result import Probe, Settlement
from reference_impl.operator.retry import (
    Attempts,
    JudgedSettlement,
    Quirks,
    RetryStrategy,
    may_retry,
    strategy_for,
)
from reference_impl.state.operator_state import PartitionableListState
from reference_impl.state.state_descriptor import ListStateDescriptor


def to_state(element: OperatorInput) -> tuple[object, ...]:
    """`element` as a tuple that begins with its kind."""
    match element:
        case Record():
            return ("record", element.value, element.timestamp, element.position)
        case Watermark():
            return ("watermark", element.timestamp, element.position)
        case WatermarkStatus():
            return ("status", element.idle, element.position)
        case LatencyMarker():
            return ("latency marker", element.id)
        case RecordAttributes():
            return ("attributes", element.backlog)


def from_state(item: object) -> OperatorInput:
    """The element from such a tuple. Raises WrongState for anything else (A61)."""
    match item:
        case ("record", value, (int() | None) as timestamp, (int() | None) as position):
            return Record(value=value, timestamp=timestamp, position=position)
        case ("watermark", int() as timestamp, (int() | None) as position):
            return Watermark(timestamp=timestamp, position=position)
        case ("status", bool() as idle, (int() | None) as position):
            return WatermarkStatus(idle=idle, position=position)
        case ("latency marker", int() as number):
            return LatencyMarker(id=number)
        case ("attributes", bool() as backlog):
            return RecordAttributes(backlog=backlog)
    raise WrongState(f"{item!r} is no stream element; the state was written by something else (A61)")


def queue_element_from(item: object) -> QueueElement:
    """The same for a queued element; refuses latency markers and attributes, which are never queued (A61)."""
    element = from_state(item)
    if isinstance(element, LatencyMarker | RecordAttributes):
        raise WrongState(f"{element!r} is never queued; the state was written by something else (A61)")
    return element


QUEUE_STATE = ListStateDescriptor(name="_async_wait_operator_state_")
"""One item per queued element; on rescaling, they are split among the subtasks (A56, A64)."""


class AsyncWaitOperator:
    """The operator of one subtask, in this order: `open`, `process` for each element, `end_input`, `close`. Mutable.

    `emit` receives the output, `fail` an error that must fail the task (A41). `executor` and `timers` belong to one
    mailbox. Build it with `reference_impl.operator.build`, which checks the arguments.
    """

    def __init__(
        self,
        *,
        function: AsyncFunction,
        queue: ElementQueue,
        timeout_ms: int,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
        probe: Probe | None,
        retry: RetryStrategy,
        quirks: Quirks,
        copy_value: Callable[..., object] | None,
        downstream: Callable[[], Availability] | None,
    ) -> None:
        self.thread = get_ident()
        self.priority = executor.priority
        self.closed = False
        self.put: Callable[[Deliverable], None] = executor.put
        self.execute: Callable[[Callable[[], None], str], None] = executor.execute
        self.emit: Callable[[OperatorInput], None] = emit
        self.fail: Callable[[BaseException], None] = fail
        self.timers = timers
        self.timeout_ms = timeout_ms
        self.timeouts = timers.timeouts(timeout_ms)
        self.probe = probe
        self.quirks = quirks
        self.strategy = strategy_for(retry, quirks)
        self.ended = False
        self.last_calls: dict[Attempts, None] = {}
        self.queue = queue
        if downstream is not None:
            self.queue = GatedQueue(queue, downstream=downstream, resume=self.emit_next)
        self.function = function
        self.time_out = partial(functions.ask_for_substitute, function)
        """Let the function's `timeout` give an outcome in place of the call's."""
        self._retries = may_retry(retry)
        self._executor = executor
        self._copy_value = copy_value
        self._state: PartitionableListState[Any] | None = None
        self._recovered_elements: list[QueueElement] = []

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def room(self) -> Availability:
        """Whether a slot is free; a task that checks this first never blocks in `process` (A33)."""
        return self.queue.room

    def initialize_state(self, context: StateInitializationContext) -> None:
        self._state = context.operator_state_store.get_list_state(QUEUE_STATE)
        self._recovered_elements = [queue_element_from(item) for item in self._state.get()]

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Process the elements of the checkpoint, and those of `restored` one by one, before any new input (A61).

        They may outnumber the slots: `process` then runs mail, and so may emit, until a slot is free (A62).
        """
        functions.open_function(self.function)
        recovered, self._recovered_elements = self._recovered_elements, []
        for element in chain(recovered, restored):
            self.process(element)

    def process(self, element: OperatorInput) -> None:
        """Admit `element`; if the queue is full, run mail until a slot is free (A27, A51, A55).

        The timeout starts once the record has its slot, and includes the time spent inside `invoke` (A28).
        """
        if type(element) is not Record:
            self._process_control(element)
            return
        if self._copy_value is not None:  # the sender reuses its objects (FLINK-12351)
            element = replace(element, value=self._copy_value(element.value))
        if self._retries:
            self._process_with_retry(element)
            return
        entry = Settlement(owner=self, element=element)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        if self.probe is not None:
            self.announce(element, 1)
        if self.timeout_ms:
            self.timeouts.add(entry)
        value = element.value
        try:  # as `begin_call`, for each record
            self.function.invoke(value, entry)
        except Exception as raised:
            raise CallbackFailed("invoke", value, raised) from raised

    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(owner=self, element=record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        Attempts(self, entry, self.timers.now_ms()).begin()

    def _process_control(self, element: OperatorInput) -> None:
        if isinstance(element, Watermark | WatermarkStatus):
            entry = CheckedEntry(element)
            if not self.queue.try_put(entry):
                self._wait_for_slot(entry)
            self.emit_completed()
        elif isinstance(element, OperatorInput):  # the other kinds overtake what is queued (A54)
            self.emit(element)
        else:
            raise TypeError(f"Cannot process {element!r}; it is no input of an operator")

    def emit_completed(self) -> None:
        """Emit one entry if possible, and the next by another mail, so that other mail can run between (A38)."""
        if self.queue.emit_completed(self.emit):
            self.emit_next()

    def emit_next(self) -> None:
        """Enqueue `emit_completed` as mail."""
        try:
            self.execute(self.emit_completed, "emit the next entry")
        except MailboxClosed:
            return  # what is not emitted is in the queue, and so in the last snapshot (FLINK-24846)

    def announce(self, record: Record, attempt: int) -> None:
        """Report a call to the probe; before the timer is set, so that a timeout never seems to come early."""
        if self.probe is not None:
            self.probe.called(record, attempt=attempt)

    def snapshot(self) -> tuple[QueueElement, ...]:
        """The queued elements in replay order; running calls are neither awaited nor changed (A56, A57)."""
        return tuple(self.queue)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Replace the content of the state by the queue: all of it or, if that fails, nothing (A60)."""
        if self._state is None:
            raise WrongState(
                f"operator {context.operator_id!r} has no state; call initialize_state first (C45)"
            )
        try:
            self._state.update([to_state(element) for element in self.snapshot()])
        except Exception:
            self._state.clear()
            raise

    def end_input(self) -> None:
        """Return when the queue is empty (A66); records in retry backoff are called at once (A85)."""
        self.ended = True
        last_calls, self.last_calls = self.last_calls, {}
        for attempts in last_calls:
            attempts.last_call()
        self._run_mail_until(lambda: not len(self.queue), "the end of input")

    def close(self) -> None:
        """Close the function and stop emitting; later outcomes and timers have no effect (A68, A69)."""
        if self.closed:
            return
        self.closed = True
        self.probe = None
        self.emit = lambda _: None
        functions.close_function(self.function)

    def _wait_for_slot(self, entry: Entry) -> None:
        """Put `entry` when a slot is free. Only mail of this operator and downstream runs: no checkpoint (A30)."""
        self._run_mail_until(partial(self.queue.try_put, entry), "a slot")

    def _run_mail_until(self, reached: Callable[[], bool], goal: str) -> None:
        try:
            while not reached():
                self._executor.yield_()
        except SimulationStuck as stuck:
            oldest = next(iter(self.queue), None)
            stuck.add_note(f"The operator waits for {goal}, with {len(self)} in flight, first {oldest}")
            raise
