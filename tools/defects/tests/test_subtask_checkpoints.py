"""Planted defects of a subtask's checkpoints: each breaks a property that the reference keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.tests.checkpoint_rig import CheckpointRig, CountedHandle, stateless
from reference_impl.state.snapshots import SnapshotFuture
from tools.defects.tests.wrong_parts import wrong_part

Build = Callable[..., SubtaskCheckpointCoordinator]


def what_is_acknowledged_has_been_written(build: Build) -> None:
    """C8: nothing is acknowledged before the asynchronous part has ended."""
    rig = CheckpointRig({"map": lambda _id: CountedHandle().futures}, build=build)
    rig.trigger(1)
    assert rig.responder.acknowledged == {}


def what_is_acknowledged_is_never_discarded(build: Build) -> None:
    """C8, FLINK-5667: not even by a task that is cancelled between the acknowledgement and the part's end."""
    handle = CountedHandle()
    rig = CheckpointRig({"map": lambda _id: handle.futures}, build=build)
    rig.trigger(1)
    rig.is_running = False
    rig.work()
    assert list(rig.responder.acknowledged) == [1]
    assert handle.discarded == 0


def a_late_abort_leaves_acknowledged_state_alone(build: Build) -> None:
    """C8, C39: an abort does not concern state that was acknowledged."""
    handle = CountedHandle()
    rig = CheckpointRig({"map": lambda _id: handle.futures}, build=build)
    rig.trigger(1)
    rig.work()
    rig.notify("aborted", 1)
    assert handle.discarded == 0


def an_aborted_checkpoint_is_not_taken(build: Build) -> None:
    """C2, C12: its barrier finds the mark."""
    rig = CheckpointRig({"map": stateless}, build=build)
    rig.notify("aborted", 1)
    rig.trigger(1)
    assert ("snapshot map", 1) not in rig.happened


def every_checkpoint_is_passed_on_downstream(build: Build) -> None:
    """C2, FLINK-18238: a barrier, or a marker."""
    rig = CheckpointRig({"map": stateless}, build=build)
    rig.notify("aborted", 1)
    rig.trigger(1)
    assert {("barrier", 1), ("cancel marker", 1)} & set(rig.happened)


def the_memory_of_aborts_is_bounded(build: Build) -> None:
    """C12."""
    rig = CheckpointRig({"map": stateless}, build=build, max_record_aborted_checkpoints=2)
    for checkpoint_id in range(1, 10):
        rig.notify("aborted", checkpoint_id)
    assert len(rig.coordinator.aborted) <= 2


def operators_of_a_task_that_does_not_run_are_not_notified(build: Build) -> None:
    """C13, FLINK-16383."""
    rig = CheckpointRig({"map": stateless}, build=build)
    rig.is_running = False
    rig.notify("complete", 1)
    assert rig.happened == []


def every_checkpoint_ends_in_an_acknowledgement_or_is_declined(build: Build) -> None:
    """C9, FLINK-12889."""

    def fail() -> None:
        raise OSError("disk full")

    futures = OperatorSnapshotFutures(managed_keyed_state=SnapshotFuture.calling(fail))
    rig = CheckpointRig({"map": lambda _id: futures}, build=build)
    rig.trigger(1)
    rig.work()
    assert 1 in rig.responder.acknowledged or 1 in rig.responder.declined


def no_state_is_none(build: Build) -> None:
    """C10, FLINK-5985."""
    rig = CheckpointRig({"map": stateless}, build=build)
    rig.trigger(1)
    rig.work()
    assert rig.responder.acknowledged == {1: None}


CONVICTIONS: dict[str, Callable[[Build], None]] = {
    "acknowledges-at-once": what_is_acknowledged_has_been_written,
    "discards-acknowledged-state": what_is_acknowledged_is_never_discarded,
    "late-abort-drops-state": a_late_abort_leaves_acknowledged_state_alone,
    "forgets-abort-marks": an_aborted_checkpoint_is_not_taken,
    "keeps-abort-marks": the_memory_of_aborts_is_bounded,
    "silent-about-aborted": every_checkpoint_is_passed_on_downstream,
    "notifies-stopped-operators": operators_of_a_task_that_does_not_run_are_not_notified,
    "loses-async-errors": every_checkpoint_ends_in_an_acknowledgement_or_is_declined,
    "acknowledges-empty-state": no_state_is_none,
}
"""By the name of the defect that breaks it."""


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_reference_keeps_the_property(name: str) -> None:
    CONVICTIONS[name](SubtaskCheckpointCoordinator)


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_defect_breaks_it(name: str) -> None:
    with pytest.raises(AssertionError):
        CONVICTIONS[name](wrong_part(name))
