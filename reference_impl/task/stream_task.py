"""A task from restore to clean-up: its mailbox, inputs and operator chain, its waits, and calls from other threads.

Answers to Flink's `StreamTask`, to the timers of its `TaskIOMetricGroup`, and to the futures of its triggers and
notifications. Invariant: user code runs only on the task's thread, as mail or in the default action, between `restore`
and `clean_up`. `cancel`, and methods whose names end in `_async`, may be called from any thread at any time (M49).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

from reference_impl.checkpoint_events import (
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
    EndOfData,
    EndOfPartition,
    StopMode,
)
from reference_impl.errors import CancelTaskException, MailboxClosed, WrongState
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.mailbox import MAX_PRIORITY, MIN_PRIORITY
from reference_impl.mailbox.processor import MailboxProcessor, PeriodTimer
from reference_impl.task.input_processor import StreamInputProcessor
from reference_impl.task.operator_chain import OperatorChain, RecordWriter, TaskEnvironment
from reference_impl.task.task_checkpoints import SubtaskCheckpoints, TaskCheckpoints


class TaskWaits:
    """Suspends the default action while the task cannot work, and measures for how long. Mutable.

    Answers to the end of Flink's `StreamTask.processInput` and to the three timers of `TaskIOMetricGroup`. Invariant:
    a wait has one reason, the first that holds of output, input, changelog (M42); so the three times never overlap,
    and mail that runs during a wait counts for none of them (M39, M43).
    """

    def __init__(self, mailbox_processor: MailboxProcessor, *, loop: asyncio.AbstractEventLoop) -> None:
        self._mailbox_processor = mailbox_processor
        self.soft_back_pressured = PeriodTimer(loop)
        """Time without room downstream (M42)."""
        self.idle = PeriodTimer(loop)
        """Time without input (M42)."""
        self.changelog_busy = PeriodTimer(loop)
        """Time in which the changelog accepted no changes (M42, FLINK-26592)."""

    def wait(self, output: Availability, task_input: Availability, changelog: Availability) -> None:
        """Suspend the default action until the first unavailable argument becomes available.

        The default action then checks again, since another argument may be unavailable.
        """
        if not output:
            self._rest(output, self.soft_back_pressured)
        elif not task_input:
            self._rest(task_input, self.idle)
        elif not changelog:
            self._rest(changelog, self.changelog_busy)

    def _rest(self, reason: Availability, period: PeriodTimer) -> None:
        suspension = self._mailbox_processor.suspend_default_action(period)
        reason.then(suspension.resume)


T = TypeVar("T")


class Later(Enum):
    """Returned by a call that has not finished and will be run again."""

    LATER = "later"


class ReportedCall(Future[T], Generic[T]):
    """A call from outside that runs as mail; its error fails the task and is passed to the caller. Mutable: ends once.

    Answers to the futures of Flink's `StreamTask.triggerCheckpointAsync` and `notifyCheckpointOperation`. Invariant:
    the future always ends: with the call's result; with its error, which also fails the task (C15); or cancelled, if
    the mailbox closes before the call runs (M37).
    """

    def __init__(self, call: Callable[[], T | Literal[Later.LATER]]) -> None:
        super().__init__()
        self._call = call

    def run(self) -> None:
        """The action of the mail; raises what the call raises."""
        if self.cancelled():
            return
        try:
            outcome = self._call()
        except BaseException as error:
            self.set_exception(error)
            raise
        if not isinstance(outcome, Later):
            self.set_result(outcome)


_MORE = DataInputStatus.MORE_AVAILABLE
_NOT_READY = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
_CLOSING = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING


class UnfinishedChannels(Protocol):
    """The input channels of a task, into which a checkpoint triggered by call puts its barriers (V-c)."""

    def inject_barrier(self, barrier: CheckpointBarrier) -> bool:
        """Put the barrier into each channel that has not ended; False if all have ended."""


class StreamTask:
    """One subtask: `restore`, `invoke`, `clean_up`. Mutable. All its collaborators belong to one mailbox.

    `channels` is None for a task that does not read from other tasks, `checkpoints` for a job without checkpoints.
    With a `checkpoint_priority` above the lowest, checkpoints triggered by call are also taken while an operator waits
    for room; so it was in Flink before the mailbox, when such a wait released the checkpoint lock.

    Answers to Flink's `StreamTask`. Invariant: user code runs only on the task's thread, as mail or in the default
    action, between `restore` and `clean_up`; while the default action is suspended, there is one reason for it (M42).
    `cancel`, and methods whose names end in `_async`, may be called from any thread at any time (M49).

        restore -> run_mailbox_loop(process_input) -> end_data -> after_invoke (the last checkpoint) -> clean_up

    Differences from Flink: the task itself sends `EndOfPartition`, as the last step of `after_invoke`. The futures of
    triggers and notifications are cancelled if the mailbox closes first (M37); in Flink they then never end.
    """

    task_checkpoints: ClassVar[type[TaskCheckpoints]] = TaskCheckpoints

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        mailbox_processor: MailboxProcessor,
        operator_chain: OperatorChain,
        input_processor: StreamInputProcessor,
        record_writer: RecordWriter,
        environment: TaskEnvironment,
        checkpoints: SubtaskCheckpoints | None = None,
        channels: UnfinishedChannels | None = None,
        checkpoint_priority: int = MIN_PRIORITY,
    ) -> None:
        self.mailbox_processor = mailbox_processor
        self.operator_chain = operator_chain
        self.waits = TaskWaits(mailbox_processor, loop=loop)
        self.is_running = False
        """True from the end of the restore until the last mail has run (M47)."""
        self.is_canceled = False
        self._input_processor = input_processor
        self._move = input_processor.process_input
        self._record_writer = record_writer
        self._environment = environment
        self._changelog = environment.changelog
        self._ask_for_room = operator_chain.ask_for_room
        self._channels = channels
        self._checkpoint_priority = checkpoint_priority
        self._is_restored = False
        self._end_of_data: StopMode | None = None
        self._savepoint_after_end: ReportedCall[bool] | None = None
        """The trigger of a stop-with-savepoint, which waits until the sources have stopped (C17)."""
        self._main = mailbox_processor.main_mailbox_executor
        self._notifications = mailbox_processor.mailbox_executor(MAX_PRIORITY)
        self._checkpoints = self.task_checkpoints(
            checkpoints,
            operator_chain=operator_chain,
            record_writer=record_writer,
            environment=environment,
            is_running=lambda: self.is_running,
        )
        self._checkpoints.final_checkpoint_completed.then(self._stop_after_savepoint)

    # -------------------------------------------------------------------------------------------- the work

    def process_input(self) -> None:
        """The default action (M41)."""
        status = self._move()
        if (
            status is _MORE
            and self._record_writer.is_available is AVAILABLE
            and (self._ask_for_room is None or self._ask_for_room() is AVAILABLE)
            and self._changelog is None
        ):
            return  # fast path, for almost every record
        match status:
            case DataInputStatus.MORE_AVAILABLE | DataInputStatus.NOTHING_AVAILABLE:
                self._wait_unless_more(status)
            case DataInputStatus.END_OF_RECOVERY:
                raise WrongState(
                    "an input ended its recovery outside of the restore; inputs may do so only before running (M41)"
                )
            case DataInputStatus.STOPPED:
                self.end_data(StopMode.NO_DRAIN)
            case DataInputStatus.END_OF_DATA:
                self.end_data(StopMode.DRAIN)
                self._environment.notify_end_of_data()
            case DataInputStatus.END_OF_INPUT:
                self.mailbox_processor.suspend_default_action()
                self.mailbox_processor.suspend()

    def _wait_unless_more(self, status: DataInputStatus) -> None:
        output = self._has_room()
        changelog = AVAILABLE if self._changelog is None else self._changelog()
        if status is not _MORE or not (output and changelog):
            self.waits.wait(output, self._input_processor.is_available, changelog)

    def _has_room(self) -> Availability:
        """Whether the outputs and the chain have room: a full operator holds up the input but no mail (A33)."""
        room = self._record_writer.is_available
        return self._ask_for_room() if room and self._ask_for_room is not None else room

    def can_emit_batch_of_records(self) -> bool:
        """Whether the input may go on in the same default action: no mail is waiting, and there is room (M48)."""
        return not self.mailbox_processor.has_mail() and bool(self._has_room())

    def end_data(self, mode: StopMode) -> None:
        """Finish the operators and tell the readers downstream; a second call does nothing (M44)."""
        if self._end_of_data is not None:
            return
        if mode is StopMode.DRAIN:
            self._input_processor.advance_to_end_of_event_time()
        self.operator_chain.finish_operators(mode)
        self._end_of_data = mode
        self._checkpoints.has_end_of_data = True
        if self.operator_chain.emits_on_final_checkpoint and self._checkpoints.awaits_final_checkpoint:
            self._checkpoints.final_checkpoint_completed.then(self._broadcast_end_of_data)  # FLINK-38614
        else:
            self._broadcast_end_of_data()
        savepoint, self._savepoint_after_end = self._savepoint_after_end, None
        if savepoint is not None:
            self._main.execute(savepoint.run, "trigger the savepoint, for the sources have stopped")

    def _broadcast_end_of_data(self) -> None:
        assert self._end_of_data is not None, "only data that have ended are said to"
        self._record_writer.broadcast_event(EndOfData(mode=self._end_of_data))

    # ------------------------------------------------------------------------------------------------ its life

    def restore(self) -> None:
        """Open the operators; then run only mail until in-flight data are restored (M46).

        A second call does nothing.
        """
        self._ensure_not_canceled()
        if self._is_restored:
            return
        self.operator_chain.initialize_state_and_open_operators()
        self._ensure_not_canceled()
        recovered = self._read_channel_state()
        resting = self.mailbox_processor.suspend_default_action()
        self.mailbox_processor.run_mailbox_loop(self.process_input)
        resting.resume()
        self._ensure_not_canceled()
        if not recovered:
            raise WrongState("Mailbox loop interrupted before recovery was finished.")
        self._is_restored = self.is_running = True

    def _read_channel_state(self) -> Availability:
        recovered = Availability()

        def end_recovery() -> None:
            recovered.end()
            self.mailbox_processor.suspend()

        def read() -> None:
            try:
                self._environment.read_channel_state()
            except Exception as error:  # noqa: BLE001 - reported to the task, which may run on another thread
                error.add_note(f"task {self._environment.task_name!r}: unable to read channel state")
                self.fail(error)
            else:
                with suppress(MailboxClosed):  # the task has ended meanwhile
                    self._main.execute(end_recovery, "all gates are recovered")

        self._environment.channel_io(read)
        return recovered

    def invoke(self) -> None:
        """Run the task up to the clean-up. Raises what failed the task, or `CancelTaskException` (M47, M49)."""
        self.restore()
        self._ensure_not_canceled()
        self._wait_unless_more(_MORE)  # restored elements may have filled the chain (A33)
        self.mailbox_processor.run_mailbox_loop(self.process_input)
        self._ensure_not_canceled()
        self.after_invoke()

    def after_invoke(self) -> None:
        """Wait for the last checkpoint, run the last mail, close the operators (M47)."""
        self._all_actions_complete_after(self._checkpoints.termination_conditions())
        self.mailbox_processor.run_mailbox_loop(self.process_input)
        self._ensure_not_canceled()
        self.operator_chain.quiesce_timers()
        self.mailbox_processor.prepare_close()
        self.mailbox_processor.drain()
        self.is_running = False
        self.operator_chain.flush_outputs()
        self._checkpoints.wait_for_pending()
        self.operator_chain.close_all_operators()
        self._record_writer.broadcast_event(EndOfPartition())

    def _all_actions_complete_after(self, conditions: list[Availability]) -> None:
        """Wait for the conditions one after the other; each stays true once it is."""
        if not conditions:
            self.mailbox_processor.all_actions_completed()
            return
        first, *others = conditions
        first.then(lambda: self._all_actions_complete_after(others))

    def cancel(self) -> None:
        """End the task in any phase: before, during or after the loop, or in a wait (M49). Any thread may call it."""
        self.is_canceled = True
        self.is_running = False
        self.mailbox_processor.mailbox.interrupt(CancelTaskException(self._environment.task_name))
        try:
            self.mailbox_processor.all_actions_completed()
        finally:
            self._checkpoints.cancel()

    def clean_up(self, error: BaseException | None = None) -> None:
        """Release everything, also after a failed restore; call it on the task's thread (V-e).

        If `error` ended the task, further errors are added to it as notes; otherwise the first one is raised.
        """
        self.is_running = False
        if self._savepoint_after_end is not None:
            self._savepoint_after_end.cancel()
        first = error
        for action in (
            self.operator_chain.close_all_operators,
            self.mailbox_processor.close,
            self._checkpoints.close,
        ):
            try:
                action()
            except Exception as suppressed:  # noqa: BLE001 - the other steps must run too
                if first is None:
                    first = suppressed
                else:
                    first.add_note(f"suppressed, of the clean-up: {suppressed!r}")
        if first is not None and first is not error:
            raise first

    def fail(self, error: BaseException) -> None:
        """Fail the task with `error`, unless it was cancelled or closed. Any thread may call it."""
        if not self.is_canceled:
            with suppress(MailboxClosed):
                self.mailbox_processor.report_throwable(error)

    def _stop_after_savepoint(self) -> None:
        """A completed stop-with-savepoint ends the task even if its input cannot be stopped (C17)."""
        if self._end_of_data is None:
            self.mailbox_processor.suspend()

    def _ensure_not_canceled(self) -> None:
        if self.is_canceled:
            raise CancelTaskException(self._environment.task_name)

    # -------------------------------------------------------------------------------------------- checkpoints

    def trigger_checkpoint_async(
        self, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> Future[bool]:
        """Take the snapshot or put barriers into open channels, as mail that is urgent if unaligned (V-c).

        The future's result is whether the task takes part. A stop-with-savepoint first stops the sources (C17).
        """
        call: ReportedCall[bool] = ReportedCall(lambda: self._stop_or_trigger(call, metadata, options))
        executor = self.mailbox_processor.mailbox_executor(
            self._checkpoint_priority, urgent=options.is_unaligned
        )
        try:
            executor.execute(call.run, f"trigger checkpoint {metadata.checkpoint_id}")
        except MailboxClosed:
            self._checkpoints.decline(metadata.checkpoint_id, _CLOSING)
            call.set_result(False)
        return call

    def _stop_or_trigger(
        self, call: ReportedCall[bool], metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> bool | Literal[Later.LATER]:
        kind = options.snapshot_type
        mode = StopMode.DRAIN if kind.should_drain else StopMode.NO_DRAIN
        is_early = self.is_running and kind.is_synchronous and self._end_of_data is None
        if is_early and self._input_processor.stop(mode):
            self._checkpoints.sync_savepoint = metadata.checkpoint_id  # from now on, its abort fails the task
            self._savepoint_after_end = call
            return Later.LATER
        return self._trigger_in_mailbox(metadata, options)

    def _trigger_in_mailbox(self, metadata: CheckpointMetaData, options: CheckpointOptions) -> bool:
        barrier = CheckpointBarrier(
            checkpoint_id=metadata.checkpoint_id, timestamp=metadata.timestamp, options=options
        )
        if self.is_running and self._channels is not None and self._channels.inject_barrier(barrier):
            return True
        if self.is_running:
            self._checkpoints.init_input_checkpoint(metadata.checkpoint_id, options)
        takes_part = self._perform_checkpoint(metadata, options, CheckpointMetrics())
        if not takes_part:
            self._checkpoints.decline(metadata.checkpoint_id, _NOT_READY)
        return takes_part

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> None:
        """All barriers have come: take the snapshot. An error fails the task (C5).

        It is raised as something else than CheckpointException, which would make the barrier handler only abort the
        checkpoint.
        """
        try:
            self._perform_checkpoint(metadata, options, metrics)
        except CheckpointException as error:
            raise OSError(f"checkpoint {metadata.checkpoint_id} could not be performed: {error}") from error

    def _perform_checkpoint(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> bool:
        try:
            return self._checkpoints.perform_checkpoint(metadata, options, metrics)
        except Exception as error:
            if not self.is_running:
                return False  # the task was cancelled meanwhile
            error.add_note(
                f"Could not perform checkpoint {metadata.checkpoint_id} for task {self._environment.task_name!r}."
            )
            raise

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        """Abort a checkpoint of which not all barriers will come (C25)."""
        self._checkpoints.abort_on_barrier(checkpoint_id, exception)

    def notify_checkpoint_complete_async(self, checkpoint_id: int) -> Future[None]:
        """Notify by mail that every yield runs, in order of arrival; an exception fails the task (C15)."""
        return self._notify(
            lambda: self._checkpoints.notify_complete(checkpoint_id), f"checkpoint {checkpoint_id} complete"
        )

    def notify_checkpoint_abort_async(
        self, checkpoint_id: int, latest_completed_checkpoint_id: int
    ) -> Future[None]:
        """The same for an abort; notifies a missed completion first (C14)."""
        return self._notify(
            lambda: self._checkpoints.notify_abort(checkpoint_id, latest_completed_checkpoint_id),
            f"checkpoint {checkpoint_id} aborted",
        )

    def notify_checkpoint_subsumed_async(self, checkpoint_id: int) -> Future[None]:
        """The same for the backends only (C13)."""
        return self._notify(
            lambda: self._checkpoints.notify_subsumed(checkpoint_id), f"checkpoint {checkpoint_id} subsumed"
        )

    def _notify(self, notify: Callable[[], None], what: str) -> Future[None]:
        call = ReportedCall(notify)
        try:
            self._notifications.execute(call.run, what)
        except MailboxClosed:
            call.cancel()  # the task has ended
        return call
