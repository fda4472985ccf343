"""Claims about registration: one state a name, and types that may change or not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct, msgpack

from reference_impl.errors import StateError, StateMigrationException
from reference_impl.state.state_descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.tests.state_rig import COUNT, backend, contents, filled, keyed, of, saved


def test_a_name_asked_for_again_is_the_same_state_s2() -> None:
    _, store = keyed()
    state = store.get_state(COUNT)
    state.update(1)

    again = store.get_state(ValueStateDescriptor(name="count", value_type=int))

    assert again is state
    assert again.value() == 1


@pytest.mark.parametrize(
    "other",
    [
        ValueStateDescriptor(name="count", value_type=str),
        ListStateDescriptor(name="count", element_type=int),
        ReducingStateDescriptor(name="count", reduce=max, value_type=int),
        MapStateDescriptor(name="count", value_type=int),
    ],
    ids=lambda descriptor: f"{descriptor.kind}",
)
def test_a_name_asked_for_as_something_else_is_refused_s2(other: Any) -> None:
    one, store = keyed()
    store.get_state(COUNT).update(1)

    with pytest.raises(
        StateMigrationException, match="operator 'counts', state 'count': it is registered as value"
    ):
        one.get_or_create_keyed_state(other)

    assert store.get_state(COUNT).value() == 1


def test_an_unknown_kind_of_descriptor_is_refused_by_name_s2() -> None:
    class TreeStateDescriptor(Struct):
        name: str = "tree"

    with pytest.raises(StateError, match="state 'tree': a TreeStateDescriptor is no state descriptor"):
        backend().get_or_create_keyed_state(TreeStateDescriptor())  # type: ignore[arg-type]  # what it is about


def test_a_type_that_cannot_be_stored_is_refused_by_state_s2() -> None:
    with pytest.raises(StateError, match="operator 'counts', state 'x': values of .* cannot be stored"):
        backend().get_or_create_keyed_state(ValueStateDescriptor(name="x", value_type=object))


@pytest.mark.parametrize(
    "other",
    [ValueStateDescriptor(name="count", value_type=str), ListStateDescriptor(name="count", element_type=int)],
    ids=lambda descriptor: f"{descriptor.kind}",
)
def test_a_changed_type_is_refused_at_registration_and_not_at_restore_s2(other: Any) -> None:
    restored = backend()

    restored.restore([saved(filled(range(9)))])

    with pytest.raises(
        StateMigrationException, match="state 'count': it was restored as value state of int and is"
    ):
        restored.get_or_create_keyed_state(other)
    assert contents(restored, 5) == of(5)


def test_a_widened_type_rewrites_what_was_restored_s2() -> None:
    restored = backend()
    restored.restore([saved(filled(range(2000)))])

    state = restored.get_partitioned_state(None, ValueStateDescriptor(name="count", value_type=float | None))

    restored.set_current_key(1999)
    assert repr(state.value()) == "1999.0"
    assert str(saved(restored).states["count"]) == "value state of float | None"  # type: ignore[union-attr]  # not empty


def test_a_map_whose_keys_changed_type_is_refused_s2() -> None:
    restored = backend()
    restored.restore([saved(filled(range(9)))])

    with pytest.raises(
        StateMigrationException, match="map state of any to any and is registered as map state of str"
    ):
        restored.get_or_create_keyed_state(MapStateDescriptor(name="pages", key_type=str))


def test_a_migration_leaves_a_running_snapshot_alone_s9() -> None:
    restored = backend()
    restored.restore([saved(filled(range(1200)))])
    future = restored.snapshot(2)
    future.run_slice()

    restored.get_or_create_keyed_state(ValueStateDescriptor(name="count", value_type=float))
    future.run()

    handle = future.result()
    assert handle is not None
    assert str(handle.states["count"]) == "value state of int"
    assert {data for _, _, data in handle.entries("count")} == {msgpack.encode(key) for key in range(1200)}
