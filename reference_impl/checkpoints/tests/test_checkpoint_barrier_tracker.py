"""Claims about counting barriers at least once: C30, and C23, C24, C31 where they hold for it too."""

from __future__ import annotations

import pytest

from reference_impl.checkpoint_events import AlignmentType, CheckpointBarrier
from reference_impl.checkpoints.barrier_tracker import MAX_CHECKPOINTS_TO_TRACK, CheckpointBarrierTracker
from reference_impl.checkpoints.tests.bench import CANCELLED, ENDED, Bench, cancel_marker, end, open_bench
from reference_impl.checkpoints.tests.bench import barrier as any_barrier
from reference_impl.errors import WrongState


def barrier(checkpoint_id: int, *, timestamp: int = 0) -> CheckpointBarrier:
    return any_barrier(checkpoint_id, alignment=AlignmentType.AT_LEAST_ONCE, timestamp=timestamp)


def waiting(bench: Bench) -> tuple[int, ...]:
    assert isinstance(bench.handler, CheckpointBarrierTracker)
    return bench.handler.pending_checkpoint_ids


def test_nobody_is_blocked_and_the_last_barrier_takes_the_snapshot_c30() -> None:
    with open_bench(kind="tracker") as bench:
        bench.put(0, barrier(1), "behind")
        bench.read_all()
        assert bench.task.processed == ["behind"]
        assert bench.task.triggered == []
        bench.put(1, barrier(1))
        bench.read_all()

        assert bench.task.triggered == [1]
        assert bench.task.state[1] == ("behind",)


def test_several_wait_at_a_time_and_one_that_completes_drops_those_before_it_c30() -> None:
    with open_bench(kind="tracker") as bench:
        bench.put(0, barrier(1), barrier(2), barrier(3))
        bench.read_all()
        assert waiting(bench) == (1, 2, 3)
        bench.put(1, barrier(2), barrier(3))
        bench.read_all()

        assert bench.task.triggered == [2, 3]
        assert bench.task.aborted == []
        assert waiting(bench) == ()


def test_barriers_of_one_that_was_dropped_are_ignored_c30() -> None:
    with open_bench(kind="tracker", channels=3) as bench:
        bench.put(0, barrier(1), barrier(2))
        bench.put(1, barrier(2), barrier(1))
        bench.put(2, barrier(2), barrier(1))
        bench.read_all()

        assert bench.task.triggered == [2]
        assert waiting(bench) == ()


def test_fifty_wait_at_most_and_the_oldest_is_forgotten_c30() -> None:
    with open_bench(kind="tracker") as bench:
        for number in range(1, MAX_CHECKPOINTS_TO_TRACK + 2):
            bench.put(0, barrier(number))
        bench.read_all()
        assert waiting(bench) == tuple(range(2, MAX_CHECKPOINTS_TO_TRACK + 2))
        bench.put(1, barrier(1), barrier(2))
        bench.read_all()

        assert bench.task.triggered == [2]


def test_with_one_channel_each_new_number_is_taken_at_once_and_an_old_one_never_c30() -> None:
    with open_bench(kind="tracker", channels=1) as bench:
        bench.put(0, barrier(2), barrier(2), barrier(1), barrier(3))
        bench.read_all()

        assert bench.task.triggered == [2, 3]


def test_several_cancellations_of_one_number_abort_once_c30() -> None:
    with open_bench(kind="tracker", channels=3) as bench:
        bench.put(0, barrier(1))
        for channel in (1, 2, 0):
            bench.put(channel, cancel_marker(1))
        bench.read_all()

        assert bench.task.aborted == [(1, CANCELLED)]
        assert bench.task.triggered == []


def test_a_cancellation_gives_up_those_before_it_too_c30() -> None:
    with open_bench(kind="tracker") as bench:
        bench.put(0, barrier(1), barrier(2))
        bench.put(1, cancel_marker(2))
        bench.read_all()

        assert bench.task.aborted == [(1, CANCELLED), (2, CANCELLED)]


def test_one_that_was_cancelled_is_not_taken_by_barriers_that_come_late_c30() -> None:
    with open_bench(kind="tracker", channels=3) as bench:
        bench.put(0, cancel_marker(1))
        bench.put(1, barrier(1))
        bench.put(2, barrier(1))
        bench.read_all()

        assert bench.task.triggered == []
        assert bench.task.aborted == [(1, CANCELLED)]
        assert waiting(bench) == ()


def test_with_one_channel_a_cancellation_is_told_once_c30() -> None:
    with open_bench(kind="tracker", channels=1) as bench:
        bench.put(0, cancel_marker(1), cancel_marker(1), barrier(2))
        bench.read_all()

        assert bench.task.aborted == [(1, CANCELLED)]
        assert bench.task.triggered == [2]


def test_the_end_of_a_channel_counts_for_the_newest_that_it_completes_c23() -> None:
    with open_bench(kind="tracker", channels=3) as bench:
        bench.put(0, barrier(1), barrier(2), barrier(3))
        bench.put(1, barrier(1), barrier(2))
        bench.put(2, *end())
        bench.read_all()

        assert bench.task.triggered == [2]
        assert waiting(bench) == (3,)
        bench.put(1, barrier(3))
        bench.read_all()
        assert bench.task.triggered == [2, 3]


def test_without_last_checkpoints_the_end_of_a_channel_aborts_all_that_wait_c23() -> None:
    with open_bench(kind="tracker", count_ended=False) as bench:
        bench.put(0, barrier(1), barrier(2))
        bench.put(1, *end())
        bench.read_all()

        assert bench.task.aborted == [(1, ENDED), (2, ENDED)]
        assert waiting(bench) == ()


def test_after_an_end_the_channel_that_is_left_completes_what_waits_c23() -> None:
    with open_bench(kind="tracker") as bench:
        bench.put(0, barrier(1), *end())
        bench.read_all()
        bench.put(1, barrier(1))
        bench.read_all()

        assert bench.task.triggered == [1]


def test_the_latest_one_is_measured_c31() -> None:
    with open_bench(kind="tracker") as bench:
        bench.put(0, barrier(1))
        bench.read_all()
        bench.advance(10)
        bench.put(0, barrier(2, timestamp=8))
        bench.read_all()
        bench.advance(15)
        bench.put(1, barrier(2, timestamp=8))
        bench.read_all()

        assert bench.task.metrics[2].alignment_duration_ms == 5
        assert bench.task.metrics[2].checkpoint_start_delay_ms == 2


def test_nothing_waits_for_the_last_barrier_which_is_said_c30() -> None:
    with open_bench(kind="tracker") as bench, pytest.raises(WrongState, match="only counted"):
        bench.handler.all_barriers_received_future(1)
