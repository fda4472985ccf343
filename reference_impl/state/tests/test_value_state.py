"""Claims about a value: the default, copies, what is refused."""

from __future__ import annotations

import pytest

from reference_impl.errors import StateError
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.tests.state_rig import keyed

PAIR = ValueStateDescriptor(name="pair", value_type=tuple[int, int], default=(0, 0))
VALUE = ValueStateDescriptor(name="value")


def test_a_value_is_none_until_it_is_set_s3() -> None:
    _, store = keyed()

    assert store.get_state(VALUE).value() is None


def test_a_default_stands_in_until_a_value_is_set_and_is_back_after_a_clear_s3() -> None:
    _, store = keyed()
    state = store.get_state(PAIR)

    met = [state.value()]
    state.update((1, 2))
    met.append(state.value())
    state.clear()
    met.append(state.value())

    assert met == [(0, 0), (1, 2), (0, 0)]


def test_a_default_is_a_copy_for_each_read_s3() -> None:
    _, store = keyed()
    state = store.get_state(ValueStateDescriptor(name="list", default=[1]))

    state.value().append(2)

    assert state.value() == [1]


def test_a_value_changed_after_it_was_written_or_read_changes_no_state_s3() -> None:
    _, store = keyed()
    state, value = store.get_state(VALUE), [1]
    state.update(value)
    value.append(2)
    state.value().append(3)

    assert state.value() == [1]


def test_none_is_no_value_s3() -> None:
    one, store = keyed()
    state = store.get_state(PAIR)
    state.update((1, 2))

    state.update(None)

    assert state.value() == (0, 0)
    assert one.num_keyed_state_entries == 0


def test_a_value_of_another_type_is_refused_by_operator_and_state_s2() -> None:
    _, store = keyed()
    state = store.get_state(PAIR)
    state.update((1, 2))

    with pytest.raises(StateError, match=r"operator 'counts', state 'pair': \(1, 'two'\) is no tuple"):
        state.update((1, "two"))

    assert state.value() == (1, 2)


def test_a_default_of_another_type_is_refused_s2() -> None:
    _, store = keyed()

    with pytest.raises(StateError, match="state 'n': the default does not fit"):
        store.get_state(ValueStateDescriptor(name="n", value_type=int, default="none"))
