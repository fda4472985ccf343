"""Claims about a map: its entries, its views, its iterators."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.errors import StateError, WrongState
from reference_impl.state.state_descriptor import MapStateDescriptor
from reference_impl.state.tests.state_rig import keyed

MAP = MapStateDescriptor(name="map")


def test_a_map_gives_none_for_what_is_not_in_it_and_removes_it_without_a_word_s6() -> None:
    _, store = keyed()
    state = store.get_map_state(MAP)

    state.remove("absent")

    assert state.get("absent") is None
    assert not state.contains("absent")


def test_a_map_may_hold_none_s6() -> None:
    _, store = keyed()
    state = store.get_map_state(MapStateDescriptor(name="ages", key_type=str, value_type=int))

    state.put("ann", None)

    assert state.get("ann") is None
    assert state.contains("ann")
    assert list(state.entries()) == [("ann", None)]


def test_a_map_tells_keys_apart_by_type_too_s6() -> None:
    _, store = keyed()
    state = store.get_map_state(MAP)

    for key in (1, True, 1.0, "1", (1, True), (True, 1), 2**80):
        state.put(key, repr(key))

    assert [repr(key) for key in state.keys()] == list(state.values())  # noqa: SIM118  # no dict


def test_a_map_is_empty_again_after_the_last_entry_went_and_keeps_no_trace_s6() -> None:
    """FLINK-21413 is about what stayed behind."""
    one, store = keyed()
    state = store.get_map_state(MAP)
    state.put_all({"a": 1, "b": 2})

    state.remove("a")
    between = state.is_empty()
    state.remove("b")

    assert (between, state.is_empty(), one.num_keyed_state_entries) == (False, True, 0)


def test_views_of_a_map_show_what_came_later_s6() -> None:
    _, store = keyed()
    state = store.get_map_state(MAP)
    entries, keys, values = state.entries(), state.keys(), state.values()

    state.put_all({"a": 1, "b": 2})
    state.put("a", 3)

    assert (list(entries), list(keys), list(values)) == ([("a", 3), ("b", 2)], ["a", "b"], [3, 2])
    assert len(entries) == 2


def test_an_iterator_removes_from_the_state_once_for_each_entry_s6() -> None:
    one, store = keyed()
    state = store.get_map_state(MAP)
    state.put_all({"a": 1, "b": 2})
    iterator = state.iterator()

    with pytest.raises(WrongState):
        iterator.remove()
    next(iterator)
    iterator.remove()
    with pytest.raises(WrongState, match=r"call next\(\) first"):
        iterator.remove()
    left = list(state.entries())
    next(iterator)
    iterator.remove()

    assert left == [("b", 2)]
    assert state.is_empty()
    assert one.num_keyed_state_entries == 0


def test_to_ask_for_the_next_entry_does_not_change_which_one_is_removed_s6() -> None:
    """FLINK-10267: after hasNext() had looked ahead, remove() hit another entry."""
    _, store = keyed()
    state = store.get_map_state(MAP)
    state.put_all({number: number for number in range(300)})
    iterator = state.iterator()
    while iterator.has_next():
        key, _ = next(iterator)
        iterator.has_next()
        assert isinstance(key, int)
        if key % 2:
            iterator.remove()

    assert list(state.keys()) == list(range(0, 300, 2))
    assert not iterator.has_next()


def test_an_iterator_goes_on_with_its_own_key_s6() -> None:
    one, store = keyed("k")
    state = store.get_map_state(MAP)
    state.put_all({"a": 1, "b": 2})
    iterator = state.iterator()
    one.set_current_key("other")
    state.put("a", 100)

    met = []
    for entry in iterator:
        met.append(entry)
        iterator.remove()

    assert met == [("a", 1), ("b", 2)]
    assert list(state.entries()) == [("a", 100)]


def test_an_iterator_meets_no_more_what_was_removed_and_changes_as_they_are_s6() -> None:
    _, store = keyed()
    state = store.get_map_state(MAP)
    state.put_all({"a": 1, "b": 2, "c": 3})
    iterator = state.iterator()
    next(iterator)

    state.remove("b")
    state.put("c", 30)
    state.put("d", 4)

    assert list(iterator) == [("c", 30)]


@pytest.mark.parametrize("values", [None, {"ann": "old"}, {1: 1}])
def test_a_refused_mapping_leaves_the_map_as_it_was_s6(values: Any) -> None:
    _, store = keyed()
    state = store.get_map_state(MapStateDescriptor(name="ages", key_type=str, value_type=int))
    state.put("bob", 1)

    with pytest.raises(StateError, match="state 'ages'"):
        state.put_all(values)

    assert list(state.entries()) == [("bob", 1)]


def test_a_map_with_keys_of_a_users_own_type_s6() -> None:
    _, store = keyed()
    state = store.get_map_state(MapStateDescriptor(name="grid", key_type=tuple[int, int], value_type=str))

    state.put((1, 2), "x")

    assert state.get((1, 2)) == "x"
    assert list(state.keys()) == [(1, 2)]
    with pytest.raises(StateError):
        state.put((1, "2"), "y")
