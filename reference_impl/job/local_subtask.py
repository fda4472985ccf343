"""One attempt of one subtask, run step by step, and the writer from its chain into the channels of its readers.

Answers to Flink's `Task` and to what the constructors of `StreamTask` and `OneInputStreamTask.init` build; the writer
to `ChannelSelectorRecordWriter`. Invariant: no step waits, so many subtasks can share one thread and one virtual loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from reference_impl.checkpoint_events import (
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.barrier_handler import CheckpointBarrierHandler
from reference_impl.checkpoints.barrier_tracker import CheckpointBarrierTracker
from reference_impl.checkpoints.channel_state_writer import ChannelStateWriter
from reference_impl.checkpoints.channels import InputChannel
from reference_impl.checkpoints.input_gate import CheckpointedInputGate, InputGate, StreamTaskNetworkInput
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.state_handler import StreamOperatorStateContext, StreamTaskStateInitializer
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.task_state import CheckpointResponder, TaskStateSnapshot, TaskStateStore
from reference_impl.elements import OperatorInput, Record
from reference_impl.job.completed_checkpoints import Executor
from reference_impl.job.execution_graph import ExecutionAttemptID, JobVertex
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.key_groups import assign_key_to_parallel_operator
from reference_impl.task.input_processor import (
    StreamInputProcessor,
    StreamMultipleInputProcessor,
    StreamOneInputProcessor,
    StreamTaskInput,
    StreamTaskNetworkOutput,
)
from reference_impl.task.operator_chain import FinishedOperatorChain, OperatorChain, OperatorLink
from reference_impl.task.stream_operator import StreamOperator
from reference_impl.task.stream_task import StreamTask
from reference_impl.task.task_environment import RecordWriter, TaskEnvironment

__all__ = [
    "BuildLinks",
    "ChannelRecordWriter",
    "ChannelSelector",
    "LocalSubtask",
    "SubtaskContext",
    "SubtaskSurroundings",
    "by_key",
    "rebalanced",
]

ChannelSelector = Callable[[Any], int]
"""Chooses a reader's channel for a record, by its value."""


def by_key(key_of: Callable[[Any], Any], *, max_parallelism: int, parallelism: int) -> ChannelSelector:
    """Selects the subtask that owns the record's key group."""
    return lambda value: assign_key_to_parallel_operator(key_of(value), max_parallelism, parallelism)


def rebalanced(parallelism: int) -> ChannelSelector:
    """Round robin."""
    turn = cycle(range(parallelism))
    return lambda _value: next(turn)


class ChannelRecordWriter:
    """Writes from the tail of a chain into the channels of its readers.

    Each reader's channels are in the order of the reader's subtasks.

    Answers to Flink's `ChannelSelectorRecordWriter`, `KeyGroupStreamPartitioner` and `RebalancePartitioner`.
    Invariant: a record goes into one channel of each reader, everything else into every channel; a key's records go to
    the subtask that owns the key (S8).

    Each channel queues its elements on the reader's side (`checkpoints.channels`), so nothing is in flight on this
    side.
    """

    is_available: Availability = AVAILABLE

    def __init__(self, readers: Sequence[tuple[ChannelSelector, Sequence[InputChannel]]]) -> None:
        self._readers = readers
        self.all_data_processed = _all(
            [channel.all_data_processed for _, channels in readers for channel in channels]
        )
        """Ends when every reader has read the end of the data.

        The task waits for this before it finishes: a checkpoint after that starts at the readers and assumes that
        nothing is in flight before them (M47, C28).
        """

    def emit(self, element: OperatorInput) -> None:
        """Write a record to one channel of each reader, anything else to all channels."""
        for select, channels in self._readers:
            if isinstance(element, Record):
                channels[select(element.value)].put(element)
            else:
                for channel in channels:
                    channel.put(element)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """Write to all channels; a channel lets a barrier overtake if the barrier's options say so."""
        del is_priority
        for _, channels in self._readers:
            for channel in channels:
                channel.put(event)

    def flush(self) -> None: ...


def _all(waits: Sequence[Availability]) -> Availability:
    """Ends when the last of them ends."""
    together = Availability(ended=not waits)

    def look() -> None:
        if all(waits) and not together:
            together.end()

    for wait in waits:
        wait.then(look)
    return together


BuildAround = Callable[..., StreamOperator]
"""Builds an operator from its state context and the keyword arguments of a `StreamOperatorFactory`."""

BuildLinks = Callable[["SubtaskContext"], Sequence[OperatorLink]]
"""Builds the operators of a subtask, from head to tail; without gates, the head is also the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskContext:
    """What a subtask's operators can use while they are built."""

    attempt: ExecutionAttemptID
    vertex: JobVertex
    loop: VirtualLoop
    states: StreamTaskStateInitializer
    """Creates the restored state backends of its operators."""

    @property
    def subtask(self) -> int:
        """The subtask's index, from 0."""
        return self.attempt.subtask

    def keyed(self, operator_id: str, build: BuildAround) -> OperatorLink:
        """The link of an operator with keyed state and timers."""
        return self._link(operator_id, build, self.states.keyed_context_of)

    def plain(self, operator_id: str, build: BuildAround) -> OperatorLink:
        """The link of an operator without keyed state."""
        return self._link(operator_id, build, self.states.context_of)

    def _link(
        self, operator_id: str, build: BuildAround, state_of: Callable[..., StreamOperatorStateContext]
    ) -> OperatorLink:
        def build_around(*, timers: Timers, **parts: Any) -> StreamOperator:
            return build(state_of(operator_id, timers=timers), timers=timers, **parts)

        return OperatorLink(
            operator_id=operator_id,
            build=build_around,
            state_handler=lambda _operator, _timers: self.states.handler_of(operator_id),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskSurroundings:
    """What a job passes to a subtask."""

    attempt: ExecutionAttemptID
    vertex: JobVertex
    loop: VirtualLoop
    links: BuildLinks
    restored: TaskStateSnapshot | None
    restored_checkpoint_id: int | None
    gates: Sequence[Sequence[InputChannel]]
    """The channels of each input; empty for a source."""
    channel_state_writer: ChannelStateWriter
    """Collects the in-flight data of the channels."""
    record_writer: RecordWriter
    responder: CheckpointResponder
    executor: Executor
    """Runs the asynchronous part of a snapshot."""
    await_finished: Callable[[Sequence[Future[None]]], object]
    is_exactly_once: bool = True
    checkpoints_after_tasks_finish: bool = True


class LocalSubtask:
    """One attempt of one subtask: a `StreamTask` with everything that it needs, run step by step. Mutable.

    After its restore, `step` runs it until `has_finished`; `cancel` or `abandon` end it earlier. The task and its
    barrier handler call each other through this object.

    Answers to Flink's `Task` and to what the constructors of `StreamTask` and `OneInputStreamTask.init` build.
    Invariant: no step waits, so many subtasks can share one thread and one virtual loop; an exception of a step fails
    the attempt.

    Difference from Flink: Flink's task blocks a thread of its own. Here each wait is checked before, except that an
    operator that drains (A66) runs the loop itself.
    """

    def __init__(self, around: SubtaskSurroundings) -> None:
        self.attempt = around.attempt
        self.has_finished = False
        self._around = around
        self._has_read_all = False
        self._mailbox = Mailbox(loop=around.loop)
        self._processor = MailboxProcessor(self._mailbox)
        self._timers = Timers(around.loop, self._processor.main_mailbox_executor)
        self._store = TaskStateStore(
            responder=around.responder,
            restored=around.restored,
            restored_checkpoint_id=around.restored_checkpoint_id,
        )
        self._chain = self._build_chain()
        self._checkpoints = self._build_checkpoints()
        self._gates = [InputGate(channels) for channels in around.gates]
        self._handler = self._build_handler()
        self.task = StreamTask(
            loop=around.loop,
            mailbox_processor=self._processor,
            operator_chain=self._chain,
            input_processor=self._build_input_processor(),
            record_writer=around.record_writer,
            environment=TaskEnvironment(
                task_name=str(around.attempt),
                decline_checkpoint=around.responder.decline_checkpoint,
                restored_checkpoint_id=around.restored_checkpoint_id,
                read_channel_state=self._read_channel_state,
                checkpoints_after_tasks_finish=around.checkpoints_after_tasks_finish,
            ),
            checkpoints=self._checkpoints,
            channels=self if self._gates else None,
        )

    # ------------------------------------------------------------------------------------------------- its life

    def step(self) -> bool:
        """Run one mail, one default action, or the end of the task; return whether anything was done."""
        if self.has_finished:
            return False
        if self._has_read_all and self.task.may_end:
            self.task.after_invoke()
            self.task.clean_up()
            self.has_finished = True
            return True
        has_done_something = self._processor.run_mailbox_step(self.task.process_input)
        self._has_read_all = self._has_read_all or self._processor.suspended
        return has_done_something

    def fail(self, error: BaseException) -> None:
        """Clean up after a step that raised `error`."""
        self.task.clean_up(error)

    def cancel(self) -> None:
        """End the attempt, closing its operators."""
        self.task.cancel()
        self.task.clean_up()

    def abandon(self) -> None:
        """End as if the process had died: nothing is closed, and messages already sent still arrive."""
        self._timers.quiesce()
        for timers in self._chain.timers:
            timers.quiesce()

    # ------------------------------------------------------------------------------------------ how it is built

    def _build_chain(self) -> OperatorChain:
        around, vertex = self._around, self._around.vertex
        if self._store.is_task_deployed_as_finished:
            return FinishedOperatorChain(vertex.operator_ids, record_writer=around.record_writer)
        states = StreamTaskStateInitializer(
            task_state_store=self._store,
            subtask_index=self.attempt.subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            now_ms=around.loop.now_ms,
        )
        context = SubtaskContext(attempt=self.attempt, vertex=vertex, loop=around.loop, states=states)
        return OperatorChain(
            around.links(context),
            mailbox=self._mailbox,
            timers=partial(Timers, around.loop),
            record_writer=around.record_writer,
            fail=self._processor.report_throwable,
        )

    def _build_checkpoints(self) -> SubtaskCheckpointCoordinator:
        around = self._around
        return SubtaskCheckpointCoordinator(
            task_name=str(self.attempt),
            task_state_store=self._store,
            executor=around.executor,
            fail=self._processor.report_throwable,
            timers=self._timers,
            channel_state_writer=around.channel_state_writer if around.gates else None,
            prepare_input_snapshot=lambda _, number: self._handler.all_barriers_received_future(number),
            await_finished=around.await_finished,
        )

    def _build_handler(self) -> CheckpointBarrierHandler:
        after_finish = self._around.checkpoints_after_tasks_finish
        if not self._around.is_exactly_once:
            return CheckpointBarrierTracker(
                sum(len(gate.channels) for gate in self._gates),
                task=self,
                timers=self._timers,
                enable_checkpoints_after_tasks_finish=after_finish,
            )
        return SingleCheckpointBarrierHandler.alternating(
            task=self,
            inputs=self._gates,
            timers=self._timers,
            checkpoints=self._checkpoints,
            enable_checkpoints_after_tasks_finish=after_finish,
        )

    def _build_input_processor(self) -> StreamInputProcessor:
        processors = [
            StreamOneInputProcessor(task_input, operator_chain=self._chain, input_id=place + 1)
            for place, task_input in enumerate(self._build_inputs())
        ]
        return processors[0] if len(processors) == 1 else StreamMultipleInputProcessor(processors)

    def _build_inputs(self) -> list[StreamTaskInput]:
        """The channels; for a source the chain's head, or an input at its end if the task had finished (C19)."""
        if self._gates:
            executor = self._processor.main_mailbox_executor
            return [
                StreamTaskNetworkInput(
                    CheckpointedInputGate(gate, self._handler, executor), input_index=place
                )
                for place, gate in enumerate(self._gates)
            ]
        if self._chain.is_task_deployed_as_finished:
            return [_FinishedInput()]
        head: Any = self._chain.operators[0]  # the head of a source's chain is also its input
        return [head]

    def _read_channel_state(self) -> None:
        """Put restored in-flight elements into the channels first (M46)."""
        head = self._store.restored_state(self._chain.operator_ids[0])
        for handle in (head.input_channel_state or ()) if head is not None else ():
            self._around.gates[handle.info.gate_idx][handle.info.input_channel_idx].recover(handle.elements)

    # -------------------------------------------------------------------- between the task and its barrier handler

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> None:
        """Called by the barrier handler."""
        self.task.trigger_checkpoint_on_barrier(metadata, options, metrics)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        """Called by the barrier handler."""
        self.task.abort_checkpoint_on_barrier(checkpoint_id, exception)

    def inject_barrier(self, barrier: CheckpointBarrier) -> bool:
        """Called by the task: all writers have finished, so no barrier comes from them (V-c)."""
        unfinished = [
            channel.info for gate in self._gates for channel in gate.channels if not channel.is_finished
        ]
        for info in unfinished:
            self._handler.process_barrier(barrier, info, is_rpc_triggered=True)
        return bool(unfinished)


class _FinishedInput:
    """The input of a source that had finished before the restored checkpoint. Mutable."""

    is_available = AVAILABLE

    def __init__(self) -> None:
        self._words = [DataInputStatus.END_OF_INPUT, DataInputStatus.END_OF_DATA]

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:  # noqa: ARG002 - part of the protocol
        """END_OF_DATA first, then END_OF_INPUT."""
        return self._words.pop() if len(self._words) > 1 else self._words[0]
