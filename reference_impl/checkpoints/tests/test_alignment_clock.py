"""Claims about how long barriers take to come together: C31."""

from __future__ import annotations

import pytest

from reference_impl.checkpoints.tests.bench import HandlerKind, barrier, cancel_marker, open_bench

EXACTLY_ONCE = pytest.mark.parametrize("kind", ["aligned", "alternating"])


@EXACTLY_ONCE
def test_an_alignment_is_measured_from_the_first_barrier_to_the_last_c31(kind: HandlerKind) -> None:
    with open_bench(kind=kind) as bench:
        bench.advance(10)
        bench.put(0, barrier(1, timestamp=4))
        bench.read_all()
        bench.advance(17)
        assert bench.handler.alignment_duration_ms == 7
        bench.put(1, barrier(1, timestamp=4))
        bench.read_all()

        assert bench.task.metrics[1].checkpoint_start_delay_ms == 6
        assert bench.task.metrics[1].alignment_duration_ms == 7
        bench.advance(30)
        assert bench.handler.alignment_duration_ms == 7


def test_an_alignment_that_was_announced_begins_with_its_first_barrier_c31() -> None:
    """FLINK-24068: it had no beginning."""
    with open_bench() as bench:
        bench.put(0, "in front", barrier(1, timeout_ms=100))
        bench.read(1)
        bench.advance(20)
        bench.read_all()
        bench.advance(25)
        bench.put(1, barrier(1, timeout_ms=100))
        bench.read_all()

        assert bench.task.metrics[1].checkpoint_start_delay_ms == 20
        assert bench.task.metrics[1].alignment_duration_ms == 5


@EXACTLY_ONCE
def test_with_one_channel_there_is_no_alignment_c31(kind: HandlerKind) -> None:
    with open_bench(kind=kind, channels=1) as bench:
        bench.advance(3)
        bench.put(0, barrier(1))
        bench.read_all()

        assert bench.task.metrics[1].alignment_duration_ms == 0
        assert bench.task.metrics[1].checkpoint_start_delay_ms == 3


def test_a_checkpoint_that_was_given_up_has_no_duration_and_the_next_its_own_c31() -> None:
    with open_bench() as bench:
        bench.put(0, barrier(1))
        bench.read_all()
        bench.advance(50)
        bench.put(1, cancel_marker(1), barrier(2, timestamp=50))
        bench.read_all()
        bench.advance(52)
        bench.put(0, barrier(2, timestamp=50))
        bench.read_all()

        assert bench.task.metrics[2].alignment_duration_ms == 2
        assert bench.task.metrics[2].checkpoint_start_delay_ms == 0
