"""Claims about checkpoints that capture nothing in flight, whatever happens: C29."""

from __future__ import annotations

import pytest

from reference_impl.checkpoint_events import AlignmentType, SnapshotType
from reference_impl.checkpoints.tests.bench import barrier, open_bench, unaligned
from reference_impl.errors import WrongState


@pytest.mark.parametrize("snapshot_type", [SnapshotType.SAVEPOINT, SnapshotType.SAVEPOINT_SUSPEND])
def test_a_savepoint_is_aligned_and_captures_nothing_whatever_its_timeout_c29(
    snapshot_type: SnapshotType,
) -> None:
    """FLINK-18136."""
    with open_bench() as bench:
        bench.put(0, barrier(1, snapshot_type=snapshot_type, timeout_ms=10))
        bench.put(1, "in front", barrier(1, snapshot_type=snapshot_type, timeout_ms=10))
        bench.read(0)
        bench.advance(1_000)

        assert bench.task.triggered == []
        bench.read_all()
        assert bench.task.state[1] == ("in front",)
        assert bench.task.results == {}


def test_an_edge_that_may_not_be_overtaken_is_aligned_for_good_c29() -> None:
    """FLINK-22815: on a broadcast edge what each receiver captures would differ."""
    forced = unaligned(1).options.with_unaligned_unsupported()
    assert forced.alignment is AlignmentType.FORCED_ALIGNED
    with open_bench() as bench:
        for channel in range(2):
            bench.put(channel, "in front", barrier(1, alignment=forced.alignment))
        bench.advance(1_000)
        bench.read(0)
        bench.read(0)

        assert bench.blocked == [0]
        bench.read_all()
        assert bench.task.state[1] == ("in front", "in front")
        assert bench.task.results == {}


def test_what_captures_nothing_cannot_be_written_down_c29() -> None:
    with open_bench() as bench, pytest.raises(ValueError, match="captures no in-flight data"):
        bench.task.writer.start(1, barrier(1, snapshot_type=SnapshotType.SAVEPOINT).options)


def test_an_unaligned_barrier_at_a_handler_that_only_aligns_is_an_error_that_says_so_c29() -> None:
    with open_bench(kind="aligned") as bench:
        bench.put(0, unaligned(1))

        with pytest.raises(WrongState, match="barrier 1 in channel 0 of gate 0 is unaligned"):
            bench.read_all()
