"""What may be restored, and what is known of the order in which each side calls again."""

from __future__ import annotations

import msgspec
import pytest

from harness.conform.protocol.events import Snapshot
from harness.conform.protocol.lockstep import RestoredPair, Snapshots
from harness.conform.protocol.script import Life

ORDERED = Life(config={"mode": "ordered", "capacity": 2}, restore=1)
UNORDERED = Life(config={"mode": "unordered", "capacity": 2}, restore=1)


def snapshot(*values: object, state: bytes = b"0") -> Snapshot:
    elements = [{"watermark": 0} if value == "wm" else {"value": value, "ts": None} for value in values]
    return Snapshot(id=1, state=msgspec.Raw(state), elements=elements)


def restored(left: Snapshot, right: Snapshot, *, mode: str, life: Life = UNORDERED) -> RestoredPair:
    snapshots = Snapshots()
    snapshots.take([left], [right], mode=mode)
    return snapshots.restored(life)


def test_each_side_is_restored_from_its_own_state() -> None:
    found = restored(snapshot(1, state=b"1"), snapshot(1, state=b"[2]"), mode="ordered")

    assert found.left == msgspec.Raw(b"1")
    assert found.right == msgspec.Raw(b"[2]")


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_a_snapshot_of_unlike_contents_is_restored_on_neither_side(mode: str) -> None:
    assert restored(snapshot(1), snapshot(1, 2), mode=mode) == RestoredPair()


def test_a_snapshot_that_only_one_side_took_is_restored_on_neither_side() -> None:
    snapshots = Snapshots()
    snapshots.take([snapshot(1)], [], mode="ordered")

    assert snapshots.restored(ORDERED) == RestoredPair()


def test_the_order_is_free_only_within_a_segment_of_an_unordered_snapshot() -> None:
    """A25: records between two watermarks of an unordered snapshot stand in no particular order."""
    free = restored(snapshot(1, 2), snapshot(2, 1), mode="unordered")
    alone = restored(snapshot(1, "wm", 2), snapshot(1, "wm", 2), mode="unordered")
    ordered = restored(snapshot(1, 2), snapshot(1, 2), mode="ordered")

    assert (free.free, free.shuffled) == (True, True)
    assert (alone.free, alone.shuffled) == (False, False)
    assert (ordered.free, ordered.shuffled) == (False, False)


def test_a_free_order_decides_who_is_admitted_beyond_the_capacity_and_who_heads_an_ordered_queue() -> None:
    fits = restored(snapshot(1, 2), snapshot(2, 1), mode="unordered")
    beyond = restored(snapshot(1, 2, 3), snapshot(2, 1, 3), mode="unordered")

    assert not fits.must_drain(UNORDERED, shuffled=True)
    assert fits.must_drain(ORDERED, shuffled=True)
    assert beyond.must_drain(UNORDERED, shuffled=True)
    assert not beyond.must_drain(UNORDERED, shuffled=False)
