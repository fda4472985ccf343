"""The asynchronous wait operator: calls a function for each record and emits results as the mode allows.

Answers to Flink's `AsyncWaitOperator`. Invariant: an element is in the queue from its admission until its
results are handed to `emit`, and nowhere else; so a snapshot of the queue, with what was emitted
before it, is everything the operator ever took in (A59). All code here runs as mail or from the task's
default action, on one thread, one at a time; a snapshot therefore never sees half a step.

    process -> try_put (full: yield to mail) -> timer -> invoke ... handle -> mail -> emit one entry

Under a task with checkpoints the queue goes into one list state, element by element (A56), and comes back from it; who
keeps snapshots by other means uses `snapshot` and `open(restored)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from reference_impl.errors import MailboxClosed, SimulationStuck, WrongState
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import Deliverable, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.functions import (
    AsyncFunction,
    ask_for_substitute,
    begin_call,
    close_function,
    open_function,
)
from reference_impl.operator.gated_queue import GatedQueue
from reference_impl.operator.probe import Probe
from reference_impl.operator.queues import ElementQueue, Entry
from reference_impl.operator.quirks import Quirks
from reference_impl.operator.result import ResultHandle, Settlement
from reference_impl.operator.retry import (
    NO_RETRY,
    Attempts,
    ExponentialBackoff,
    JudgedSettlement,
    RetryStrategy,
    SharedBackoff,
)
from reference_impl.state.element_serializer import queue_element_from, to_state
from reference_impl.state.operator_state import PartitionableListState
from reference_impl.state.state_descriptor import ListStateDescriptor

__all__ = ["QUEUE_STATE", "AsyncWaitOperator"]

QUEUE_STATE = ListStateDescriptor(name="_async_wait_operator_state_")
"""Split among the subtasks when their number changes (A56, A64)."""


class AsyncWaitOperator:
    """One operator of one subtask: `open`, `process`..., `end_input`, `close`. Mutable.

    `emit` gets what leaves; `fail` gets what fails the task (A41). Executor and timers are of one mailbox.
    Build it with the entry points of `reference_impl.operator.build`, which check what they are given.
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
        copy_value: Callable[[Any], Any] | None,
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
        self.strategy = retry
        self.ended = False
        self.last_calls: dict[Attempts, None] = {}
        self.queue = queue
        if downstream is not None:
            self.queue = GatedQueue(queue, downstream=downstream, resume=self.emit_next)
        if quirks.backoff_is_shared and isinstance(retry, ExponentialBackoff):
            self.strategy = SharedBackoff(retry)
        self._retries = retry is not NO_RETRY and (retry.on_result is not None or retry.on_error is not None)
        self.function = function
        self._executor = executor
        self._copy_value = copy_value
        self._state: PartitionableListState[Any] | None = None
        self._restored: list[QueueElement] = []

    def __len__(self) -> int:
        """The elements admitted and not yet emitted."""
        return len(self.queue)

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once; a task that looks need not block in `process` (A33)."""
        return self.queue.room

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Register the list state, and take over what it holds (C45); `open` replays it."""
        self._state = context.operator_state_store.get_list_state(QUEUE_STATE)
        self._restored = [queue_element_from(item) for item in self._state.get()]

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Replay the elements of a snapshot, each called anew, before any other input (A61).

        More of them than the capacity is legal: the replay yields, and may emit, until slots are free (A62).
        """
        open_function(self.function)
        found, self._restored = self._restored, []
        for element in chain(found, restored):  # one by one: who hands them in may want to know how far it is
            self.process(element)

    def process(self, element: OperatorInput) -> None:
        """Admit `element`, waiting for a slot if there is none (A27, A51, A55); a marker passes (A54).

        The timeout counts from the slot: not the wait for it, but the time inside `invoke` (A28).
        """
        if type(element) is not Record:
            self._process_control(element)
            return
        if self._copy_value is not None:
            element = replace(element, value=self._copy_value(element.value))  # ours alone (FLINK-12351)
        if self._retries:
            self._process_with_retry(element)
            return
        entry = Settlement(self, element)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        if self.probe is not None:
            self.announce(element, 1)
        if self.timeout_ms:
            self.timeouts.add(entry)
        begin_call(self.function, element.value, entry)

    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(self, record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        Attempts(self, entry, self.timers.now_ms()).begin()

    def _process_control(self, element: OperatorInput) -> None:
        match element:
            case Watermark() | WatermarkStatus():
                entry = Entry(element)
                if not self.queue.try_put(entry):
                    self._wait_for_slot(entry)
                self.emit_completed()
            case LatencyMarker() | RecordAttributes():
                self.emit(element)
            case _:
                raise TypeError(f"Cannot process {element!r}; it is no input of an operator")

    def snapshot(self) -> tuple[QueueElement, ...]:
        """The elements whose results have not left, in replay order; disturbs no call (A56, A57)."""
        return tuple(self.queue)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """The queue as it is, in the place of what the state held before; no call is waited for (A56, A57)."""
        if self._state is None:
            raise WrongState(
                f"operator {context.operator_id!r} has no state; call initialize_state first (C45)"
            )
        try:
            self._state.update([to_state(element) for element in self.snapshot()])
        except Exception:
            self._state.clear()  # half a queue must not pass for a whole one; the checkpoint fails (A60)
            raise

    def end_input(self) -> None:
        """Drain: return when every element has left (A66); who waits for a retry is called at once (A85)."""
        self.ended = True
        last_calls, self.last_calls = self.last_calls, {}
        for attempts in last_calls:
            attempts.last_call()
        try:
            while len(self.queue):
                self._executor.yield_()
        except SimulationStuck as stuck:
            self._note(stuck, "the end of input")
            raise

    def close(self) -> None:
        """Release the function, drop what is queued; a later outcome or timer does nothing (A68, A69)."""
        if self.closed:
            return
        self.closed = True
        self.probe = None
        self.emit = _emit_nothing
        close_function(self.function)

    def _wait_for_slot(self, entry: Entry) -> None:
        """Until `entry` is put. The mails run meanwhile are our own and downstream's: no checkpoint's (A30)."""
        try:
            self._executor.yield_()
            while not self.queue.try_put(entry):
                self._executor.yield_()
        except SimulationStuck as stuck:
            self._note(stuck, "a slot")
            raise

    def _note(self, stuck: SimulationStuck, goal: str) -> None:
        oldest = next(iter(self.queue), None)
        stuck.add_note(f"The operator waits for {goal}, with {len(self)} in flight, first {oldest}")

    def announce(self, record: Record, attempt: int) -> None:
        """Tell the probe of a call; before its timer is set, or it would seem to time out too early."""
        if self.probe is not None:
            self.probe.called(record, attempt=attempt)

    def time_out(self, value: Any, handle: ResultHandle) -> None:
        """Ask the function for a substitute."""
        ask_for_substitute(self.function, value, handle)

    def emit_completed(self) -> None:
        """One entry, and mail for the next: other mail gets its turn between two (A38)."""
        if self.queue.emit_completed(self.emit):
            self.emit_next()

    def emit_next(self) -> None:
        """`emit_completed` as mail."""
        try:
            self.execute(self.emit_completed, "emit the next entry")
        except MailboxClosed:
            return  # the records stay in the queue, and so in the last snapshot (FLINK-24846)


def _emit_nothing(element: OperatorInput) -> None:
    """What a closed operator emits."""
