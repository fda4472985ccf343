"""Several operators in one task: what one emits, the next processes at once, on the same thread.

Answers to Flink's `Environment`, `RecordWriter` and `RecordWriterDelegate`. Invariant: the environment does not change
while the task lives. A writer sends elements and events in the order in which they were given, except that a priority
event may overtake (C3, C27).

Answers to Flink's `OperatorChain`, `RegularOperatorChain` and `FinishedOperatorChain`. Invariant: an operator's mail
has its place in the chain as priority, so a yield runs mail of that operator and of those downstream, never of those
upstream (A30, M25), and no emission is re-entered (A90). Operators are opened from the tail and finished from the head
(M45, M46).

Answers to an `AsyncWaitOperatorFactory` with a `StreamOperatorStateHandler`. Invariant: a snapshot holds the elements
unserialised; the code that stores the checkpoint serialises each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from reference_impl.checkpoint_events import (
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
    CheckpointOptions,
    StopMode,
    can,
)
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.elements import OperatorInput, QueueElement, Record
from reference_impl.errors import WrongState
from reference_impl.mailbox.availability import AVAILABLE, Availability
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshots import SnapshotFuture
from reference_impl.task.stream_operator import (
    Emit,
    OperatorStateHandler,
    StreamOperator,
    StreamOperatorFactory,
    StreamOperatorWrapper,
    TwoInputStreamOperator,
    WithRoom,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnvironment:
    """What a task knows of its job, and the callbacks through which it reports. Passed to the task's constructor.

    Answers to Flink's `Environment`. Invariant: it does not change while the task lives.
    """

    task_name: str
    decline_checkpoint: Callable[[int, CheckpointException], None]
    """Tells the coordinator that the task does not take part in a checkpoint (C16)."""
    notify_end_of_data: Callable[[], None] = lambda: None
    """Tells the coordinator that the task has processed its last record (M41)."""
    restored_checkpoint_id: int | None = None
    checkpoints_after_tasks_finish: bool = True
    """Whether a task without more data stays until a last checkpoint is complete (C18, FLIP-147)."""
    read_channel_state: Callable[[], None] = lambda: None
    """Puts in-flight data back into the channels. Runs in `channel_io`; an exception fails the task (M46)."""
    channel_io: Callable[[Callable[[], None]], None] = lambda action: action()
    """Runs one action, on any thread, now or later."""
    changelog: Callable[[], Availability] | None = None
    """Whether the state changelog accepts changes (M42); None if there is no changelog."""


class RecordWriter(Protocol):
    """The output of a chain's last operator: partitions of a network, or a sink.

    Answers to Flink's `RecordWriter` and `RecordWriterDelegate`. Invariant: elements and events leave in the order in
    which they were given, except that a priority event may overtake (C3, C27).
    """

    @property
    def is_available(self) -> Availability:
        """Whether a record could be written without waiting; if not, the task is under soft back pressure (M42)."""

    @property
    def all_data_processed(self) -> Availability:
        """Whether every reader has processed everything before the `EndOfData` (M47)."""

    def emit(self, element: OperatorInput) -> None:
        """Send a record to one reader, anything else to all."""

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None: ...

    def flush(self) -> None:
        """Send everything that is buffered."""


class LocalRecordWriter:
    """A writer without a network: passes elements and events on at once, and always has room."""

    is_available: Availability = AVAILABLE
    all_data_processed: Availability = AVAILABLE

    def __init__(
        self,
        emit: Callable[[OperatorInput], None],
        *,
        on_event: Callable[[ChannelEvent], None] = lambda _event: None,
    ) -> None:
        self.emit = emit
        self._on_event = on_event

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """Send an event; nothing is in flight that a priority event could overtake."""
        del is_priority
        self._on_event(event)

    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorLink:
    """One operator of a chain, before it is built."""

    operator_id: str
    """Names the operator's state in checkpoints; unique in the job."""
    build: StreamOperatorFactory
    state_handler: Callable[[Any, Timers], OperatorStateHandler] | None = None
    """Makes the state handler from the operator and its timers; None for an operator without state."""


class OperatorChain:
    """The operators of one task, from head to tail. Mutable."""

    wrapper: ClassVar[type[StreamOperatorWrapper]] = StreamOperatorWrapper

    def __init__(
        self,
        links: Sequence[OperatorLink],
        *,
        mailbox: Mailbox,
        timers: Callable[[MailboxExecutor], Timers],
        record_writer: RecordWriter,
        fail: Callable[[BaseException], None],
        downstream: Callable[[], Availability] | None = None,
    ) -> None:
        """`timers` makes a timer service for each operator (T6); `downstream` says whether the writer has room."""
        if not links:
            raise ValueError("a chain has no operator; give one or more")
        if len({link.operator_id for link in links}) < len(links):
            raise ValueError(f"two operators of a chain share an id: {[link.operator_id for link in links]}")
        self._record_writer = record_writer
        self._wrappers: list[StreamOperatorWrapper] = []
        emit: Emit = record_writer.emit
        for place in range(len(links) - 1, -1, -1):
            link, executor = links[place], MailboxExecutor(mailbox, place)
            own_timers = timers(executor)
            operator: Any = link.build(
                executor=executor, timers=own_timers, emit=emit, fail=fail, downstream=downstream
            )
            handler = None if link.state_handler is None else link.state_handler(operator, own_timers)
            wrapper = self.wrapper(
                operator,
                operator_id=link.operator_id,
                executor=executor,
                timers=own_timers,
                state_handler=handler,
                is_head=place == 0,
            )
            self._wrappers.insert(0, wrapper)
            if can(operator, WithRoom):  # otherwise the next one decides
                downstream = partial(getattr, operator, "room")
            if place > 0:
                if can(operator, TwoInputStreamOperator):
                    raise TypeError(
                        f"the operator {link.operator_id!r} has two inputs: put it at the head of its chain"
                    )
                emit = operator.process
        self.ask_for_room = downstream
        """The same as `room`; None if there is always room."""
        head: Any = self._wrappers[0].operator
        two = can(head, TwoInputStreamOperator)
        self.doors: list[Emit] = [head.process1, head.process2] if two else [head.process]
        """For each input of the head operator, the method that takes its elements."""

    is_task_deployed_as_finished = False
    """Whether the task had finished before the restored checkpoint (C19)."""

    @property
    def operators(self) -> list[StreamOperator | TwoInputStreamOperator]:
        """The operators from head to tail."""
        return [wrapper.operator for wrapper in self._wrappers]

    @property
    def operator_ids(self) -> list[str]:
        """Their ids from head to tail."""
        return [wrapper.operator_id for wrapper in self._wrappers]

    @property
    def timers(self) -> list[Timers]:
        """Their timers from head to tail."""
        return [wrapper.timers for wrapper in self._wrappers]

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once, according to the first operator that can tell."""
        return AVAILABLE if self.ask_for_room is None else self.ask_for_room()

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether an operator emits on the final checkpoint, for which the end of data must wait (FLINK-38614)."""
        return any(wrapper.emits_on_final_checkpoint for wrapper in self._wrappers)

    def process(self, element: OperatorInput) -> None:
        """Pass `element` to the head's first input."""
        self.doors[0](element)

    def initialize_state_and_open_operators(self) -> None:
        """Initialize and open from the tail on, since an operator may emit when it is opened (A62, M46)."""
        for wrapper in reversed(self._wrappers):
            wrapper.initialize_state_and_open()

    def end_head_input(self, input_id: int = 1) -> None:
        """The head's input `input_id` has ended; each later operator ends when the one before it finishes."""
        self._wrappers[0].end_input(input_id)

    def finish_operators(self, mode: StopMode) -> None:
        """Finish from the head on: what one emits last, the next processes before it ends (M45, FLINK-14231)."""
        for wrapper in self._wrappers:
            wrapper.finish(mode)

    def quiesce_timers(self) -> None:
        """Stop all timers (M47)."""
        for wrapper in self._wrappers:
            wrapper.timers.quiesce()

    def flush_outputs(self) -> None:
        """Send on everything that the tail has emitted."""
        self._record_writer.flush()

    def close_all_operators(self) -> None:
        """Close every operator even if one raises; then raise the first error (A70). A second call does nothing."""
        _call_all(wrapper.close for wrapper in self._wrappers)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Prepare from the head on: what is emitted here precedes the barrier in the whole chain (C3)."""
        for wrapper in self._wrappers:
            wrapper.prepare_snapshot_pre_barrier(checkpoint_id)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """Send `event` to all readers of the tail's output."""
        self._record_writer.broadcast_event(event, is_priority=is_priority)

    def alignment_barrier_timeout(self, barrier: CheckpointBarrier) -> None:
        """Let the barrier overtake in-flight output, if the writer supports that (C26)."""
        overtake = getattr(self._record_writer, "alignment_barrier_timeout", None)
        if overtake is not None:
            overtake(barrier)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Tell the writer, if it supports that, to forget the checkpoint."""
        forget = getattr(self._record_writer, "abort_checkpoint", None)
        if forget is not None:
            forget(checkpoint_id)

    def snapshot_state(
        self,
        futures: MutableMapping[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Put each operator's part into `futures`, from the tail (C3); on an error the caller cancels them (C5)."""
        for wrapper in reversed(self._wrappers):
            wrapper.snapshot_state(futures, metadata, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify all operators, from the tail; then raise the first error (C12)."""
        _call_all(partial(one.notify_checkpoint_complete, checkpoint_id) for one in reversed(self._wrappers))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify all operators, from the tail; then raise the first error (C12)."""
        _call_all(partial(one.notify_checkpoint_aborted, checkpoint_id) for one in reversed(self._wrappers))

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Notify all state handlers, from the tail; then raise the first error (C13)."""
        _call_all(partial(one.notify_checkpoint_subsumed, checkpoint_id) for one in reversed(self._wrappers))


class FinishedOperatorChain(OperatorChain):
    """A chain that had finished before the restored checkpoint: no operator exists, and events pass through (C19)."""

    is_task_deployed_as_finished = True

    def __init__(self, operator_ids: Sequence[str], *, record_writer: RecordWriter, inputs: int = 1) -> None:
        self._operator_ids = list(operator_ids)
        self._record_writer = record_writer
        self._wrappers = []
        self.ask_for_room = None
        self.doors = [self._pass_by] * inputs

    def _pass_by(self, element: OperatorInput) -> None:
        """Pass on the last watermark, for which readers may be waiting."""
        if type(element) is Record:
            raise WrongState(
                f"{self._operator_ids[0]!r} had finished before the restored checkpoint, but gets {element}"
            )
        self._record_writer.emit(element)

    @property
    def operator_ids(self) -> list[str]:
        return self._operator_ids

    def end_head_input(self, input_id: int = 1) -> None: ...


def _call_all(actions: Iterable[Callable[[], None]]) -> None:
    """Call each; then raise the first error, with the others as notes."""
    first: Exception | None = None
    for action in actions:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - raised below, after all were called
            if first is None:
                first = error
            else:
                first.add_note(f"suppressed: {error!r}")
    if first is not None:
        raise first


_Elements = tuple[OperatorInput, ...]


class AsyncOperator(Protocol):
    """The methods that every implementation of the operator has."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Process the elements of a snapshot again (A61)."""

    def process(self, element: OperatorInput) -> None:
        """Admit an element (A27)."""

    def snapshot(self) -> Sequence[QueueElement]:
        """The elements whose results were not emitted (A56)."""

    def end_input(self) -> None:
        """Return when everything was emitted (A66)."""

    def close(self) -> None: ...


class BuildAsyncOperator(Protocol):
    """Builds the operator at its place in the chain."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> AsyncOperator: ...


class PatientlyFed:
    """Wraps an operator that is fed even when its queue is full; `process` then runs mail until a slot is free.

    Mutable. This is Flink's behaviour before FLINK-39835. `entering` holds the element that waits for a slot; a
    snapshot must contain it (FLINK-7949).
    """

    def __init__(self, operator: AsyncOperator, restored: Iterable[QueueElement]) -> None:
        self._operator = operator
        self._restored = restored
        self.entering: _Elements = ()
        self.snapshot = operator.snapshot

    def open(self) -> None:
        restored, self._restored = self._restored, ()
        self._operator.open(restored)

    def process(self, element: OperatorInput) -> None:
        self.entering = (element,)
        self._operator.process(element)
        self.entering = ()

    def end_input(self) -> None:
        self._operator.end_input()

    def close(self) -> None:
        self._operator.close()


class Fed:
    """Wraps an operator that is fed only while it has room."""

    entering = ()

    def __init__(self, operator: AsyncOperator, restored: Iterable[QueueElement]) -> None:
        self._operator = operator
        self._restored = restored
        self.process = operator.process
        self.snapshot = operator.snapshot

    def open(self) -> None:
        restored, self._restored = self._restored, ()
        self._operator.open(restored)

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""
        return self._operator.room

    def end_input(self) -> None:
        self._operator.end_input()

    def close(self) -> None:
        self._operator.close()


def async_link(
    build: BuildAsyncOperator,
    *,
    operator_id: str,
    restored: Iterable[QueueElement],
    is_hard: bool,
    blocked: Callable[[_Elements], _Elements],
) -> OperatorLink:
    """Build the link. `is_hard` feeds a full queue; `blocked` gives what a snapshot holds of the waiting element."""
    kind = PatientlyFed if is_hard else Fed

    def built(*, downstream: Callable[[], Availability] | None, **parts: Any) -> Fed | PatientlyFed:
        if downstream is not None:  # not every implementation has this parameter
            parts["downstream"] = downstream
        return kind(build(**parts), restored)

    return OperatorLink(
        operator_id=operator_id, build=built, state_handler=partial(_ElementState, blocked=blocked)
    )


class _ElementState:
    """An `OperatorStateHandler` whose state is the operator's elements; `open` restores them."""

    def __init__(
        self,
        operator: Fed | PatientlyFed,
        timers: Timers,
        *,
        blocked: Callable[[_Elements], _Elements],
    ) -> None:
        del timers
        self._operator = operator
        self._blocked = blocked

    def initialize_operator_state(self, operator: object) -> None:
        """Does nothing: the operator's `open` restores the elements."""

    def snapshot_state(
        self, operator: object, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        """Elements are frozen values: nothing is copied, and there is no asynchronous part."""
        del operator, metadata, options
        elements = (*self._operator.snapshot(), *self._blocked(self._operator.entering))
        return OperatorSnapshotFutures(managed_operator_state=SnapshotFuture.of(elements))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None: ...

    def close(self) -> None: ...
