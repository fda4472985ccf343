"""Defects of a task and its chain: how operators finish, when the task may end, and what it is notified of.

Answers to bugs of `StreamTask`, `OperatorChain` and `StreamOperatorWrapper`. Invariant: each wrong class is an
`OperatorChain` or a `StreamTask` that differs from the reference in one method.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointException, StopMode
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_operator import Finishing, StreamOperatorWrapper
from reference_impl.task.stream_task import StreamTask
from reference_impl.task.task_checkpoints import TaskCheckpoints
from tools.defects.kinds import PropertyDefect


class _FinishesTailFirst(OperatorChain):
    """Finishes the tail before the head emits its last records; where none emits then, the defect is the reference."""

    def finish_operators(self, mode: StopMode) -> None:
        for wrapper in reversed(self._wrappers):
            wrapper.finish(mode)


class _WrapperThatSkipsDeferrable(StreamOperatorWrapper):
    def _run_own_mail(self) -> None:
        while self._executor.try_yield():
            pass


class _LeavesDeferrableMail(OperatorChain):
    """Leaves the rest of an interrupted watermark advance in the mailbox until the end of data has left.

    What its timers emit is lost. Where no mail is deferred, the defect is the reference.
    """

    wrapper = _WrapperThatSkipsDeferrable


class _WrapperThatKeepsTimers(StreamOperatorWrapper):
    def finish(self, mode: StopMode) -> None:
        drains = mode is StopMode.DRAIN
        if drains and not self._is_head:
            self.end_input()
        self._run_own_mail()
        if drains and isinstance(self.operator, Finishing):
            self.operator.finish()
        self._run_own_mail()


class _FiresTimersAfterFinish(OperatorChain):
    """Does not quiesce timers: one that falls due then emits behind the next operator's end of input.

    Where no timer is pending at the end, the defect is the reference.
    """

    wrapper = _WrapperThatKeepsTimers


class _HoldsNoEndOfData(OperatorChain):
    """Sends the end of data before what a committer emits on its last checkpoint, which downstream does not read.

    Where no operator emits then, the defect is the reference.
    """

    @property
    def emits_on_final_checkpoint(self) -> bool:
        return False


class _AnyIsLast(TaskCheckpoints):
    def _is_last(self, checkpoint_id: int) -> bool:
        return self.has_end_of_data if self.sync_savepoint is None else super()._is_last(checkpoint_id)


class _EndsWithAnyCheckpoint(StreamTask):
    """Asks whether its data have ended, not whether they had when the checkpoint began (FLIP-147).

    A checkpoint from before the end of data lacks what the operators emitted in finishing, which is then never
    committed. Where no checkpoint is pending at the end, the defect is the reference.
    """

    task_checkpoints = _AnyIsLast


class _ForgetsCompletions(TaskCheckpoints):
    def notify_complete(self, checkpoint_id: int) -> None:
        self._latest_reported = 0
        super().notify_complete(checkpoint_id)


class _RepeatsCompletions(StreamTask):
    """Passes on a completion again that an abort brought along, or that is notified twice.

    An operator that commits on each commits twice. Where every notification comes once, the defect is the reference.
    """

    task_checkpoints = _ForgetsCompletions


class _IgnoresAbortedSavepoint(TaskCheckpoints):
    def _require_no_sync_savepoint(
        self, checkpoint_id: int, cause: CheckpointException | None = None
    ) -> None:
        """Nothing."""


class _WaitsForAbortedSavepoint(StreamTask):
    """Hangs: its data have ended, and only the savepoint, which will never complete, may end it.

    Where savepoints succeed, the defect is the reference.
    """

    task_checkpoints = _IgnoresAbortedSavepoint


class _CancelsWithoutWaking(StreamTask):
    """Never looks at the flag while it waits for input or for its last checkpoint; a busy task only ends later."""

    def cancel(self) -> None:
        """Sets the flags, without the mail that ends the loop."""
        self.is_canceled = True
        self.is_running = False
        self._checkpoints.cancel()


OF_TASKS = (
    PropertyDefect(
        name="finishes-tail-first",
        about="the operators of a chain finish in the order in which they are opened",
        mirrors="FLINK-14231",
        replaces="OperatorChain",
        statements=("M45",),
        wrong=_FinishesTailFirst,
    ),
    PropertyDefect(
        name="finish-leaves-deferrable-mail",
        about="an operator that finishes runs its mail except what is deferrable",
        mirrors="FLINK-39481, FLINK-39930",
        replaces="OperatorChain",
        statements=("M45",),
        wrong=_LeavesDeferrableMail,
    ),
    PropertyDefect(
        name="timers-after-finish",
        about="the timers of an operator that finishes still fire",
        mirrors="FLINK-14228",
        replaces="OperatorChain",
        statements=("M45", "T6"),
        wrong=_FiresTimersAfterFinish,
    ),
    PropertyDefect(
        name="end-of-data-overtakes",
        about="the end of data leaves before what an operator emits on its last notification",
        mirrors="FLINK-38614",
        replaces="OperatorChain",
        statements=("C18",),
        wrong=_HoldsNoEndOfData,
    ),
    PropertyDefect(
        name="any-checkpoint-is-last",
        about="a task whose data have ended is let go by the next checkpoint that completes, whenever it began",
        mirrors="FLIP-147, a final checkpoint that began before the end of data",
        replaces="StreamTask",
        statements=("C18",),
        wrong=_EndsWithAnyCheckpoint,
    ),
    PropertyDefect(
        name="hears-completion-twice",
        about="operators are notified of a completed checkpoint as often as the task is",
        mirrors="a notification that the task does not remember",
        replaces="StreamTask",
        statements=("C14",),
        wrong=_RepeatsCompletions,
    ),
    PropertyDefect(
        name="waits-for-aborted-savepoint",
        about="a task that stopped for a savepoint goes on waiting when the savepoint is aborted",
        mirrors="FLINK-23741",
        replaces="StreamTask",
        statements=("C17",),
        wrong=_WaitsForAbortedSavepoint,
    ),
    PropertyDefect(
        name="cancel-leaves-waiting",
        about="a cancellation sets its flag and does not wake the task",
        mirrors="FLINK-13124",
        replaces="StreamTask",
        statements=("M49",),
        wrong=_CancelsWithoutWaking,
    ),
)
