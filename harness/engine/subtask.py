"""The task of one subtask at any level: a `StreamTask` between a source with positions and a sink.

Answers to Flink's `SourceOperatorStreamTask`. Its parts:

    source -> PositionedInput -> [keyed or upstream operator ->] lookups -> the coordination's `emit`

Invariants: checkpoints are `StreamTask`'s own, by barrier or by mail, and are handed to the coordination in the task's
thread; the task ends when its last checkpoint, taken after the end of its data, is complete (C18).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import (
    OperatorSubtaskState,
    TaskStateSnapshot,
    TaskStateStore,
)
from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    CheckpointedChain,
    SubtaskCheckpointCoordinator,
)
from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import MAX_PRIORITY, MIN_PRIORITY, Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import (
    Checkpoint,
    DueTime,
    PositionedInput,
    Reader,
    Source,
    StreamInputProcessor,
    StreamOneInputProcessor,
)
from reference_impl.task.operator_chain import (
    BuildAsyncOperator,
    LocalRecordWriter,
    OperatorChain,
    OperatorLink,
    TaskEnvironment,
    async_link,
)
from reference_impl.task.stream_task import StreamTask

LOOKUPS = "lookups"
"""The id of the asynchronous operator."""
_NAME = "the subtask"


class Coordination(Reader, Protocol):
    """Receives the task's output and checkpoints, before they have an effect outside."""

    @property
    def is_complete_at_once(self) -> bool:
        """Whether a checkpoint is complete when `completes` returns; otherwise the task is notified."""

    @property
    def cuts_at_end(self) -> bool:
        """Whether the task triggers its last checkpoint itself, or waits for the coordination to trigger it."""

    def listens(self, notify: Callable[[int], None]) -> None:
        """Sets the function that notifies the task by mail of a completed checkpoint."""

    def emit(self, element: OperatorInput) -> None:
        """An element leaves the last operator."""

    def completes(self, checkpoint: Checkpoint) -> None:
        """Makes the subtask's part of a checkpoint durable (with the atomic sink also visible), or raises."""

    def declines(self, number: int) -> None:
        """The task declines checkpoint `number`, because it does not run yet or any more."""

    def finishing(self) -> None:
        """All data has been emitted; the next checkpoint is the last."""

    def completed(self, number: int) -> None:
        """Checkpoint `number` is complete: make its output visible."""

    def drained(self) -> None:
        """The last checkpoint is complete and the operators are closed."""


class HeadInput(StreamInputProcessor, Protocol):
    """The input processor of a head; it knows the positions of barriers."""

    def cut_at(self, checkpoint: int) -> int:
        """The source position from which `checkpoint` resumes."""


class Head(Protocol):
    """An operator with keyed state in front of the lookups, and the inputs that feed it."""

    def link(self, replayed: Iterator[object]) -> OperatorLink:
        """The head operator, with its state from the front of `replayed`."""

    def elements(self, states: Mapping[str, OperatorSubtaskState]) -> tuple[object, ...]:
        """The operator's state, to be put in front of a checkpoint's elements."""

    def run_async(self, finish: Callable[[], None]) -> None:
        """Runs the asynchronous part of a snapshot, perhaps after further elements."""

    def inputs(
        self,
        source: Source,
        *,
        task: Subtask,
        chain: OperatorChain,
        position: int,
        due: DueTime,
        timers: Timers,
        executor: MailboxExecutor,
    ) -> HeadInput:
        """Splits `source` into inputs that feed `chain` and whose barriers trigger checkpoints of `task`."""


class InFront(Reader, Protocol):
    """An asynchronous operator in front of the lookups; reads the source in place of the coordination."""

    def held(self, elements: Sequence[object]) -> int:
        """How many of a checkpoint's elements are this operator's; they are the last ones."""

    def link(self, restored: Iterator[object], *, position: int) -> OperatorLink:
        """The operator with its elements of the checkpoint, of which the first stands at `position`."""

    def around(self, lookups: BuildAsyncOperator) -> BuildAsyncOperator:
        """`lookups`, whose operator tells the coordination when its own input ends."""

    def elements(self, states: Mapping[str, OperatorSubtaskState]) -> tuple[object, ...]:
        """What the operator holds, to be put behind the elements of the lookups."""


class Behind(Protocol):
    """A task behind this one."""

    def in_front_of(
        self, emit: Callable[[OperatorInput], None], *, replayed: Sequence[object], position: int
    ) -> Callable[[OperatorInput], None]:
        """Takes what leaves the last operator, and passes it on to `emit`; the attempt resumes at `position`."""


class Subtask:
    """Call `run`, then `close`. Mutable: builds its task in `run`."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        mailbox: Mailbox,
        timers: Callable[[MailboxExecutor], Timers],
        source: Source,
        lookups: BuildAsyncOperator,
        coordination: Coordination,
        head: Head | None = None,
        in_front: InFront | None = None,
        behind: Behind | None = None,
        is_hard: bool = False,
        downstream: Callable[[], Availability] | None = None,
        checkpoint_interval_ms: int = 0,
    ) -> None:
        """`is_hard`: a record enters even if the queue is full, and checkpoints go on while it waits for a slot.

        `downstream`: the availability of the output; None: always available. `checkpoint_interval_ms`: interval of
        checkpoints triggered by mail; 0: the source's barriers trigger them.
        """
        self.mailbox_processor = MailboxProcessor(mailbox)
        self._loop = loop
        self._mailbox = mailbox
        self._timers = timers
        self._source = source
        self._lookups = lookups
        self._coordination = coordination
        self._head = head
        self._in_front = in_front
        self._behind = behind
        self._is_hard = is_hard
        self._downstream = downstream
        self._interval_s = checkpoint_interval_ms / 1000
        self._next_checkpoint: asyncio.TimerHandle | None = None
        self._last_checkpoint = 0
        self._is_asked = False
        self._cut_at: Callable[[int], int]
        self._task: StreamTask | None = None

    # ---------------------------------------------------------------------------------------------- life

    def run(self, checkpoint: Checkpoint | None = None) -> None:
        """Restores `checkpoint`, then runs to the end of the input. Raises the task's failure."""
        task = self._task = self._build(checkpoint)
        self._coordination.listens(self.notify_complete)
        self._await_checkpoint()
        task.invoke()
        self._coordination.drained()

    def close(self) -> None:
        """Closes operators and mailbox, also after a failure or without a run."""
        self._await_no_checkpoint()
        if self._task is None:
            self.mailbox_processor.close()
        else:
            self._task.clean_up()

    def _build(self, checkpoint: Checkpoint | None) -> StreamTask:
        elements = () if checkpoint is None else checkpoint.elements
        position = 0 if checkpoint is None else checkpoint.position
        held = 0 if self._in_front is None else self._in_front.held(elements)
        self._last_checkpoint = 0 if checkpoint is None else checkpoint.number
        emit: Callable[[OperatorInput], None] = self._coordination.emit
        if self._behind is not None:
            emit = self._behind.in_front_of(emit, replayed=elements, position=position)
        writer = LocalRecordWriter(emit)
        chain = OperatorChain(
            self._links(iter(elements), queued=len(elements) - held, position=position),
            mailbox=self._mailbox,
            timers=self._timers,
            record_writer=writer,
            fail=self.mailbox_processor.report_throwable,
            downstream=self._downstream,
        )
        processor = self._input_processor(chain, position + held)
        checkpoints = HandedCheckpoints(
            task_name=_NAME,
            fail=self.mailbox_processor.report_throwable,
            hand_over=self._hand_over,
            completed=self._coordination.completed,
            run_async=(lambda finish: finish()) if self._head is None else self._head.run_async,
        )
        return StreamTask(
            loop=self._loop,
            mailbox_processor=self.mailbox_processor,
            operator_chain=chain,
            input_processor=processor,
            record_writer=writer,
            environment=TaskEnvironment(
                task_name=_NAME,
                decline_checkpoint=self._declines,
                notify_end_of_data=self._end_of_data,
                restored_checkpoint_id=None if checkpoint is None else checkpoint.number,
            ),
            checkpoints=checkpoints,
            checkpoint_priority=MAX_PRIORITY if self._is_hard else MIN_PRIORITY,
        )

    def _links(
        self, replayed: Iterator[QueueElement], *, queued: int, position: int
    ) -> Sequence[OperatorLink]:
        """The operators; the first `queued` of `replayed` belong to the lookups, which are opened first."""
        heads = [] if self._head is None else [self._head.link(replayed)]
        if self._in_front is not None:
            heads, replayed = [self._in_front.link(replayed, position=position)], islice(replayed, queued)
        build = self._lookups if self._in_front is None else self._in_front.around(self._lookups)
        lookups = async_link(
            build,
            operator_id=LOOKUPS,
            restored=replayed,
            is_hard=self._is_hard,
            blocked=self._blocked,
        )
        return [*heads, lookups]

    def _input_processor(self, chain: OperatorChain, position: int) -> StreamInputProcessor:
        executor = self.mailbox_processor.main_mailbox_executor
        timers = chain.timers[0]  # the source is chained to the head operator and uses its timers
        due = DueTime(loop=self._loop, timers=timers)
        if self._head is None:
            positioned = PositionedInput(
                self._source,
                position=position,
                reader=self._in_front or self._coordination,
                induce=self._induce,
                due=due,
            )
            self._cut_at = positioned.cut_at
            return StreamOneInputProcessor(positioned, operator_chain=chain)
        inputs = self._head.inputs(
            self._source,
            task=self,
            chain=chain,
            position=position,
            due=due,
            timers=timers,
            executor=executor,
        )
        self._cut_at = inputs.cut_at
        return inputs

    def _blocked(self, entering: tuple[OperatorInput, ...]) -> tuple[OperatorInput, ...]:
        """The state that a snapshot holds for the element that waits for a slot."""
        return entering

    # --------------------------------------------------------------------------------------- checkpoints

    def _induce(self, number: int) -> None:
        self.trigger_checkpoint_on_barrier(
            CheckpointMetaData(checkpoint_id=number), CheckpointOptions(), CheckpointMetrics()
        )

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> None:
        """Takes the checkpoint now, because all its barriers have arrived."""
        assert self._task is not None, "only a task that runs reads barriers"
        self._task.trigger_checkpoint_on_barrier(metadata, options, metrics)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        """Never called: on every input barriers come in the order of their numbers."""
        raise AssertionError(f"checkpoint {checkpoint_id} was aborted: {exception}") from exception

    def trigger(self, number: int) -> None:
        """Sends the mail that triggers checkpoint `number`."""
        if self._task is None:
            self._is_asked = False
            self._coordination.declines(number)
        else:
            metadata = CheckpointMetaData(checkpoint_id=number)
            self._task.trigger_checkpoint_async(metadata, CheckpointOptions())

    def trigger_next(self) -> None:
        """Sends the mail that triggers the next checkpoint, unless one is pending."""
        if not self._is_asked:
            self._is_asked = True
            self.trigger(self._last_checkpoint + 1)

    def _await_checkpoint(self) -> None:
        """Schedules the next checkpoint by time; one that is due while another is pending is skipped."""
        if self._interval_s:
            self._next_checkpoint = self._loop.call_later(self._interval_s, self._checkpoint_is_due)

    def _checkpoint_is_due(self) -> None:
        self.trigger_next()
        self._await_checkpoint()

    def _await_no_checkpoint(self) -> None:
        if self._next_checkpoint is not None:
            self._next_checkpoint.cancel()

    def _hand_over(self, number: int, snapshot: TaskStateSnapshot, *, is_last: bool) -> None:
        self._last_checkpoint = number
        self._is_asked = False
        states = snapshot.operator_states
        elements = states[LOOKUPS].managed_operator_state
        if self._head is not None:
            elements = (*self._head.elements(states), *elements)
        position = self._cut_at(number)
        if self._in_front is not None:
            held = self._in_front.elements(states)
            elements, position = (*elements, *held), position - len(held)
        self._coordination.completes(Checkpoint(number=number, position=position, elements=elements))
        if is_last and self._coordination.is_complete_at_once:
            self.notify_complete(number)

    def _declines(self, number: int, cause: CheckpointException) -> None:
        del cause
        self._is_asked = False
        self._coordination.declines(number)

    def notify_complete(self, number: int) -> None:
        """Sends the mail that notifies the task of completed checkpoint `number`."""
        assert self._task is not None, "only a task that runs takes part in checkpoints"
        self._task.notify_checkpoint_complete_async(number)

    def _end_of_data(self) -> None:
        self._await_no_checkpoint()
        self._coordination.finishing()
        if self._coordination.cuts_at_end:
            self.trigger_next()


class HandOver(Protocol):
    """Receives the snapshots that the task acknowledges."""

    def __call__(self, number: int, snapshot: TaskStateSnapshot, *, is_last: bool) -> None:
        """Takes the subtask's part of checkpoint `number`; `is_last`: the input has ended. Its errors fail the task."""


class HandedCheckpoints(SubtaskCheckpointCoordinator):
    """Ends the asynchronous part before the next mail, so a checkpoint is one step of the task. Mutable.

    Invariant: the coordination gets the snapshot after the acknowledgement has returned, so that its errors (fenced,
    sink lost) fail the task and do not only decline the checkpoint.
    """

    def __init__(
        self,
        *,
        task_name: str,
        fail: Callable[[BaseException], None],
        hand_over: HandOver,
        completed: Callable[[int], None],
        run_async: Callable[[Callable[[], None]], None],
    ) -> None:
        """`completed` is called once for each completed checkpoint.

        `run_async` runs the asynchronous part of a snapshot, and what follows it, before the next mail.
        """
        self._async_parts: list[Callable[[], Any]] = []
        super().__init__(
            task_name=task_name,
            task_state_store=TaskStateStore(responder=self),
            executor=self._async_parts.append,
            fail=fail,
        )
        self._run_async = run_async
        self._hand_over = hand_over
        self._completed = completed
        self._acknowledged: TaskStateSnapshot | None = None
        self._declined: CheckpointException | None = None

    def checkpoint_state(
        self,
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
        metrics: CheckpointMetrics,
        *,
        operator_chain: CheckpointedChain,
        is_task_finished: bool,
        is_running: Callable[[], bool],
    ) -> None:
        """Takes the snapshot; its asynchronous part hands it over."""
        super().checkpoint_state(
            metadata,
            options,
            metrics,
            operator_chain=operator_chain,
            is_task_finished=is_task_finished,
            is_running=is_running,
        )
        self._run_async(partial(self._finish, metadata.checkpoint_id, is_last=is_task_finished))

    def _finish(self, number: int, *, is_last: bool) -> None:
        parts = list(self._async_parts)
        self._async_parts.clear()
        for part in parts:
            part()
        declined, self._declined = self._declined, None
        if declined is not None:
            raise declined.__cause__ or declined  # no one would retry the checkpoint, so the task fails
        acknowledged, self._acknowledged = self._acknowledged, None
        if acknowledged is not None:
            self._hand_over(number, acknowledged, is_last=is_last)

    def notify_checkpoint_complete(
        self, checkpoint_id: int, *, operator_chain: CheckpointedChain, is_running: Callable[[], bool]
    ) -> None:
        """Notifies the operators, then the coordination, whose sink is downstream of them."""
        super().notify_checkpoint_complete(
            checkpoint_id, operator_chain=operator_chain, is_running=is_running
        )
        if is_running():
            self._completed(checkpoint_id)

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """Keeps the snapshot until `_finish` hands it over."""
        del metrics
        assert snapshot is not None, f"the lookups have state in every checkpoint, {checkpoint_id} too"
        self._acknowledged = snapshot

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Keeps the cause until `_finish` raises it."""
        del checkpoint_id
        self._declined = cause
