"""Claims about what of a whole job outlives it: records in flight, and files (C28, C29, C37)."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_impl.checkpoints.snapshot_file import SnapshotUnreadable
from reference_impl.checkpoints.storage import CheckpointStorage, RestorePolicy
from reference_impl.errors import StateError
from reference_impl.job.completed_checkpoints import CompletedCheckpoint, FileCheckpointStorage
from reference_impl.job.tests.local_pipeline import (
    Pipeline,
    a_pipeline,
    assert_all_is_shown_once,
    complete_one,
    produce,
    run_to_the_end,
    settle,
)


def in_flight(checkpoint: CompletedCheckpoint) -> int:
    return sum(
        len(channel.elements)
        for state in checkpoint.operator_states.values()
        for mine in state.subtask_states.values()
        for channel in mine.input_channel_state or ()
    )


def cut_with_records_in_flight(pipeline: Pipeline) -> CompletedCheckpoint:
    """The sources have read everything, nobody else has run; then the barriers overtake."""
    for _ in range(30):
        for source in pipeline.job.graph.attempts("source"):
            pipeline.job.step(source)
    return complete_one(pipeline)


def test_records_in_flight_are_restored_where_they_were_c28() -> None:
    with a_pipeline(is_unaligned=True) as pipeline:
        cut = cut_with_records_in_flight(pipeline)
        settle(pipeline)
        shown = pipeline.published

        pipeline.job.kill(pipeline.attempt("keyed", 1))
        pipeline.job.restart()
        run_to_the_end(pipeline)

        assert in_flight(cut) > 0
        assert shown == pipeline.shown_by(cut)
        assert_all_is_shown_once(pipeline)


def test_records_in_flight_are_refused_at_another_parallelism_by_operator_and_state_c28() -> None:
    with a_pipeline(is_unaligned=True) as pipeline:
        cut_with_records_in_flight(pipeline)

        with pytest.raises(StateError, match="operator 'count', state 'input_channel_state'") as refused:
            pipeline.job.restart({"source": 1})

        assert refused.value.state == "input_channel_state"


def test_a_savepoint_has_nothing_in_flight_and_restores_at_another_parallelism_c29() -> None:
    with a_pipeline(is_unaligned=True) as pipeline:
        for source in pipeline.job.graph.attempts("source"):
            for _ in range(30):
                pipeline.job.step(source)
        cut = complete_one(pipeline, is_savepoint=True)

        pipeline.job.restart({"source": 1, "keyed": 3})
        run_to_the_end(pipeline)

        assert in_flight(cut) == 0
        assert_all_is_shown_once(pipeline)


def test_another_process_goes_on_from_the_files_c37(tmp_path: Path) -> None:
    storage = FileCheckpointStorage(CheckpointStorage(tmp_path, job_id="job"))
    with a_pipeline(storage=storage) as pipeline:
        complete_one(pipeline)
        produce(pipeline, 4)
        settle(pipeline)

        for subtask in pipeline.job.subtasks.values():
            subtask.abandon()
        restored = pipeline.new_job().start()
        run_to_the_end(pipeline)

        assert restored.checkpoint_id == 1
        assert_all_is_shown_once(pipeline)


def test_a_torn_file_is_named_with_its_operator_and_the_one_before_is_taken_only_if_allowed(
    tmp_path: Path,
) -> None:
    files = CheckpointStorage(tmp_path, job_id="job")
    with a_pipeline(storage=FileCheckpointStorage(files)) as pipeline:
        pipeline.new_job(max_retained=2).start()
        settle(pipeline)
        complete_one(pipeline)
        complete_one(pipeline)
        path = files.path_of(2)
        path.write_bytes(path.read_bytes()[:-1])

        with pytest.raises(SnapshotUnreadable, match="operator 'sink'.*checkpoint-000002"):
            pipeline.new_job()
        restored = pipeline.new_job(policy=RestorePolicy.PREVIOUS_IF_UNREADABLE).start()

        assert restored.checkpoint_id == 1
        assert [error.path for error in restored.passed_over] == [path]
        assert "not the latest" in str(restored)
