"""Claims about the coordinator alone: what is acknowledged, and how each checkpoint ends (C34-C37)."""

from __future__ import annotations

import pytest

from reference_impl.checkpoint_events import CheckpointFailureReason
from reference_impl.job.completed_checkpoints import CompletedCheckpoint, MemoryCheckpointStorage
from reference_impl.job.execution_graph import ExecutionAttemptID
from reference_impl.job.messages import NotifyCheckpointAborted
from reference_impl.job.tests.coordination_rig import open_coordinator, reason_of, some_state

Reason = CheckpointFailureReason


class FailingStorage(MemoryCheckpointStorage):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, checkpoint: CompletedCheckpoint) -> None:
        raise self.error


def test_a_checkpoint_triggers_the_sources_and_completes_with_the_last_acknowledgement_c35() -> None:
    with open_coordinator() as rig:
        first, second, sink = rig.tasks

        asked = rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, first, second)
        before_last = asked.done()
        rig.acknowledge(1, sink)

        assert not before_last
        assert asked.result(timeout=0).checkpoint_id == 1
        assert rig.told(first) == [("trigger", 1), ("complete", 1)]
        assert rig.told(sink) == [("complete", 1)]


def test_a_message_that_cannot_be_sent_costs_its_checkpoint_and_not_the_next_c32() -> None:
    with open_coordinator() as rig:

        def refuse(task: ExecutionAttemptID, message: object) -> None:
            raise ConnectionError

        rig.on_send = refuse
        with pytest.raises(ConnectionError):
            rig.coordinator.trigger_checkpoint()
        rig.on_send = lambda task, message: None

        rig.coordinator.trigger_checkpoint(is_forced=True)

        assert rig.pending == [1, 2]


def test_nobody_hears_of_completion_before_the_store_has_it_c35() -> None:
    with open_coordinator() as rig:
        stored: list[tuple[list[int], list[int]]] = []
        rig.coordinator.trigger_checkpoint()
        rig.on_send = lambda task, message: stored.append((rig.storage.checkpoint_ids(), rig.pending))

        rig.acknowledge(1)

        assert stored == [([1], [])] * 3


@pytest.mark.parametrize("error", [OSError("disk full"), RuntimeError("the storage's own")])
def test_a_checkpoint_that_cannot_be_stored_is_aborted_and_its_state_discarded_c35(error: Exception) -> None:
    with open_coordinator(storage=FailingStorage(error)) as rig:
        asked = rig.coordinator.trigger_checkpoint()

        rig.acknowledge(1, state=some_state())

        assert reason_of(asked) is Reason.FINALIZE_CHECKPOINT_FAILURE
        assert [handle.task for handle in rig.discarded] == rig.tasks
        assert rig.told(rig.tasks[0]) == [("trigger", 1), ("aborted", 1)]


def test_the_sinks_coordinator_hears_after_the_tasks_c35() -> None:
    heard: list[str] = []

    class Listener:
        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            heard.append("coordinator")

        def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
            raise AssertionError

    with open_coordinator(coordinators=[Listener()]) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.on_send = lambda task, message: heard.append(task.vertex)

        rig.acknowledge(1)

        assert heard == ["source", "source", "sink", "coordinator"]


def test_a_completed_checkpoint_drops_smaller_pending_ones_but_no_savepoint_c35() -> None:
    with open_coordinator(max_concurrent_checkpoints=3) as rig:
        old = rig.coordinator.trigger_checkpoint()
        savepoint = rig.coordinator.trigger_savepoint()
        rig.coordinator.trigger_checkpoint()

        rig.acknowledge(3)

        assert reason_of(old) is Reason.CHECKPOINT_SUBSUMED
        assert not savepoint.done()
        assert rig.pending == [2]


def test_an_older_savepoint_that_completes_later_does_not_become_the_latest_c37() -> None:
    with open_coordinator(max_concurrent_checkpoints=2, max_retained=2) as rig:
        rig.coordinator.trigger_savepoint()
        rig.coordinator.trigger_checkpoint()

        rig.acknowledge(2)
        rig.acknowledge(1)

        assert rig.completed == [1, 2]
        assert rig.coordinator.restore_latest_checkpointed_state().checkpoint_id == 2


def test_a_savepoint_counts_as_the_latest_c37() -> None:
    with open_coordinator(max_retained=2) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1)
        rig.coordinator.trigger_savepoint()
        rig.acknowledge(2)

        assert rig.coordinator.restore_latest_checkpointed_state().checkpoint_id == 2


def test_a_restore_gives_up_what_is_pending_and_the_next_number_is_higher_c37() -> None:
    with open_coordinator(max_concurrent_checkpoints=2) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1)
        pending = rig.coordinator.trigger_checkpoint()

        restored = rig.coordinator.restore_latest_checkpointed_state()
        rig.acknowledge(2)
        rig.coordinator.trigger_checkpoint()

        assert restored.checkpoint_id == 1
        assert reason_of(pending) is Reason.JOB_FAILURE
        assert rig.completed == [1]
        assert rig.pending == [3]


def test_a_restore_without_any_checkpoint_says_so_c37() -> None:
    with open_coordinator() as rig:
        assert rig.coordinator.restore_latest_checkpointed_state().checkpoint is None


def test_a_repeated_acknowledgement_changes_nothing_and_discards_nothing_c34() -> None:
    with open_coordinator() as rig:
        rig.coordinator.trigger_checkpoint()
        first = rig.tasks[0]

        answers = rig.acknowledge(1, first, first, state=some_state())

        assert answers == [True, True]
        assert rig.discarded == []
        assert rig.pending == [1]


def test_an_unknown_tasks_state_is_discarded_once_c34() -> None:
    with open_coordinator() as rig:
        stranger = ExecutionAttemptID(vertex="source", subtask=0, attempt=7)
        rig.coordinator.trigger_checkpoint()

        rig.acknowledge(1, stranger, stranger, state=some_state())

        assert [handle.task for handle in rig.discarded] == [stranger]
        assert rig.pending == [1]


def test_a_late_acknowledgement_is_discarded_once_and_known_to_be_late_c34() -> None:
    with open_coordinator() as rig:
        rig.coordinator.trigger_checkpoint()
        first = rig.tasks[0]
        rig.decline(1, rig.tasks[1])

        answers = rig.acknowledge(1, first, first, state=some_state())

        assert answers == [True, True]
        assert [handle.task for handle in rig.discarded] == [first]


def test_an_acknowledgement_of_a_checkpoint_that_never_was_is_discarded_c34() -> None:
    with open_coordinator() as rig:
        answers = rig.acknowledge(9, rig.tasks[0], state=some_state())

        assert answers == [False]
        assert len(rig.discarded) == 1


def test_a_copy_of_an_acknowledgement_after_completion_leaves_the_completed_state_alone_c34() -> None:
    """Our messages repeat; Flink's do not. The state is referenced, so nobody may discard it."""
    with open_coordinator() as rig:
        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, state=some_state())

        rig.acknowledge(1, state=some_state())

        assert rig.discarded == []


def test_another_jobs_acknowledgements_and_declines_are_untouched_c34() -> None:
    with open_coordinator() as rig:
        rig.coordinator.trigger_checkpoint()

        answers = rig.acknowledge(1, state=some_state(), job_id="other")
        rig.decline(1, rig.tasks[0], job_id="other")

        assert answers == [False] * 3
        assert rig.discarded == []
        assert rig.pending == [1]


def test_a_checkpoint_that_takes_too_long_expires_with_the_latest_completed_number_c36() -> None:
    with open_coordinator(checkpoint_timeout_ms=100) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1)
        asked = rig.coordinator.trigger_checkpoint()
        rig.acknowledge(2, rig.tasks[0], state=some_state())

        rig.advance(100)
        late = rig.acknowledge(2, *rig.tasks[1:], state=some_state())

        assert reason_of(asked) is Reason.CHECKPOINT_EXPIRED
        assert late == [True, True]
        assert [handle.task for handle in rig.discarded] == rig.tasks
        assert rig.sent[-1][1] == NotifyCheckpointAborted(checkpoint_id=2, latest_completed_id=1)
        assert ("complete", 2) not in rig.told(rig.tasks[0])


def test_a_completed_checkpoint_does_not_expire_c36() -> None:
    with open_coordinator(checkpoint_timeout_ms=100) as rig:
        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1)

        rig.advance(1_000)

        assert rig.completed == [1]
        assert rig.told(rig.tasks[0]) == [("trigger", 1), ("complete", 1)]


def test_a_decline_aborts_that_checkpoint_for_the_tasks_reason_c36() -> None:
    with open_coordinator(max_concurrent_checkpoints=2) as rig:
        first = rig.coordinator.trigger_checkpoint()
        rig.coordinator.trigger_checkpoint()

        rig.decline(1, rig.tasks[0], Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)

        assert reason_of(first) is Reason.CHECKPOINT_DECLINED_TASK_NOT_READY
        assert rig.pending == [2]


def test_declines_of_many_tasks_abort_once_flink_5285_c36() -> None:
    with open_coordinator() as rig:
        rig.coordinator.trigger_checkpoint()

        for task in rig.tasks:
            rig.decline(1, task)

        assert rig.told(rig.tasks[2]) == [("aborted", 1)]


def test_a_task_failure_aborts_what_waits_for_it_and_not_what_it_has_acknowledged_c36() -> None:
    with open_coordinator(max_concurrent_checkpoints=2) as rig:
        rig.coordinator.trigger_checkpoint()
        waiting = rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, rig.tasks[0])

        rig.coordinator.fail_unacknowledged_pending_checkpoints_for(rig.tasks[0], RuntimeError("gone"))

        assert reason_of(waiting) is Reason.TASK_FAILURE
        assert rig.pending == [1]
