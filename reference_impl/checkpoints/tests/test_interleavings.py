"""Claims about barriers, cancellations and ends in any order: C20-C28, against models too simple to be wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.checkpoints.channels import ChannelElement
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.tests.bench import Bench
from reference_impl.checkpoints.tests.interleavings import (
    Run,
    conserves,
    goes_on,
    play,
    records_before,
    restores,
    runs,
)
from reference_impl.checkpoints.tests.naive_alignment import (
    NaiveAlignment,
    Overheard,
    as_the_model,
)
from reference_impl.tests.rig import quickly

EVERY_KIND = ["aligned", "timeoutable", "unaligned", "savepoint"]
ALIGNED = ["aligned", "savepoint"]


@quickly
@given(runs(EVERY_KIND))
def test_each_record_is_in_the_state_or_captured_or_behind_the_barrier_c28(run: Run) -> None:
    play(run, conserves)


@quickly
@given(runs(EVERY_KIND, channels=(2, 4)))
def test_the_same_holds_over_two_inputs_c28(run: Run) -> None:
    play(run, conserves, gates=2)


@quickly
@given(runs(["timeoutable", "unaligned"]))
def test_after_a_restore_every_record_is_processed_once_and_in_its_order_c28(run: Run) -> None:
    play(run, restores)


@quickly
@given(runs(EVERY_KIND, always_counts_ended=False))
def test_whatever_happened_the_next_checkpoint_completes_and_no_channel_stays_blocked_c20_c21_c23_c24(
    run: Run,
) -> None:
    """FLINK-18238: a task behind one that had given up waited for ever."""
    play(run, goes_on)


@quickly
@given(runs(["unaligned"]))
def test_an_unaligned_checkpoint_never_blocks_c27(run: Run) -> None:
    def nobody_was_blocked(bench: Bench, _run: Run) -> None:
        assert bench.blocked == []
        assert sorted(bench.task.processed) == sorted(
            value
            for elements in run.contents
            for value in records_before((*elements, BARRIER_AT_END), AT_END)
        )

    play(run, nobody_was_blocked)


@quickly
@given(runs(["timeoutable"]))
def test_an_alignment_that_times_out_keeps_nobody_waiting_c26(run: Run) -> None:
    """Once its time is over, what is pending has taken its snapshot, and every record can be read."""

    def all_was_read(bench: Bench, _run: Run) -> None:
        assert bench.blocked == []
        assert all(len(channel) == 0 for channel in bench.channels)

    play(run, all_was_read)


AT_END = 2_000
BARRIER_AT_END = CheckpointBarrier(checkpoint_id=AT_END)


@quickly
@given(runs(ALIGNED, always_counts_ended=False))
def test_the_task_is_told_what_the_model_says_c20_c21_c22_c23_c24(run: Run) -> None:
    def overheard(*, task: Any, inputs: Any, timers: Any, **_: Any) -> Overheard:
        return Overheard(
            task=task,
            handler=lambda told: SingleCheckpointBarrierHandler.aligned(
                task=told,
                inputs=inputs,
                timers=timers,
                enable_checkpoints_after_tasks_finish=run.count_ended,
            ),
            model=NaiveAlignment(len(run.contents), count_ended=run.count_ended),
        )

    play(run, as_the_model, kind="aligned", handler=overheard)


def test_the_model_of_a_channel_says_when_a_checkpoint_could_not_complete() -> None:
    elements: list[ChannelElement] = [CheckpointBarrier(checkpoint_id=2)]

    with pytest.raises(AssertionError, match="completed without the barrier of a channel"):
        records_before(elements, 1)
