"""The bench on which the tests of a subtask's checkpoints stand: a chain that notes everything, and work done by hand.

Answers to Flink's `MockSubtaskCheckpointCoordinatorBuilder` and `TestTaskStateManager`. Invariant: no asynchronous part
runs but when a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from typing import Any, TypedDict, Unpack

from reference_impl.checkpoint_events import (
    AlignmentType,
    CancelCheckpointMarker,
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import (
    AsyncCheckpointRunnable,
    OperatorSnapshotFutures,
    TaskStateSnapshot,
    TaskStateStore,
)
from reference_impl.checkpoints.channels import ChannelStateWriter
from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    PrepareInputSnapshot,
    SubtaskCheckpointCoordinator,
)
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshots import SnapshotFuture

ALIGNED = CheckpointOptions()
UNALIGNED = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
WITH_TIMEOUT = CheckpointOptions(aligned_timeout_ms=10)
SUBSUMED = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)


class CountedHandle:
    """A handle of something that has to be released. Mutable: counts how often it was."""

    def __init__(self) -> None:
        self.discarded = 0

    def discard_state(self) -> None:
        """Count."""
        self.discarded += 1

    @property
    def futures(self) -> OperatorSnapshotFutures:
        """An operator's part that comes to this handle."""
        return OperatorSnapshotFutures(managed_keyed_state=SnapshotFuture.calling(lambda: self))


class NotingResponder:
    """A way to the coordinator that notes what went along it. Mutable."""

    def __init__(self, happened: list[Any]) -> None:
        self.acknowledged: dict[int, TaskStateSnapshot | None] = {}
        self.declined: dict[int, CheckpointException] = {}
        self._happened = happened

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """Note it; an id is acknowledged once."""
        assert checkpoint_id not in self.acknowledged
        self.acknowledged[checkpoint_id] = snapshot
        self._happened.append(("acknowledged", checkpoint_id))

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Note it; an id is declined once (FLINK-5285)."""
        assert checkpoint_id not in self.declined
        self.declined[checkpoint_id] = cause
        self._happened.append(("declined", checkpoint_id))


class NotingChain:
    """Operators that do what a test wants when their state is asked for. Mutable."""

    def __init__(
        self, happened: list[Any], operators: Mapping[str, Callable[[int], OperatorSnapshotFutures | None]]
    ) -> None:
        self.operator_ids: Sequence[str] = list(operators)
        self.is_task_deployed_as_finished = False
        self.raising: dict[str, Exception] = {}
        """What to raise in the place of a step, by its name."""
        self.priorities: list[bool] = []
        """Of each event that was broadcast."""
        self._operators = operators
        self._happened = happened

    def _note(self, step: str, *more: Any) -> None:
        self._happened.append((step, *more))
        if step in self.raising:
            raise self.raising[step]

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._note("prepare", checkpoint_id)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool) -> None:
        assert isinstance(event, CheckpointBarrier | CancelCheckpointMarker)
        self.priorities.append(is_priority)
        self._note(
            "barrier" if isinstance(event, CheckpointBarrier) else "cancel marker", event.checkpoint_id
        )

    def snapshot_state(
        self,
        futures: MutableMapping[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        for operator_id in reversed(self.operator_ids):
            self._note(f"snapshot {operator_id}", metadata.checkpoint_id)
            part = self._operators[operator_id](metadata.checkpoint_id)
            if part is not None:
                futures[operator_id] = part

    def alignment_barrier_timeout(self, barrier: CheckpointBarrier) -> None:
        self._note("timeout", barrier.checkpoint_id)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        self._note("abort", checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note("complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note("aborted", checkpoint_id)

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self._note("subsumed", checkpoint_id)


class More(TypedDict, total=False):
    """What a coordinator may have besides."""

    timers: Timers | None
    channel_state_writer: ChannelStateWriter | None
    prepare_input_snapshot: PrepareInputSnapshot | None
    max_record_aborted_checkpoints: int
    async_part: type[AsyncCheckpointRunnable]
    in_slices: bool


class CheckpointRig:
    """A coordinator over such a chain. Mutable."""

    def __init__(
        self,
        operators: Mapping[str, Callable[[int], OperatorSnapshotFutures | None]] | None = None,
        *,
        build: Callable[..., SubtaskCheckpointCoordinator] = SubtaskCheckpointCoordinator,
        **more: Unpack[More],
    ) -> None:
        self.happened: list[Any] = []
        self.chain = NotingChain(self.happened, operators or {})
        self.responder = NotingResponder(self.happened)
        self.store = TaskStateStore(responder=self.responder)
        self.behind: list[Callable[[], None]] = []
        """Asynchronous parts that nobody has run yet."""
        self.failures: list[BaseException] = []
        self.is_running = True
        self.coordinator = build(
            task_name="map (1/2)",
            task_state_store=self.store,
            executor=self.behind.append,
            fail=self.failures.append,
            await_finished=self._work,
            **more,
        )

    def trigger(
        self, checkpoint_id: int, options: CheckpointOptions = ALIGNED, *, is_task_finished: bool = False
    ) -> None:
        """The barrier is there, or the trigger of a source."""
        self.coordinator.checkpoint_state(
            CheckpointMetaData(checkpoint_id=checkpoint_id),
            options,
            CheckpointMetrics(),
            operator_chain=self.chain,
            is_task_finished=is_task_finished,
            is_running=lambda: self.is_running,
        )

    def notify(self, what: str, checkpoint_id: int) -> None:
        """`complete`, `aborted` or `subsumed`."""
        notify = getattr(self.coordinator, f"notify_checkpoint_{what}")
        notify(checkpoint_id, operator_chain=self.chain, is_running=lambda: self.is_running)

    def abort_on_barrier(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """A barrier handler gives it up."""
        self.coordinator.abort_checkpoint_on_barrier(checkpoint_id, cause, operator_chain=self.chain)

    def work(self) -> None:
        """Run every asynchronous part there is."""
        while self.behind:
            self.behind.pop(0)()

    def _work(self, finished: Sequence[Future[None]]) -> None:
        self.work()
        assert all(future.done() for future in finished)


def refused(error: Exception) -> Callable[[int], OperatorSnapshotFutures | None]:
    """An operator that cannot take part."""

    def refuse(_checkpoint_id: int) -> OperatorSnapshotFutures | None:
        raise error

    return refuse


def stateless(_checkpoint_id: int) -> None:
    """An operator without state."""
