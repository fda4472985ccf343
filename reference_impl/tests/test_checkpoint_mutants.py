"""Claims about the planted defects of a subtask's checkpoints: each breaks a property that the reference keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointOptions
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.checkpoints.state_handler import StreamOperatorStateHandler
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.tests.checkpoint_rig import CheckpointRig, CountedHandle, stateless
from reference_impl.mutants import COORDINATORS
from reference_impl.mutants.snapshot_sees_later_writes import build_handler
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.snapshot_future import SnapshotFuture
from reference_impl.state.state_descriptor import ListStateDescriptor

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
    """C8, C39: an abort says nothing about data that were handed over."""
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


def whoever_is_downstream_hears_of_every_checkpoint(build: Build) -> None:
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


def operators_of_a_task_that_does_not_run_hear_nothing(build: Build) -> None:
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


PROPERTIES: dict[str, Callable[[Build], None]] = {
    "acknowledges-at-once": what_is_acknowledged_has_been_written,
    "discards-acknowledged-state": what_is_acknowledged_is_never_discarded,
    "late-abort-drops-state": a_late_abort_leaves_acknowledged_state_alone,
    "forgets-abort-marks": an_aborted_checkpoint_is_not_taken,
    "keeps-abort-marks": the_memory_of_aborts_is_bounded,
    "silent-about-aborted": whoever_is_downstream_hears_of_every_checkpoint,
    "notifies-stopped-operators": operators_of_a_task_that_does_not_run_hear_nothing,
    "loses-async-errors": every_checkpoint_ends_in_an_acknowledgement_or_is_declined,
    "acknowledges-empty-state": no_state_is_none,
}
"""By the name of the defect that breaks it."""


def test_there_is_a_property_for_each_defect() -> None:
    assert set(PROPERTIES) == set(COORDINATORS)


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_reference_keeps_the_property(name: str) -> None:
    PROPERTIES[name](SubtaskCheckpointCoordinator)


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_defect_breaks_it(name: str) -> None:
    with pytest.raises(AssertionError):
        PROPERTIES[name](COORDINATORS[name])


@pytest.mark.parametrize(
    ("build", "kept"), [(StreamOperatorStateHandler, ["before"]), (build_handler, ["before", "behind"])]
)
def test_only_the_defect_sees_what_is_written_behind_the_barrier_c7(
    build: Callable[..., StreamOperatorStateHandler], kept: list[Any]
) -> None:
    backend = OperatorStateBackend(operator="map")
    state = backend.get_list_state(ListStateDescriptor(name="seen"))
    handler = build(operator_id="map", operator_state_backend=backend)
    state.add("before")

    futures = handler.snapshot_state(object(), CheckpointMetaData(checkpoint_id=1), CheckpointOptions())
    state.add("behind")
    restored = OperatorStateBackend(operator="map")
    restored.restore(futures.finalize().managed_operator_state)

    assert restored.get_list_state(ListStateDescriptor(name="seen")).get() == kept
