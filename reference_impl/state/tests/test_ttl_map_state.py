"""Claims about maps each of whose entries has a life: S6, S12-S14."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.errors import StateError, WrongState
from reference_impl.state.state_descriptor import MapStateDescriptor
from reference_impl.state.tests.ttl_rig import DESCRIPTORS, ON_READ, RETURN, Subtask, ttl


def map_with_an_expired_entry(**rules: Any) -> Subtask:
    """At 120 ms of a map of which 1 was put at 0 and 2 at 60 ms."""
    subtask = Subtask(DESCRIPTORS["map"], ttl(100, **rules))
    subtask.state.put(1, 10)
    subtask.now_ms = 60
    subtask.state.put_all({2: 20})
    subtask.now_ms = 120
    return subtask


def test_a_map_expires_entry_by_entry_s14() -> None:
    state = map_with_an_expired_entry().state

    assert not state.contains(1)
    assert state.contains(2)
    assert [state.get(1), state.get(2)] == [None, 20]


def test_the_views_of_a_map_show_what_lives_s14() -> None:
    state = map_with_an_expired_entry().state

    assert [len(view()) for view in (state.entries, state.keys, state.values)] == [1, 1, 1]
    assert [list(state.entries()), list(state.keys()), list(state.values())] == [[(2, 20)], [2], [20]]


def test_who_iterates_over_a_map_takes_the_expired_away_s14() -> None:
    subtask = map_with_an_expired_entry()

    list(subtask.state.keys())

    assert list(subtask.state.table.get("k", None)) == [2]


def test_iterating_shows_the_expired_once_where_it_is_shown_s13() -> None:
    state = map_with_an_expired_entry(visibility=RETURN).state

    assert [list(state.keys()), list(state.keys())] == [[1, 2], [2]]


def test_iterating_refreshes_where_reads_do_s12() -> None:
    subtask = map_with_an_expired_entry(update=ON_READ)
    list(subtask.state.values())
    subtask.now_ms = 200

    assert list(subtask.state.entries()) == [(2, 20)]


def test_a_map_whose_entries_have_all_expired_is_empty_s14_d5() -> None:
    subtask = map_with_an_expired_entry()
    assert not subtask.state.is_empty()

    subtask.now_ms = 160

    assert subtask.state.is_empty()


def test_a_view_restamps_and_removes_at_its_own_key_s6_s14() -> None:
    """Also when another key has been selected since."""
    subtask = map_with_an_expired_entry(update=ON_READ)
    entries = subtask.state.iterator()
    subtask.select("other")
    subtask.state.put(2, 99)

    assert next(entries) == (2, 20)
    entries.remove()

    assert subtask.state.get(2) == 99
    subtask.select("k")
    assert subtask.state.is_empty()


def test_an_iterator_removes_the_entry_given_last_and_once_s6() -> None:
    """FLINK-10267: a look ahead in between."""
    subtask = Subtask(DESCRIPTORS["map"], ttl(100))
    subtask.state.put_all({1: 10, 2: 20})
    entries = subtask.state.iterator()
    with pytest.raises(WrongState):
        entries.remove()
    next(entries)

    assert entries.has_next()
    entries.remove()
    with pytest.raises(WrongState):
        entries.remove()

    assert list(subtask.state.keys()) == [2]


def test_a_map_holds_none_only_where_its_type_has_it_s6() -> None:
    nullable = Subtask(MapStateDescriptor(name="m", key_type=int, value_type=int | None), ttl(100))
    nullable.state.put(1, None)
    strict = Subtask(DESCRIPTORS["map"], ttl(100))

    assert nullable.state.contains(1)
    with pytest.raises(StateError, match="None"):
        strict.state.put(1, None)
