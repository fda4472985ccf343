"""Claims about the asynchronous part: it acknowledges once or discards once, whoever comes first, and always ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Barrier, Thread
from typing import Any

import pytest

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
)
from reference_impl.checkpoints.async_checkpoint import (
    FINISHED_ON_RESTORE,
    AsyncCheckpointRunnable,
    AsyncCheckpointState,
    OperatorSnapshotFutures,
    OperatorSubtaskState,
    TaskStateSnapshot,
    TaskStateStore,
)
from reference_impl.checkpoints.tests.checkpoint_rig import CountedHandle, NotingResponder
from reference_impl.state.snapshots import SnapshotFuture


class PartRig:
    """An asynchronous part and all that it touches."""

    def __init__(self, futures: Mapping[str, OperatorSnapshotFutures], **more: bool) -> None:
        self.responder = NotingResponder([])
        self.failures: list[BaseException] = []
        self.unregistered: list[int] = []
        self.is_running = True
        self.part = AsyncCheckpointRunnable(
            futures,
            CheckpointMetaData(checkpoint_id=7),
            CheckpointMetrics(),
            task_name="map (1/2)",
            task_state_store=TaskStateStore(responder=self.responder),
            is_running=lambda: self.is_running,
            fail=self.failures.append,
            unregister=lambda part: self.unregistered.append(part.metadata.checkpoint_id),
            **more,
        )


def part_of(work: Callable[[], Any]) -> OperatorSnapshotFutures:
    """An operator whose part is that work."""
    return OperatorSnapshotFutures(managed_operator_state=SnapshotFuture.calling(work))


def failing(error: Exception) -> Callable[[], Any]:
    """Work that fails."""

    def fail() -> Any:
        raise error

    return fail


# --------------------------------------------------------------------------------------------------- it completes


def test_what_every_operator_wrote_is_acknowledged_once_c8() -> None:
    rig = PartRig({"head": part_of(lambda: "h"), "tail": part_of(lambda: "t")})

    rig.part.run()
    rig.part.run()

    states = {name: OperatorSubtaskState(managed_operator_state=name[0]) for name in ("head", "tail")}
    assert rig.responder.acknowledged == {7: TaskStateSnapshot(operator_states=states)}
    assert rig.part.state is AsyncCheckpointState.COMPLETED


def test_what_is_written_later_is_the_state_of_the_synchronous_part_c7() -> None:
    state = [1]
    copied = list(state)
    rig = PartRig({"map": part_of(lambda: copied)})

    state.append(2)
    rig.part.run()

    acknowledged = rig.responder.acknowledged[7]
    assert acknowledged is not None
    assert acknowledged.operator_states["map"].managed_operator_state == [1]


def test_a_cancellation_after_the_acknowledgement_leaves_the_state_alone_c8_flink_5667() -> None:
    handle = CountedHandle()
    rig = PartRig({"map": handle.futures})
    rig.part.run()

    rig.part.close()

    assert handle.discarded == 0
    assert rig.part.state is AsyncCheckpointState.COMPLETED


@pytest.mark.parametrize(
    "futures",
    [{}, {"map": OperatorSnapshotFutures()}, {"map": part_of(lambda: None)}],
    ids=["no operator", "no future", "a future of nothing"],
)
def test_a_task_without_state_acknowledges_with_none_c10_flink_5985(
    futures: Mapping[str, OperatorSnapshotFutures],
) -> None:
    rig = PartRig(futures)

    rig.part.run()

    assert rig.responder.acknowledged == {7: None}


def test_one_operator_with_state_is_enough_for_the_task_to_have_some_c10() -> None:
    rig = PartRig({"head": OperatorSnapshotFutures(), "tail": part_of(lambda: "t")})

    rig.part.run()

    acknowledged = rig.responder.acknowledged[7]
    assert acknowledged is not None
    assert not acknowledged.operator_states["head"].has_state


def test_a_task_that_was_finished_when_restored_says_so_c19() -> None:
    rig = PartRig({}, is_task_deployed_as_finished=True)

    rig.part.run()

    assert rig.responder.acknowledged == {7: FINISHED_ON_RESTORE}


def test_a_task_that_has_finished_says_so_even_without_state_c19_c18() -> None:
    rig = PartRig({"map": OperatorSnapshotFutures()}, is_task_finished=True)

    rig.part.run()

    acknowledged = rig.responder.acknowledged[7]
    assert acknowledged is not None
    assert acknowledged.is_task_finished
    assert not acknowledged.is_task_deployed_as_finished


# ---------------------------------------------------------------------------------------------------- it is closed


def test_a_cancellation_before_discards_and_never_acknowledges_c8() -> None:
    done = CountedHandle()
    futures = OperatorSnapshotFutures(managed_keyed_state=SnapshotFuture.of(done))
    rig = PartRig({"map": futures, "other": CountedHandle().futures})

    rig.part.close()
    rig.part.run()

    assert done.discarded == 1
    assert rig.responder.acknowledged == {}
    assert rig.responder.declined == {}
    assert rig.part.state is AsyncCheckpointState.DISCARDED


def test_a_cancellation_while_it_writes_discards_what_it_writes_once_c8() -> None:
    first, second = CountedHandle(), CountedHandle()
    rig: PartRig

    def close_in_the_middle() -> CountedHandle:
        rig.part.close()
        return second

    rig = PartRig({"head": first.futures, "tail": part_of(close_in_the_middle)})

    rig.part.run()

    assert (first.discarded, second.discarded) == (1, 1)
    assert rig.responder.acknowledged == {}
    assert rig.responder.declined == {}


def test_closed_twice_it_discards_once_c8() -> None:
    handle = CountedHandle()
    rig = PartRig({"map": OperatorSnapshotFutures(raw_keyed_state=SnapshotFuture.of(handle))})

    rig.part.close()
    rig.part.close()
    rig.part.run()

    assert handle.discarded == 1


@pytest.mark.parametrize("ending", ["run", "close", "failed"])
def test_however_it_ends_it_says_that_it_has_flink_28474(ending: str) -> None:
    rig = PartRig({"map": part_of(failing(OSError("disk")) if ending == "failed" else lambda: 1)})

    if ending == "close":
        rig.part.close()
    else:
        rig.part.run()

    assert rig.part.finished.done()


@pytest.mark.parametrize("meeting", [0, 1, 2])
def test_run_and_close_on_two_threads_leave_each_handle_kept_or_discarded_c8(meeting: int) -> None:
    """The cancellation comes when part number `meeting` is written, a little sooner or later."""
    for _ in range(20):
        together = Barrier(2, timeout=60)
        written: list[CountedHandle] = []

        def write(place: int, together: Barrier = together, written: list[CountedHandle] = written) -> Any:
            if place == meeting:
                together.wait()
            written.append(CountedHandle())
            return written[-1]

        rig = PartRig({f"map {place}": part_of(partial(write, place)) for place in range(3)})
        other = Thread(target=rig.part.run)

        other.start()
        together.wait()
        rig.part.close()
        other.join()

        is_kept = rig.part.state is AsyncCheckpointState.COMPLETED
        assert rig.part.finished.done()
        assert list(rig.responder.acknowledged) == ([7] if is_kept else [])
        assert len(written) == 3 if is_kept else len(written) > meeting
        assert {handle.discarded for handle in written} == {0 if is_kept else 1}


# ------------------------------------------------------------------------------------------------------- it fails


def test_a_failure_declines_discards_the_rest_once_and_leaves_the_task_alone_c9_flink_12889() -> None:
    written = CountedHandle()
    rig = PartRig({"head": written.futures, "tail": part_of(failing(OSError("disk full")))})

    rig.part.run()

    assert written.discarded == 1
    assert rig.responder.declined[7].reason is CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    assert "checkpoint 7 of map (1/2)" in str(rig.responder.declined[7])
    assert "disk full" in str(rig.responder.declined[7])
    assert rig.failures == []
    assert rig.unregistered == [7]


def test_a_failure_that_is_a_checkpoint_exception_keeps_its_reason_c9() -> None:
    original = CheckpointException(CheckpointFailureReason.CHECKPOINT_EXPIRED)
    wrapping = OSError("while writing")
    wrapping.__cause__ = original
    rig = PartRig({"map": part_of(failing(wrapping))})

    rig.part.run()

    assert rig.responder.declined[7].reason is CheckpointFailureReason.CHECKPOINT_EXPIRED
    assert rig.responder.declined[7].__cause__ is wrapping


def test_a_failure_of_a_task_that_no_longer_runs_declines_nothing_c9() -> None:
    rig = PartRig({"map": part_of(failing(OSError("disk full")))})
    rig.is_running = False

    rig.part.run()

    assert rig.responder.declined == {}
    assert rig.part.state is AsyncCheckpointState.DISCARDED


def test_a_failure_after_a_cancellation_declines_nothing_c8_c9() -> None:
    rig: PartRig

    def close_and_fail() -> Any:
        rig.part.close()
        raise OSError("the file is gone")

    rig = PartRig({"map": part_of(close_and_fail)})

    rig.part.run()

    assert rig.responder.declined == {}


def test_if_even_declining_fails_the_task_does_c9() -> None:
    rig = PartRig({"map": part_of(failing(OSError("disk full")))})

    def lost(checkpoint_id: int, cause: CheckpointException) -> None:
        raise ConnectionError("no coordinator")

    rig.responder.decline_checkpoint = lost  # type: ignore[method-assign]  # a coordinator that is gone

    rig.part.run()

    assert [str(failure) for failure in rig.failures] == ["no coordinator"]


def test_an_acknowledgement_that_cannot_be_sent_discards_and_declines_c9() -> None:
    handle = CountedHandle()
    rig = PartRig({"map": handle.futures})

    def lost(checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None) -> None:
        raise ConnectionError("no coordinator")

    rig.responder.acknowledge_checkpoint = lost  # type: ignore[method-assign]  # a coordinator that is gone

    rig.part.run()

    assert handle.discarded == 1
    assert list(rig.responder.declined) == [7]


def test_a_handle_that_cannot_be_discarded_does_not_keep_the_others_c8() -> None:
    other = CountedHandle()

    class Stuck(CountedHandle):
        def discard_state(self) -> None:
            raise OSError("busy")

    futures = OperatorSnapshotFutures(
        managed_keyed_state=SnapshotFuture.of(Stuck()), managed_operator_state=SnapshotFuture.of(other)
    )
    rig = PartRig({"map": futures})

    rig.part.close()

    assert other.discarded == 1


def test_the_states_of_a_task_are_discarded_together() -> None:
    first, second = CountedHandle(), CountedHandle()
    snapshot = TaskStateSnapshot(
        operator_states={
            "head": OperatorSubtaskState(managed_keyed_state=first, managed_operator_state="plain"),
            "tail": OperatorSubtaskState(raw_keyed_state=second),
        }
    )

    snapshot.discard_state()

    assert [first.discarded, second.discarded] == [1, 1]
