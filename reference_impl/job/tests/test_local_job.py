"""Claims about whole jobs, one trouble at a time: C14, C17-C19, C28, C37, C43, S8, S9."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reference_impl.checkpoint_events import CheckpointFailureReason
from reference_impl.errors import StreamElementFailed
from reference_impl.job.execution_graph import ExecutionState
from reference_impl.job.local_job import Message, TaskKilled
from reference_impl.job.messages import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from reference_impl.job.tests.coordination_rig import reason_of
from reference_impl.job.tests.local_pipeline import (
    MAX_PARALLELISM,
    Pipeline,
    a_pipeline,
    assert_all_is_shown_once,
    complete_one,
    produce,
    run_to_the_end,
    settle,
)

KILLED = [("source", 1), ("keyed", 0), ("sink", 1)]


def test_a_job_without_trouble_shows_each_record_once_with_its_final_checkpoint_c18() -> None:
    with a_pipeline(checkpoint_interval_ms=10) as pipeline:
        pipeline.end()

        pipeline.job.run_until(lambda: False)

        assert_all_is_shown_once(pipeline)


def test_a_job_at_least_once_aligns_nothing_and_loses_nothing_c30() -> None:
    with a_pipeline(checkpoint_interval_ms=10, is_exactly_once=False) as pipeline:
        complete_one(pipeline)
        produce(pipeline, 5)
        pipeline.job.kill(pipeline.attempt("keyed", 0))
        pipeline.job.restart()
        pipeline.end()

        pipeline.job.run_until(lambda: False)

        assert pipeline.job.has_finished
        assert set(pipeline.published) == set(pipeline.produced)


def test_nothing_is_shown_before_a_checkpoint_is_complete_c43() -> None:
    with a_pipeline() as pipeline:
        settle(pipeline)
        before = pipeline.published

        complete_one(pipeline)
        settle(pipeline)

        assert before == []
        assert pipeline.published == pipeline.produced


@pytest.mark.parametrize(("vertex", "subtask"), KILLED)
def test_a_killed_task_takes_the_job_back_to_its_checkpoint_and_nothing_is_lost_or_doubled_c43(
    vertex: str, subtask: int
) -> None:
    with a_pipeline() as pipeline:
        complete_one(pipeline)
        produce(pipeline, 7)
        settle(pipeline)

        pipeline.job.kill(pipeline.attempt(vertex, subtask))
        failure = pipeline.job.failure
        restored = pipeline.job.restart()
        run_to_the_end(pipeline)

        assert isinstance(failure, TaskKilled)
        assert restored.checkpoint_id == 1
        assert_all_is_shown_once(pipeline)


def test_a_failed_call_fails_the_job_which_goes_on_from_its_checkpoint_once_that_is_mended_c43() -> None:
    with a_pipeline() as pipeline:
        complete_one(pipeline)
        pipeline.broken = {14}
        pipeline.job.restart()
        produce(pipeline, 7)
        settle(pipeline)
        failure = pipeline.job.failure

        pipeline.broken.clear()
        pipeline.job.restart()
        run_to_the_end(pipeline)

        assert isinstance(failure, StreamElementFailed)
        assert_all_is_shown_once(pipeline)


@pytest.mark.parametrize(
    "parallelism",
    [(1, 1, 1), (3, 3, 3), (2, MAX_PARALLELISM, 1), (1, 3, 2)],
    ids=["down", "up", "to the maximum", "mixed"],
)
def test_at_another_parallelism_each_key_and_each_split_has_one_owner_s9_s20(
    parallelism: Sequence[int],
) -> None:
    with a_pipeline() as pipeline:
        complete_one(pipeline)
        produce(pipeline, 7)

        pipeline.job.restart(dict(zip(("source", "keyed", "sink"), parallelism, strict=True)))
        run_to_the_end(pipeline)

        assert_all_is_shown_once(pipeline)


def test_a_parallelism_above_the_maximum_is_refused_by_name_s8() -> None:
    with a_pipeline() as pipeline:
        complete_one(pipeline)

        with pytest.raises(ValueError, match="vertex 'keyed' has parallelism 9.*maximum of 8"):
            pipeline.job.restart({"keyed": MAX_PARALLELISM + 1})


def test_a_lost_notification_is_made_up_for_by_the_next_c38() -> None:
    lost: list[Message] = []

    def lose_the_first(message: Message) -> Sequence[int]:
        if isinstance(message, NotifyCheckpointComplete) and message.checkpoint_id == 1:
            lost.append(message)
            return ()
        return (0,)

    with a_pipeline() as pipeline:
        pipeline.new_job(route=lose_the_first).start()
        complete_one(pipeline)
        settle(pipeline)
        before = pipeline.published
        complete_one(pipeline)
        settle(pipeline)

        assert len(lost) == 6
        assert before == []
        assert pipeline.published == pipeline.produced


def test_an_abort_delivers_what_a_lost_notification_owes_c14() -> None:
    def lose_completions(message: Message) -> Sequence[int]:
        return () if isinstance(message, NotifyCheckpointComplete) else (0,)

    with a_pipeline() as pipeline:
        pipeline.new_job(route=lose_completions).start()
        settle(pipeline)
        complete_one(pipeline)
        pipeline.job.coordinator.trigger_checkpoint()

        pipeline.job.coordinator.stop_checkpoint_scheduler()
        settle(pipeline)

        assert pipeline.published == pipeline.produced


def test_a_restore_shows_what_a_lost_notification_did_not_c42() -> None:
    def lose_completions(message: Message) -> Sequence[int]:
        return () if isinstance(message, NotifyCheckpointComplete) else (0,)

    with a_pipeline() as pipeline:
        pipeline.new_job(route=lose_completions).start()
        settle(pipeline)
        complete_one(pipeline)
        settle(pipeline)
        before = pipeline.published

        pipeline.job.kill(pipeline.attempt("sink", 0))
        pipeline.job.restart({"sink": 1})

        assert before == []
        assert pipeline.published == pipeline.produced


def test_every_message_twice_and_late_changes_nothing_flink_10377_flink_14979_c14_c34_c38() -> None:
    with a_pipeline(checkpoint_interval_ms=20, max_concurrent_checkpoints=2) as pipeline:
        pipeline.new_job(route=lambda _: (0, 1, 35)).start()
        pipeline.end()

        pipeline.job.run_until(lambda: False)

        assert_all_is_shown_once(pipeline)


def test_lost_acknowledgements_let_a_checkpoint_expire_and_the_next_one_covers_it_c36_c39() -> None:
    def lose_of_the_first(message: Message) -> Sequence[int]:
        return () if isinstance(message, AcknowledgeCheckpoint) and message.checkpoint_id == 1 else (0,)

    with a_pipeline(checkpoint_timeout_ms=50) as pipeline:
        pipeline.new_job(route=lose_of_the_first).start()
        expired = pipeline.job.coordinator.trigger_checkpoint()
        pipeline.job.run_until(expired.done)
        complete_one(pipeline)
        settle(pipeline)

        assert reason_of(expired) is CheckpointFailureReason.CHECKPOINT_EXPIRED
        assert pipeline.published == pipeline.produced


def test_a_checkpoint_aborted_before_its_trigger_came_blocks_nobody_flink_18238_c2_c24() -> None:
    """The second source hears of the abort first; then the trigger makes it send a cancellation, not a barrier."""
    triggers: list[Message] = []

    def delay_the_second_trigger(message: Message) -> Sequence[int]:
        if isinstance(message, TriggerCheckpoint):
            triggers.append(message)
            return (50,) if len(triggers) == 2 else (0,)
        return (0,)

    with a_pipeline(checkpoint_timeout_ms=30) as pipeline:
        pipeline.new_job(route=delay_the_second_trigger).start()
        asked = pipeline.job.coordinator.trigger_checkpoint()
        pipeline.job.run_until(lambda: any(blocked(pipeline)))
        settle(pipeline)

        assert reason_of(asked) is CheckpointFailureReason.CHECKPOINT_EXPIRED
        assert not any(blocked(pipeline))


def blocked(pipeline: Pipeline) -> list[bool]:
    subtasks = pipeline.job.subtasks.values()
    return [channel.is_blocked for one in subtasks for gate in one._gates for channel in gate.channels]


@pytest.mark.parametrize("drain", [True, False])
def test_a_job_stopped_with_a_savepoint_goes_on_from_it_at_another_parallelism_c17(
    drain: bool,  # noqa: FBT001
) -> None:
    with a_pipeline(checkpoint_interval_ms=1_000) as pipeline:
        stopped = pipeline.job.coordinator.stop_with_savepoint(drain=drain)
        pipeline.job.run_until(lambda: pipeline.job.has_finished)
        shown = pipeline.published

        produce(pipeline, 6)
        restored = pipeline.job.restart({"keyed": 3, "sink": 1})
        run_to_the_end(pipeline)

        assert restored.checkpoint_id == stopped.result(timeout=0).checkpoint_id
        assert shown == pipeline.shown_by(stopped.result(timeout=0))
        assert_all_is_shown_once(pipeline)


def test_a_failed_stop_with_savepoint_fails_the_job_which_goes_on_from_its_checkpoint_c17() -> None:
    with a_pipeline(checkpoint_timeout_ms=20) as pipeline:
        complete_one(pipeline)
        produce(pipeline, 5)
        pipeline.job.coordinator.stop_with_savepoint(drain=False)
        pipeline.loop.run_ready()
        for _ in range(20):
            pipeline.job.step(pipeline.attempt("source", 0))
        pipeline.loop.advance(pipeline.loop.now_ms() + 20)
        settle(pipeline)
        failure = pipeline.job.failure

        pipeline.job.restart()
        run_to_the_end(pipeline)

        assert failure is not None
        assert "avepoint" in str(failure)
        assert_all_is_shown_once(pipeline)


def test_tasks_that_have_finished_stay_so_after_a_restore_and_the_others_go_on_c19() -> None:
    with a_pipeline(checkpoint_interval_ms=20) as pipeline:
        pipeline.end()
        sources = pipeline.job.graph.attempts("source")
        pipeline.job.run_until(
            lambda: (
                all(pipeline.job.graph.state(one) is ExecutionState.FINISHED for one in sources)
                and pipeline.job.coordinator.store.latest_checkpoint_id > 1
            )
        )

        if not pipeline.job.has_finished:
            pipeline.job.kill(pipeline.attempt("sink", 0))
            pipeline.job.restart()
        pipeline.job.run_until(lambda: False)

        assert_all_is_shown_once(pipeline)


def test_the_last_records_are_shown_once_though_every_final_notification_is_lost_once_flink_38614_c18() -> (
    None
):
    """The tasks stay for a later checkpoint, and what the lost one owes is shown with that."""

    def lose_first(message: Message) -> Sequence[int]:
        if isinstance(message, NotifyCheckpointComplete) and message.checkpoint_id == 1:
            return ()
        return (0,)

    with a_pipeline(checkpoint_interval_ms=20) as pipeline:
        pipeline.new_job(route=lose_first).start()
        pipeline.end()

        pipeline.job.run_until(lambda: False)

        assert pipeline.job.coordinator.store.latest_checkpoint_id >= 2
        assert_all_is_shown_once(pipeline)
