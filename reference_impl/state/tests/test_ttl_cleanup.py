"""Claims about who cleans up what has expired, and that nobody sees it: S16."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.state.snapshots import KeyedStateHandle
from reference_impl.state.state_descriptor import CleanupStrategies, IncrementalCleanup
from reference_impl.state.tests.ttl_rig import BY_HAND, DESCRIPTORS, RETURN, STRATEGIES, Subtask, ttl


def with_keys(cleanup: CleanupStrategies, keys: int) -> Subtask:
    """A value for each of so many keys, written at 0 ms by an earlier run; it is 100 ms now, and all have expired."""
    subtask = Subtask(DESCRIPTORS["value"], ttl(100))
    for key in range(keys):
        subtask.select(key)
        subtask.state.update(key)
    subtask.now_ms = 100
    subtask.restart(ttl(100, cleanup=cleanup))
    return subtask


def held(handle: KeyedStateHandle | None) -> list[Any]:
    """The keys in a snapshot."""
    return [] if handle is None else sorted(key for key, _, _ in handle.entries("state"))


def incrementally(size: int, *, every_record: bool = False) -> CleanupStrategies:
    """So many entries an access."""
    return CleanupStrategies(
        incremental=IncrementalCleanup(cleanup_size=size, run_cleanup_for_every_record=every_record)
    )


def test_without_a_strategy_only_a_read_cleans_up_s16() -> None:
    subtask = with_keys(BY_HAND, 5)

    subtask.select(3)
    subtask.state.value()

    assert subtask.stored == 4


def test_each_access_cleans_up_so_many_entries_s16() -> None:
    subtask = with_keys(incrementally(2), 6)
    subtask.select("another")

    stored = []
    for _ in range(4):
        subtask.state.value()
        stored.append(subtask.stored)

    assert stored == [4, 2, 0, 0]


def test_who_says_nothing_has_the_incremental_clean_up_of_five_s16() -> None:
    subtask = with_keys(CleanupStrategies(), 12)
    subtask.select("another")

    subtask.state.value()

    assert subtask.stored == 7


def test_a_change_of_the_key_cleans_up_only_where_it_is_said_to_s16() -> None:
    found = {}
    for every_record in (False, True):
        subtask = with_keys(incrementally(2, every_record=every_record), 6)
        before = subtask.stored
        subtask.select("another")
        found[every_record] = before - subtask.stored

    assert found == {False: 0, True: 2}


def test_the_walk_begins_anew_at_its_end_s16() -> None:
    subtask = with_keys(incrementally(4), 2)
    subtask.select("another")
    subtask.state.value()
    for key in range(2):
        subtask.select(key)
        subtask.state.update(1)

    subtask.now_ms = 200
    subtask.select("another")
    subtask.state.value()
    subtask.state.value()

    assert subtask.stored == 0


def test_the_clean_up_loses_no_update_that_came_after_the_walk_began_s16() -> None:
    """What the walk has seen of an entry may be old by the time it comes to it."""
    subtask = with_keys(incrementally(1), 8)
    for key in range(8):
        subtask.select(key)
        subtask.state.update(100 + key)

    found = []
    for key in range(8):
        subtask.select(key)
        found.append(subtask.state.value())

    assert found == [100 + key for key in range(8)]


@pytest.mark.parametrize("strategy", ["incremental", "every record"])
def test_a_list_is_cleaned_up_element_by_element_s16(strategy: str) -> None:
    subtask = Subtask(DESCRIPTORS["list"], ttl(100, cleanup=STRATEGIES[strategy]))
    subtask.state.add(1)
    subtask.now_ms = 60
    subtask.state.add(2)
    subtask.now_ms = 120

    subtask.select("another")
    subtask.state.get()

    assert len(subtask.state.table.get("k", None)) == 1


def test_a_full_snapshot_leaves_the_expired_out_and_the_state_as_it_is_s16() -> None:
    subtask = with_keys(STRATEGIES["full snapshot"], 3)
    subtask.select(1)
    subtask.state.update(11)

    assert held(subtask.written()) == [1]
    assert subtask.stored == 3


def test_without_the_filter_a_snapshot_holds_the_expired_too_s16() -> None:
    assert held(with_keys(BY_HAND, 3).written()) == [0, 1, 2]


def test_the_filter_takes_lists_and_maps_apart_s16() -> None:
    for kind in ("list", "map"):
        subtask = Subtask(DESCRIPTORS[kind], ttl(100, cleanup=STRATEGIES["full snapshot"]))
        for now_ms in (0, 60):
            subtask.now_ms = now_ms
            subtask.state.add(now_ms) if kind == "list" else subtask.state.put(now_ms, now_ms)
        subtask.now_ms = 120

        handle = subtask.written()

        assert handle is not None
        (_, _, items), *others = handle.entries("state")
        assert not others
        assert len(items) == 1


def test_a_snapshot_of_nothing_but_the_expired_is_none_s16() -> None:
    assert with_keys(STRATEGIES["full snapshot"], 3).written() is None


def test_a_clock_that_is_behind_after_the_restore_brings_nothing_back_that_was_filtered_s16() -> None:
    subtask = with_keys(STRATEGIES["full snapshot"], 1)
    handle = subtask.written()

    subtask.now_ms = 0
    subtask.begin(ttl(100), handle)
    subtask.select(0)

    assert subtask.state.value() is None


def test_the_filter_is_in_force_in_the_first_snapshot_after_a_restore_s16() -> None:
    """FLINK-40354: it was not set up for states that were restored."""
    subtask = with_keys(BY_HAND, 3)
    subtask.restart(ttl(100, cleanup=STRATEGIES["full snapshot"]))

    assert subtask.written() is None


def test_a_filter_that_is_configured_no_more_is_not_in_force_s17() -> None:
    subtask = with_keys(STRATEGIES["full snapshot"], 0)
    subtask.select(1)
    subtask.state.update(1)
    subtask.restart(ttl(100))
    subtask.now_ms = 300

    assert held(subtask.written()) == [1]


def test_a_clean_up_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        IncrementalCleanup(cleanup_size=0)


def test_what_is_cleaned_up_is_not_shown_s13_s16() -> None:
    subtask = with_keys(BY_HAND, 2)
    subtask.restart(ttl(100, visibility=RETURN, cleanup=incrementally(5)))
    subtask.select(0)

    assert subtask.state.value() is None
