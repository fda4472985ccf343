"""Claims about a list: its order, and what leaves it as it was."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.errors import StateError
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.state.tests.state_rig import keyed

LIST = ListStateDescriptor(name="list", element_type=int)


def test_a_list_keeps_the_order_of_its_elements_s4() -> None:
    _, store = keyed()
    state = store.get_list_state(LIST)

    state.add(3)
    state.add_all([1, 2])
    state.add(3)

    assert list(state.get()) == [3, 1, 2, 3]


def test_an_empty_list_is_empty_and_never_none_s4() -> None:
    _, store = keyed()

    assert list(store.get_list_state(LIST).get()) == []


def test_an_update_replaces_a_list_and_an_empty_one_clears_s4() -> None:
    one, store = keyed()
    state = store.get_list_state(LIST)
    state.add(1)

    state.update([7, 8])
    replaced = state.get()
    state.update([])

    assert (replaced, state.get()) == ([7, 8], [])
    assert one.num_keyed_state_entries == 0


def test_to_add_nothing_changes_nothing_s4() -> None:
    one, store = keyed()
    state = store.get_list_state(LIST)

    state.add_all([])

    assert one.num_keyed_state_entries == 0


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("add", None),
        ("add_all", None),
        ("add_all", [5, None]),
        ("update", None),
        ("update", [5, None]),
        ("add_all", [5, "six"]),
    ],
)
def test_a_refused_element_or_list_leaves_the_state_as_it_was_s4(method: str, given: Any) -> None:
    _, store = keyed()
    state = store.get_list_state(LIST)
    state.update([1, 2])

    with pytest.raises(StateError, match="operator 'counts', state 'list'"):
        getattr(state, method)(given)

    assert state.get() == [1, 2]
