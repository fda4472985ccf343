"""Claims about barriers that overtake, at once or after a timeout: C26-C28."""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointException
from reference_impl.checkpoints.tests.bench import (
    CANCELLED,
    SUBSUMED,
    Bench,
    barrier,
    cancel_marker,
    end,
    open_bench,
    unaligned,
)


def waits_for_the_second_channel(bench: Bench, *, timeout_ms: int = 10) -> None:
    """The first channel has given out its barrier; before the second's two records wait."""
    bench.put(0, "a", barrier(1, timeout_ms=timeout_ms), "after")
    bench.read_all()
    bench.put(1, "x", "y", barrier(1, timeout_ms=timeout_ms), "z")


def test_while_the_timeout_lasts_the_alignment_goes_on_c26() -> None:
    with open_bench() as bench:
        waits_for_the_second_channel(bench)
        bench.advance(10)

        assert bench.task.triggered == []
        assert bench.blocked == [0]


def test_when_more_than_the_timeout_has_passed_barriers_overtake_and_the_snapshot_is_taken_c26() -> None:
    with open_bench() as bench:
        waits_for_the_second_channel(bench)
        bench.advance(11)

        assert bench.task.triggered == [1]
        assert bench.task.state[1] == ("a",)
        assert bench.task.captured(1) == ["x", "y"]
        assert bench.task.options[1].is_unaligned
        assert bench.blocked == []


def test_the_timeout_counts_from_the_trigger_and_not_from_the_barrier_c26() -> None:
    with open_bench() as bench:
        bench.advance(100)
        bench.put(0, barrier(1, timeout_ms=10, timestamp=95))
        bench.read_all()

        bench.advance(105)
        assert bench.task.triggered == []
        bench.advance(106)
        assert bench.task.triggered == [1]


def test_a_timeout_that_is_over_when_the_barrier_is_read_needs_no_timer_c26() -> None:
    with open_bench() as bench:
        bench.advance(100)
        bench.put(0, barrier(1, timeout_ms=10, timestamp=50))
        bench.read(0)

        assert bench.task.triggered == [1]
        assert bench.blocked == []


def test_a_timeout_that_is_over_when_a_barrier_is_announced_acts_by_its_timers_mail_c26_d3() -> None:
    with open_bench() as bench:
        bench.advance(100)
        bench.put(0, "x", barrier(1, timeout_ms=10, timestamp=50))
        bench.run_mail()
        assert bench.task.triggered == []

        bench.advance(100)

        assert bench.task.triggered == [1]
        assert bench.task.state[1] == ()


def test_a_timeout_that_is_over_when_a_channel_ends_before_any_barrier_acts_by_its_timers_mail_c26_d3() -> (
    None
):
    with open_bench() as bench:
        bench.put(0, "x", barrier(1, timeout_ms=10))
        bench.put(1, *end())
        bench.run_mail()
        bench.loop.advance(50)  # the timer's mail is still to come
        bench.read(1)
        bench.read(1)
        assert bench.task.triggered == []

        bench.loop.run_ready()
        bench.run_mail()

        assert bench.task.triggered == [1]
        assert bench.task.captured(1) == ["x"]


def test_a_timeout_that_is_over_when_a_channel_ends_after_a_barrier_takes_the_snapshot_c26_d3() -> None:
    with open_bench(channels=3) as bench:
        bench.put(0, barrier(1, timeout_ms=10))
        bench.put(1, *end())
        bench.put(2, "x")
        bench.read(0)
        bench.loop.advance(50)  # the timer's mail is still to come
        bench.read(1)
        bench.read(1)

        assert bench.task.triggered == [1]


def test_a_timeout_before_any_barrier_was_read_lets_those_announced_overtake_c26() -> None:
    with open_bench() as bench:
        bench.put(0, "x", barrier(1, timeout_ms=10), "behind")
        bench.put(1, "y")
        bench.run_mail()
        bench.advance(11)

        assert bench.task.triggered == [1]
        assert bench.task.state[1] == ()
        bench.put(1, "late", barrier(1, timeout_ms=10))
        bench.read_all()
        assert sorted(bench.task.captured(1)) == ["late", "x", "y"]
        assert "behind" in bench.task.processed


def test_after_the_timeout_a_barrier_that_is_announced_overtakes_at_once_c26() -> None:
    with open_bench() as bench:
        waits_for_the_second_channel(bench, timeout_ms=0)
        bench.advance(1)
        bench.run_mail()

        assert bench.handler.all_barriers_received_future(1).done()
        assert bench.task.processed == ["a"]


def test_the_last_barrier_cancels_the_timer_c26() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(1, timeout_ms=10))
        bench.put(1, barrier(1, timeout_ms=10))
        bench.read_all()

        assert len(bench.timers) == 0
        bench.advance(20)
        assert bench.task.triggered == [1]
        assert not bench.task.options[1].is_unaligned


def test_a_timer_that_had_fired_already_does_nothing_to_a_later_checkpoint_c26() -> None:
    """Its mail cannot be called back (T3)."""
    with open_bench() as bench:
        bench.put(0, barrier(1, timeout_ms=10))
        bench.read_all()
        bench.loop.advance(11)
        bench.loop.run_ready()
        bench.put(1, cancel_marker(1), barrier(2, timeout_ms=10, timestamp=11))
        while bench.read_next() is not None:
            pass
        bench.run_mail()

        assert bench.task.triggered == []
        assert bench.blocked == [1]


def test_the_first_unaligned_barrier_cuts_and_nobody_is_blocked_c27() -> None:
    with open_bench() as bench:
        bench.put(0, "a", unaligned(1), "after")
        bench.put(1, "x")
        bench.run_mail()

        assert bench.task.triggered == [1]
        assert bench.task.state[1] == ()
        assert bench.blocked == []


def test_of_each_other_channel_what_comes_before_its_barrier_is_captured_c27() -> None:
    with open_bench() as bench:
        bench.put(1, "x")
        bench.put(0, "a", unaligned(1), "behind a")
        bench.run_mail()
        bench.put(1, "y")
        bench.read_all()
        bench.put(1, "z", unaligned(1), "behind z")
        bench.read_all()

        assert bench.task.captured(1) == ["a", "x", "y", "z"]
        assert bench.task.state[1] == ()


def test_what_is_in_flight_is_known_only_with_the_last_barrier_c27() -> None:
    with open_bench() as bench:
        bench.put(0, unaligned(1))
        bench.put(1, "x")
        bench.read_all()

        assert bench.task.triggered == [1]
        assert not bench.task.results[1].is_done
        bench.put(1, unaligned(1))
        bench.run_mail()
        assert bench.task.results[1].is_done


def test_an_unaligned_barrier_makes_an_alignment_unaligned_c27() -> None:
    with open_bench() as bench:
        bench.put(0, "a", barrier(1, timeout_ms=1_000), "behind a")
        bench.put(1, "x")
        bench.read(0)
        bench.read(0)
        assert bench.blocked == [0]
        bench.put(1, unaligned(1))
        bench.run_mail()

        assert bench.task.triggered == [1]
        assert bench.task.captured(1) == ["x"]
        assert bench.blocked == []


def test_the_end_of_a_channel_completes_what_it_had_in_flight_c27() -> None:
    with open_bench() as bench:
        bench.put(1, "x", *end())
        bench.put(0, unaligned(1))
        bench.read_all()

        assert bench.task.captured(1) == ["x"]
        assert bench.handler.all_barriers_received_future(1).done()


def test_the_task_hears_of_the_last_barrier_once_and_late_ones_are_ignored_c27() -> None:
    with open_bench(channels=3) as bench:
        for channel in range(3):
            bench.put(channel, channel, unaligned(1))
        bench.read_all()

        assert bench.task.triggered == [1]
        assert bench.task.captured(1) == [0, 1, 2]


def test_an_unaligned_checkpoint_that_a_newer_one_overtook_does_not_fail_the_task_c21() -> None:
    """FLINK-20331: the newer barrier had come into a channel, unread, when the older one cut."""
    with open_bench() as bench:
        bench.channels[1].block()  # so that its priority event is not read first
        bench.put(1, unaligned(2))
        bench.put(0, unaligned(1), "goes on")
        bench.read_all()

        assert bench.task.triggered == []
        assert bench.task.aborted == [(1, SUBSUMED)]
        bench.channels[1].resume()
        bench.put(0, unaligned(2))
        bench.read_all()
        assert bench.task.triggered == [2]
        assert bench.task.processed == ["goes on"]
        assert (bench.task.state[2], bench.task.captured(2)) == (("goes on",), [])


def test_two_unaligned_checkpoints_on_their_way_share_nothing_c28() -> None:
    """FLINK-29730: they shared a writer's state."""
    with open_bench() as bench:
        bench.put(0, unaligned(1))
        bench.put(1, "of 1")
        bench.run_mail()
        first = bench.task.results[1].input_channel_state
        bench.put(0, unaligned(2))
        bench.run_mail()
        bench.put(1, "of 2", unaligned(2))
        bench.read_all()

        assert bench.task.aborted == [(1, SUBSUMED)]
        assert first.exception(timeout=0) is not None
        assert bench.task.captured(2) == ["of 1", "of 2"]


def test_an_abort_while_capturing_ends_every_future_and_captures_no_more_c28() -> None:
    """FLINK-28474: one was never known."""
    with open_bench() as bench:
        bench.put(0, unaligned(1))
        bench.put(1, "x", cancel_marker(1), "y")
        bench.read_all()

        assert bench.task.aborted == [(1, CANCELLED)]
        assert bench.task.results[1].is_done
        bench.put(1, "z")  # captured for nobody, which the writer would refuse
        bench.read_all()
        assert bench.task.processed == ["x", "y", "z"]


def test_an_alignment_in_time_has_nothing_in_flight_c28() -> None:
    with open_bench() as bench:
        bench.put(0, "a", barrier(1, timeout_ms=10))
        bench.put(1, "x", barrier(1, timeout_ms=10))
        bench.read_all()

        assert sorted(bench.task.state[1]) == ["a", "x"]
        assert bench.task.captured(1) == []


def test_of_an_unaligned_checkpoint_the_task_learns_what_is_known_and_the_rest_later_c31() -> None:
    with open_bench() as bench:
        bench.advance(5)
        bench.put(0, unaligned(1, timestamp=2))
        bench.run_mail()
        bench.advance(9)
        bench.put(1, unaligned(1, timestamp=2))
        bench.run_mail()

        assert bench.task.metrics[1].checkpoint_start_delay_ms == 3
        assert bench.task.metrics[1].alignment_duration_ms == 0
        assert bench.handler.alignment_duration_ms == 4


def test_a_cancellation_of_a_later_one_ends_what_is_being_captured_without_a_word_c24() -> None:
    """The task hears of the cancelled number alone; that of the other fails with its futures (FLINK-28474)."""
    with open_bench() as bench:
        bench.put(0, unaligned(1), cancel_marker(2))
        bench.put(1, "x")
        bench.read_all()

        assert bench.task.aborted == [(2, CANCELLED)]
        assert isinstance(bench.task.results[1].input_channel_state.exception(timeout=0), CheckpointException)
