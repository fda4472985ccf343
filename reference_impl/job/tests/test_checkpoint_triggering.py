"""Claims about when the coordinator alone starts a checkpoint, and when it will not: C17, C32, C33, C36."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reference_impl.checkpoint_events import AlignmentType, CheckpointFailureReason, SnapshotType
from reference_impl.job.execution_graph import ExecutionState
from reference_impl.job.messages import CheckpointCoordinatorConfiguration, TriggerCheckpoint
from reference_impl.job.tests.coordination_rig import open_coordinator, reason_of, some_state

Reason = CheckpointFailureReason


@pytest.mark.parametrize("state", [ExecutionState.FAILED, ExecutionState.FINISHED])
def test_a_task_that_goes_between_plan_and_start_fails_the_trigger_flink_22087_flink_40482_c36(
    state: ExecutionState,
) -> None:
    prepared: list[Callable[[], None]] = []
    with open_coordinator(executor=prepared.append) as rig:
        asked = rig.coordinator.trigger_checkpoint()

        rig.graph.update_state(rig.tasks[0], state)
        prepared.pop()()

        assert reason_of(asked) is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
        assert rig.sent == []


def test_a_task_replaced_between_plan_and_start_fails_the_trigger_flink_40482_c36() -> None:
    prepared: list[Callable[[], None]] = []
    with open_coordinator(executor=prepared.append) as rig:
        asked = rig.coordinator.trigger_checkpoint()

        rig.graph.restart()
        for task in rig.tasks:
            rig.graph.update_state(task, ExecutionState.RUNNING)
        prepared.pop()()

        assert reason_of(asked) is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_a_checkpoint_of_a_job_that_does_not_run_whole_is_refused() -> None:
    with open_coordinator() as rig:
        rig.graph.update_state(rig.tasks[2], ExecutionState.INITIALIZING)

        asked = rig.coordinator.trigger_checkpoint()

        assert reason_of(asked) is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_nothing_starts_while_one_is_triggering_c32() -> None:
    prepared: list[Callable[[], None]] = []
    with open_coordinator(executor=prepared.append, max_concurrent_checkpoints=5) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.coordinator.trigger_savepoint()
        under_way = len(prepared)

        prepared.pop()()

        assert under_way == 1
        assert len(prepared) == 1


def test_no_more_than_allowed_are_pending_but_a_forced_one_starts_c32() -> None:
    with open_coordinator(max_concurrent_checkpoints=1) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.coordinator.trigger_checkpoint()
        savepoint_starts = rig.coordinator.trigger_savepoint()

        assert rig.pending == [1, 2]
        assert not savepoint_starts.done()


def test_a_waiting_request_starts_when_another_ends_c32() -> None:
    with open_coordinator() as rig:
        rig.coordinator.trigger_checkpoint()
        rig.coordinator.trigger_checkpoint()

        rig.decline(1, rig.tasks[0])

        assert rig.pending == [2]


def test_nothing_starts_while_more_are_cleaned_than_may_run_c32() -> None:
    doomed: list[Callable[[], None]] = []
    with open_coordinator(cleaning=doomed.append) as rig:
        for checkpoint_id in (1, 2):
            rig.coordinator.trigger_checkpoint()
            rig.decline(checkpoint_id, rig.tasks[0])
        rig.coordinator.trigger_checkpoint()
        while_cleaning = rig.pending

        doomed.pop()()

        assert while_cleaning == []
        assert rig.pending == [3]


def test_the_pause_counts_from_completion_and_a_tick_that_is_too_early_comes_again_c33() -> None:
    with open_coordinator(checkpoint_interval_ms=100, min_pause_between_checkpoints_ms=90) as rig:
        rig.coordinator.start_checkpoint_scheduler()
        rig.advance(150)
        rig.acknowledge(1)

        rig.advance(239)
        at_the_tick = rig.pending
        rig.advance(240)

        assert at_the_tick == []
        assert rig.pending == [2]


def test_who_asks_by_hand_does_not_wait_for_the_pause_c33() -> None:
    with open_coordinator(min_pause_between_checkpoints_ms=1_000) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1)

        rig.coordinator.trigger_checkpoint()

        assert rig.pending == [2]


def test_a_periodic_request_with_the_clock_off_is_refused() -> None:
    with open_coordinator(checkpoint_interval_ms=10) as rig:
        asked = rig.coordinator.trigger_checkpoint(is_periodic=True)

        assert reason_of(asked) is Reason.PERIODIC_SCHEDULER_SHUTDOWN


def test_a_stopped_clock_gives_up_what_is_under_way_and_asks_no_more() -> None:
    with open_coordinator(checkpoint_interval_ms=10) as rig:
        rig.coordinator.start_checkpoint_scheduler()
        rig.advance(10)
        before = rig.pending

        rig.coordinator.stop_checkpoint_scheduler()
        rig.advance(100)

        assert before == [1]
        assert rig.pending == []
        assert not rig.coordinator.is_periodic_checkpointing_started


def test_after_shutdown_nothing_starts_and_a_late_state_is_discarded() -> None:
    with open_coordinator() as rig:
        under_way = rig.coordinator.trigger_checkpoint()

        rig.coordinator.shutdown()
        refused = rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, rig.tasks[0], state=some_state())

        assert reason_of(under_way) is Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
        assert reason_of(refused) is Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
        assert len(rig.discarded) == 1


@pytest.mark.parametrize(
    ("drain", "kind"),
    [(True, SnapshotType.SAVEPOINT_TERMINATE), (False, SnapshotType.SAVEPOINT_SUSPEND)],
)
def test_stop_with_savepoint_stops_the_clock_and_says_whether_to_drain_c17(
    drain: bool,  # noqa: FBT001
    kind: SnapshotType,
) -> None:
    with open_coordinator(checkpoint_interval_ms=10, is_unaligned=True) as rig:
        rig.coordinator.start_checkpoint_scheduler()

        stopped = rig.coordinator.stop_with_savepoint(drain=drain)
        sent = rig.sent[-1][1]
        rig.acknowledge(1)
        rig.advance(100)

        assert isinstance(sent, TriggerCheckpoint)
        assert sent.options.snapshot_type is kind
        assert sent.options.alignment is AlignmentType.ALIGNED
        assert stopped.result(timeout=0).properties.is_savepoint
        assert rig.pending == []


def test_a_failed_stop_with_savepoint_starts_the_clock_again_c17() -> None:
    with open_coordinator(checkpoint_interval_ms=10) as rig:
        rig.coordinator.start_checkpoint_scheduler()
        was_running = rig.coordinator.is_periodic_checkpointing_started
        rig.coordinator.stop_with_savepoint(drain=False)
        is_stopped = not rig.coordinator.is_periodic_checkpointing_started
        rig.advance(100)
        started_meanwhile = rig.told(rig.tasks[0])

        rig.decline(1, rig.tasks[0])
        is_running = rig.coordinator.is_periodic_checkpointing_started
        rig.advance(200)

        assert (was_running, is_stopped, is_running) == (True, True, True)
        assert started_meanwhile == [("trigger", 1)]
        assert ("trigger", 2) in rig.told(rig.tasks[0])


def test_who_no_longer_wants_to_know_changes_nothing_for_the_checkpoint() -> None:
    with open_coordinator(checkpoint_timeout_ms=50) as rig:
        rig.coordinator.trigger_checkpoint().cancel()
        rig.coordinator.trigger_checkpoint().cancel()

        rig.advance(50)

        assert rig.told(rig.tasks[0]) == [("trigger", 1), ("aborted", 1), ("trigger", 2)]


def test_a_timeout_of_zero_is_unaligned_at_once_d4() -> None:
    configuration = CheckpointCoordinatorConfiguration(is_unaligned=True, aligned_timeout_ms=0)

    assert configuration.options(SnapshotType.CHECKPOINT).is_unaligned
    assert configuration.options(SnapshotType.SAVEPOINT).needs_alignment, (
        "a savepoint is always aligned (C29)"
    )
