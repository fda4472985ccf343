"""Claims about the scope of keyed state: operator, name, key, namespace."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.errors import StateError
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.keyed_state_backend import KeyedStateStore
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.tests.state_rig import COUNT, PAGES, SEEN, backend, contents, filled, keyed
from tools.cases import each


def test_each_key_has_its_own_state_s1() -> None:
    one, store = keyed("a")
    state = store.get_state(COUNT)
    state.update(1)
    one.set_current_key("b")

    assert state.value() is None
    state.update(2)
    one.set_current_key("a")
    assert state.value() == 1


def test_keys_that_python_takes_for_one_have_states_of_their_own_s1() -> None:
    one, store = keyed()
    state = store.get_state(ValueStateDescriptor(name="shown", value_type=str))
    keys: list[Any] = [1, True, 1.0, (1,), (True,), "1", b"1", 2**70, (1, ("a", None))]
    for key in keys:
        one.set_current_key(key)
        state.update(repr(key))

    met = []
    for key in keys:
        one.set_current_key(key)
        met.append(state.value())
    assert met == [repr(key) for key in keys]
    assert sorted(map(repr, one.get_keys("shown"))) == sorted(met)


@each(
    "access",
    [
        lambda store: store.get_state(COUNT).value(),
        lambda store: store.get_state(COUNT).update(1),
        lambda store: store.get_state(COUNT).clear(),
        lambda store: store.get_list_state(SEEN).add(1),
        lambda store: store.get_map_state(PAGES).entries(),
        lambda store: store.get_map_state(PAGES).is_empty(),
    ],
    ids=["value", "update", "clear", "add", "entries", "is_empty"],
)
def test_state_without_a_key_is_refused_by_operator_and_state_s1(access: Any) -> None:
    with pytest.raises(StateError, match=r"operator 'counts', state '\w+': no key is set"):
        access(KeyedStateStore(backend()))


def test_none_is_no_key_s1() -> None:
    with pytest.raises(StateError, match="operator 'counts': a key is never None"):
        backend().set_current_key(None)


@pytest.mark.parametrize(("key_type", "key"), [(int, "1"), (int, True), (str, 1), (tuple[int, str], (1, 2))])
def test_a_key_of_another_type_than_declared_is_refused_s1(key_type: Any, key: Any) -> None:
    with pytest.raises(StateError, match="operator 'counts': .* cannot be a key"):
        backend(key_type=key_type).set_current_key(key)


def test_a_string_that_no_file_could_hold_is_refused_s1() -> None:
    one, store = keyed()

    with pytest.raises(StateError, match="operator 'counts': .* cannot be a key"):
        one.set_current_key("\ud800")
    with pytest.raises(StateError, match="operator 'counts', state 'pages'"):
        store.get_map_state(PAGES).put("\ud800", 1)
    with pytest.raises(StateError, match="operator 'counts', state 'seen'"):
        store.get_list_state(SEEN).add(["\ud800"])


def test_a_key_of_another_subtask_is_refused_and_named_s8() -> None:
    one = backend(key_group_range=KeyGroupRange(start=0, end=85))
    one.set_current_key(0 + 42)

    with pytest.raises(StateError, match=r"key 0 is of key group 94, and this subtask has \[0, 85\]"):
        one.set_current_key(0)
    assert (one.current_key, one.current_key_group) == (42, 29)


def test_a_maximum_out_of_bounds_is_refused_by_operator_s8() -> None:
    with pytest.raises(ValueError, match="operator 'counts': the maximum parallelism is 32769"):
        backend(max_parallelism=32769)
    with pytest.raises(ValueError, match=r"operator 'counts': the key groups \[0, 4\] are not among"):
        backend(max_parallelism=4, key_group_range=KeyGroupRange(start=0, end=4))


def test_all_keys_of_a_state_can_be_gone_through_and_changed_s1() -> None:
    one = filled(range(20))
    one.set_current_key(3)

    one.apply_to_all_keys(None, COUNT, lambda key, state: state.update(-key) if key else state.clear())

    assert one.current_key == 3
    assert sorted(one.get_keys("count")) == list(range(1, 20))
    assert contents(one, 7)[0] == -7


@pytest.mark.parametrize(
    ("ask", "descriptor"), [("get_state", SEEN), ("get_list_state", COUNT), ("get_map_state", SEEN)]
)
def test_the_store_gives_no_other_kind_than_its_method_says_s2(ask: str, descriptor: Any) -> None:
    with pytest.raises(StateError, match=f"state '{descriptor.name}': .*cannot describe this kind of state"):
        getattr(KeyedStateStore(backend()), ask)(descriptor)
