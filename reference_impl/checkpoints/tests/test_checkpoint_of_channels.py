"""Claims about checkpoints behind real channels, whose barriers come, overtake, are cancelled or are lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.tests.bench import Bench, NotingTask, unaligned
from reference_impl.checkpoints.tests.checkpoint_rig import CheckpointRig
from reference_impl.checkpoints.tests.interleavings import Run, play, records_before, runs
from reference_impl.elements import Record
from reference_impl.state.snapshots import SnapshotFuture
from reference_impl.tests.rig import quickly

EVERY_KIND = ["aligned", "timeoutable", "unaligned", "savepoint"]


class TaskBehindChannels:
    """A task whose only operator's state is what was read. Mutable: its handler comes after it."""

    def __init__(self, task: NotingTask) -> None:
        self._task = task
        self.rig = CheckpointRig(
            {"seen": self._seen},
            channel_state_writer=task.writer,
            prepare_input_snapshot=lambda _writer, checkpoint_id: self.handler.all_barriers_received_future(
                checkpoint_id
            ),
        )

    def behind(self, **parts: Any) -> SingleCheckpointBarrierHandler:
        """The handler of its barriers."""
        parts.update(task=self, checkpoints=self.rig.coordinator)
        self.handler = SingleCheckpointBarrierHandler.alternating(**parts)
        return self.handler

    def _seen(self, _checkpoint_id: int) -> OperatorSnapshotFutures:
        return OperatorSnapshotFutures(raw_operator_state=SnapshotFuture.of(tuple(self._task.processed)))

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> None:
        self._task.triggered.append(metadata.checkpoint_id)
        self.rig.trigger(metadata.checkpoint_id, options)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        self._task.aborted.append((checkpoint_id, exception.reason))
        self.rig.abort_on_barrier(checkpoint_id, exception)

    def held(self, checkpoint_id: int) -> list[Any]:
        """The records that its part holds, in the operator or in flight."""
        snapshot = self.rig.responder.acknowledged[checkpoint_id]
        if snapshot is None:
            return []
        state = snapshot.operator_states["seen"]
        in_flight = (
            element.value
            for handle in state.input_channel_state or ()
            for element in handle.elements
            if isinstance(element, Record)
        )
        return [*(state.raw_operator_state or ()), *in_flight]


def played(run: Run) -> TaskBehindChannels:
    """The task behind the channels, when all that came has been read and nothing is left to do."""
    made: list[TaskBehindChannels] = []

    def handler(*, task: NotingTask, **parts: Any) -> SingleCheckpointBarrierHandler:
        made.append(TaskBehindChannels(task))
        return made[0].behind(**parts)

    def work(_bench: Bench, _run: Run) -> None:
        made[0].rig.work()

    play(run, work, handler=handler)
    return made[0]


def cancelled(run: Run) -> set[int]:
    """Checkpoints that a channel gave up."""
    elements = (element for content in run.contents for element in content)
    return {element.checkpoint_id for element in elements if isinstance(element, CancelCheckpointMarker)}


@given(run=runs(EVERY_KIND))
@quickly
def test_what_is_acknowledged_is_what_came_before_the_barriers_c4_c27_c28(run: Run) -> None:
    """One that a channel had cancelled may be acknowledged all the same (C24); nobody uses it."""
    task = played(run)

    for checkpoint_id in task.rig.responder.acknowledged.keys() - cancelled(run):
        before = [value for content in run.contents for value in records_before(content, checkpoint_id)]
        assert Counter(task.held(checkpoint_id)) == Counter(before)


@given(run=runs(EVERY_KIND))
@quickly
def test_every_part_that_was_begun_ends_once_c8_flink_28474(run: Run) -> None:
    task = played(run)
    sent = [
        checkpoint_id for what, checkpoint_id in task.rig.happened if what in {"barrier", "cancel marker"}
    ]

    task.rig.coordinator.close()
    task.rig.work()

    acknowledged, declined = set(task.rig.responder.acknowledged), set(task.rig.responder.declined)
    assert not acknowledged & declined
    assert acknowledged | declined <= set(sent)
    assert task.rig.coordinator.pending_checkpoints == []
    assert task.rig.failures == []


def test_of_two_channels_the_one_that_lags_is_captured_until_its_barrier_comes_c27() -> None:
    """The first barrier cuts; the part is acknowledged when the last one has come, with what it overtook."""
    run = Run(
        contents=(
            (Record(value="0.1"), unaligned(1), Record(value="0.2")),
            (Record(value="1.1"), unaligned(1)),
        ),
        steps=(("put", 0), ("read", 0), ("put", 1), ("put", 0), ("mail", 0)),
    )

    task = played(run)

    assert sorted(task.held(1)) == ["0.1", "1.1"]
