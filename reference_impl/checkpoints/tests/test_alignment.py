"""Claims about aligned barriers, over channels that a test fills: C20-C25."""

from __future__ import annotations

import pytest

from reference_impl.checkpoint_events import CheckpointException
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.tests.bench import (
    CANCELLED,
    ENDED,
    SUBSUMED,
    HandlerKind,
    barrier,
    cancel_marker,
    end,
    open_bench,
)
from reference_impl.errors import WrongState

EXACTLY_ONCE = pytest.mark.parametrize("kind", ["aligned", "alternating"])


@EXACTLY_ONCE
def test_an_old_barrier_is_ignored_and_its_channel_goes_on_c20(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, barrier(5))
        bench.put(1, barrier(4), "behind")
        bench.read(0)
        bench.read(1)
        bench.read(1)

        assert bench.task.processed == ["behind"]
        assert bench.blocked == [0]
        assert (bench.task.triggered, bench.task.aborted) == ([], [])


@EXACTLY_ONCE
def test_a_barrier_of_the_current_number_that_is_over_blocks_nothing_c20(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, cancel_marker(3))
        bench.put(1, barrier(3), "behind")
        bench.read_all()

        assert bench.blocked == []
        assert bench.task.processed == ["behind"]


def test_a_barrier_by_call_that_is_old_does_not_resume_a_channel_that_waits_c20() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(6))
        bench.read_all()

        bench.handler.process_barrier(barrier(5), bench.channels[0].info, is_rpc_triggered=True)

        assert bench.blocked == [0]


@EXACTLY_ONCE
def test_a_newer_barrier_aborts_the_pending_one_unblocks_all_and_begins_c21(kind: HandlerKind) -> None:
    with open_bench(kind=kind, channels=3) as bench:
        bench.put(0, barrier(1), "after 1")
        bench.put(1, barrier(2))
        bench.read(0)
        bench.read(1)

        assert bench.task.aborted == [(1, SUBSUMED)]
        assert bench.blocked == [1]
        assert bench.handler.latest_checkpoint_id == 2
        assert bench.handler.is_checkpoint_pending


def test_barriers_of_the_aborted_one_that_come_late_are_ignored_c21() -> None:
    with open_bench(channels=3) as bench:
        bench.put(0, barrier(1), barrier(2))
        bench.put(1, barrier(2))
        bench.put(2, barrier(1), barrier(2))
        bench.read(0)
        bench.read_all()

        assert bench.task.triggered == [2]
        assert bench.task.aborted == [(1, SUBSUMED)]
        assert bench.blocked == []


@EXACTLY_ONCE
def test_a_channel_waits_from_its_barrier_until_the_last_one_c22(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, "a", barrier(1), "after")
        bench.put(1, "b")
        bench.read_all()

        assert bench.task.processed == ["a", "b"]
        assert bench.blocked == [0]
        assert bench.task.triggered == []


@EXACTLY_ONCE
def test_with_the_last_barrier_the_snapshot_is_taken_and_all_go_on_c22(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, "a", barrier(1), "after a")
        bench.put(1, "b", barrier(1), "after b")
        bench.read_all()

        assert bench.task.triggered == [1]
        assert sorted(bench.task.state[1]) == ["a", "b"]
        assert sorted(bench.task.processed) == ["a", "after a", "after b", "b"]


def test_barriers_of_two_inputs_are_brought_together_c22() -> None:
    with open_bench(gates=2, channels=1) as bench:
        bench.put(0, barrier(1), "after 0")
        bench.put(1, "b", barrier(1))
        bench.read(0)

        assert bench.blocked == [0]
        bench.read_all()

        assert bench.task.state[1] == ("b",)


@EXACTLY_ONCE
def test_the_end_of_a_channel_counts_as_its_barrier_c23(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, barrier(1))
        bench.put(1, "b", *end())
        bench.read_all()

        assert bench.task.triggered == [1]
        assert bench.task.state[1] == ("b",)
        assert bench.blocked == []


@EXACTLY_ONCE
def test_a_barrier_and_then_the_end_of_its_channel_count_once_c23(kind: HandlerKind) -> None:
    with open_bench(kind=kind, channels=3) as bench:
        info = bench.channels[0].info
        bench.put(0, barrier(1))
        bench.read_all()

        bench.handler.process_end_of_partition(info)

        assert bench.task.triggered == []
        bench.put(1, barrier(1))
        bench.put(2, barrier(1))
        bench.read_all()
        assert bench.task.triggered == [1]


@EXACTLY_ONCE
def test_a_channel_that_ended_before_is_not_waited_for_c23(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, *end())
        bench.put(1, barrier(1))
        bench.read_all()

        assert bench.task.triggered == [1]


@EXACTLY_ONCE
def test_without_last_checkpoints_the_end_of_a_channel_aborts_c23(kind: HandlerKind) -> None:
    with open_bench(kind=kind, channels=3, count_ended=False) as bench:
        bench.put(0, barrier(1), "after")
        bench.put(1, *end())
        bench.read_all()

        assert bench.task.aborted == [(1, ENDED)]
        assert bench.task.processed == ["after"]


def test_without_last_checkpoints_an_end_with_nothing_pending_aborts_nothing_c23() -> None:
    with open_bench(count_ended=False) as bench:
        bench.put(0, *end())
        bench.put(1, barrier(1))
        bench.read_all()

        assert bench.task.aborted == []
        assert bench.task.triggered == [1]


@EXACTLY_ONCE
def test_a_cancellation_ends_the_pending_one_and_all_go_on_c24(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.put(0, barrier(1), "after")
        bench.put(1, cancel_marker(1))
        bench.read_all()

        assert bench.task.aborted == [(1, CANCELLED)]
        assert bench.task.processed == ["after"]


@EXACTLY_ONCE
def test_several_cancellations_of_one_number_abort_once_c24(kind: HandlerKind) -> None:
    """FLINK-5285: each went on to all that came behind, and multiplied."""
    with open_bench(kind=kind, channels=3) as bench:
        for channel in range(3):
            bench.put(channel, cancel_marker(7))
        bench.read_all()

        assert bench.task.aborted == [(7, CANCELLED)]


def test_a_cancellation_of_one_that_is_to_come_forestalls_it_c24() -> None:
    with open_bench() as bench:
        bench.put(0, cancel_marker(2))
        bench.put(1, barrier(1), barrier(2), "behind")
        bench.read(0)
        bench.read_all()

        assert bench.task.aborted == [(2, CANCELLED)]
        assert bench.task.triggered == []
        assert bench.task.processed == ["behind"]


def test_a_late_cancellation_does_not_touch_a_newer_checkpoint_c24() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(2))
        bench.put(1, cancel_marker(1), barrier(2))
        bench.read(0)
        bench.read(1)

        assert bench.task.aborted == []
        assert bench.blocked == [0]
        bench.read_all()
        assert bench.task.triggered == [2]


def test_a_cancellation_of_one_that_was_taken_does_nothing_c24() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(1))
        bench.put(1, barrier(1))
        bench.read_all()
        bench.put(0, cancel_marker(1))
        bench.read_all()

        assert (bench.task.triggered, bench.task.aborted) == ([1], [])


def test_an_announcement_alone_is_not_enough_for_a_cancellation_to_count_c24() -> None:
    """Nothing is blocked by it; what was announced ends with the next checkpoint, or unaligned."""
    with open_bench() as bench:
        bench.put(0, "in front", barrier(1, timeout_ms=10))
        bench.put(1, cancel_marker(1))
        bench.read(1)

        assert bench.task.aborted == []
        assert bench.handler.is_checkpoint_pending


def test_an_abort_uses_the_number_up_cancels_the_timer_and_tells_the_task_c25() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(1, timeout_ms=10))
        bench.read_all()
        assert len(bench.timers) == 1
        bench.put(1, cancel_marker(1), barrier(1))
        bench.read_all()

        assert len(bench.timers) == 0
        assert bench.handler.latest_checkpoint_id == 1
        assert not bench.handler.is_checkpoint_pending
        assert bench.task.aborted == [(1, CANCELLED)]
        with pytest.raises(CheckpointException, match="CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"):
            bench.handler.all_barriers_received_future(1).result(timeout=0)


def test_who_waits_for_the_last_barrier_hears_of_it_c25() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(1))
        bench.read_all()
        future = bench.handler.all_barriers_received_future(1)
        assert not future.done()
        bench.put(1, barrier(1))
        bench.read_all()

        assert future.done()
        assert future.exception() is None


def test_to_wait_for_one_that_has_not_begun_is_an_error_that_says_so_c25() -> None:
    with open_bench() as bench, pytest.raises(WrongState, match="checkpoint 3 has not begun"):
        bench.handler.all_barriers_received_future(3)


def test_a_closed_handler_waits_for_nothing_c26() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(1, timeout_ms=5))
        bench.read_all()
        received = bench.handler.all_barriers_received_future(1)
        bench.gates[0].close()

        assert len(bench.timers) == 0
        assert received.cancelled()


def test_a_barrier_by_call_stands_for_one_that_the_channel_did_not_carry_c22() -> None:
    with open_bench() as bench:
        bench.handler.process_barrier(barrier(1), InputChannelInfo(0, 0), is_rpc_triggered=True)
        bench.put(0, "goes on")
        bench.read_all()
        assert bench.task.processed == ["goes on"]

        bench.handler.process_barrier(barrier(1), InputChannelInfo(0, 1), is_rpc_triggered=True)

        assert bench.task.triggered == [1]


def test_with_every_channel_ended_no_barrier_is_waited_for_c18() -> None:
    with open_bench() as bench:
        for channel in range(2):
            bench.put(channel, *end())
        bench.read_all()

        assert bench.handler.all_barriers_received_future(9).done()
