"""Planted defects of keyed state: each is convicted by a stated property, which acquits the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reference_impl.mutants.chunk_not_copied_on_write import SharingStateMap
from reference_impl.mutants.drops_unregistered_state import ForgetfulBackend
from reference_impl.mutants.key_group_off_by_one import ShortBackend
from reference_impl.mutants.shallow_copy_on_write import ShallowStateMap
from reference_impl.state.handles import KeyedStateHandle
from reference_impl.state.key_groups import compute_key_group_range_for_operator_index
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import ListStateDescriptor, ValueStateDescriptor

Build = Callable[..., KeyedStateBackend]
COUNT = ValueStateDescriptor(name="count", value_type=int)
SEEN = ListStateDescriptor(name="seen", element_type=int)
KEYS = range(40)


def subtasks(
    build: Build, parallelism: int, handles: list[KeyedStateHandle | None]
) -> list[KeyedStateBackend]:
    """Restored from all handles."""
    made = [
        build(
            operator="counts",
            max_parallelism=16,
            key_group_range=compute_key_group_range_for_operator_index(16, parallelism, index),
        )
        for index in range(parallelism)
    ]
    for one in made:
        one.restore(handles)
    return made


def saved(one: KeyedStateBackend, *, meanwhile: Callable[[], Any] = lambda: None) -> KeyedStateHandle | None:
    """Its state, something being done before it is written."""
    future = one.snapshot(1)
    meanwhile()
    future.run()
    return future.result()


def filled(build: Build) -> KeyedStateBackend:
    """A value and a list for each key."""
    (one,) = subtasks(build, 1, [])
    write(one, 1)
    return one


def write(one: KeyedStateBackend, number: int) -> None:
    """Set each value, append to each list."""
    for key in KEYS:
        one.set_current_key(key)
        one.get_partitioned_state(None, COUNT).update(number)
        one.get_partitioned_state(None, SEEN).add(number)


def each_key_has_exactly_one_owner_after_a_rescale(build: Build) -> None:
    """S9."""
    owners = subtasks(build, 3, [saved(filled(build))])

    assert sorted(key for one in owners for key in one.get_keys("count")) == list(KEYS)


def a_value_is_what_it_was_at_the_synchronous_part(build: Build) -> None:
    """S9, C7."""
    one = filled(build)
    saved(one)  # so that what is written to is of an older version

    (restored,) = subtasks(KeyedStateBackend, 1, [saved(one, meanwhile=lambda: write(one, 2))])

    assert read(restored, COUNT) == [1] * len(KEYS)


def a_list_is_what_it_was_at_the_synchronous_part(build: Build) -> None:
    """S9, C7, S23."""
    one = filled(build)

    (restored,) = subtasks(KeyedStateBackend, 1, [saved(one, meanwhile=lambda: write(one, 2))])

    assert read(restored, SEEN) == [[1]] * len(KEYS)


def a_state_that_nobody_registers_survives(build: Build) -> None:
    """S9."""
    handle = saved(filled(build))
    for _ in range(2):
        (restored,) = subtasks(build, 1, [handle])
        read(restored, COUNT)
        handle = saved(restored)
    (restored,) = subtasks(build, 1, [handle])

    assert read(restored, SEEN) == [[1]] * len(KEYS)


def read(one: KeyedStateBackend, descriptor: Any) -> list[Any]:
    """Of each key."""
    state = one.get_partitioned_state(None, descriptor)
    found = []
    for key in KEYS:
        one.set_current_key(key)
        found.append(state.value() if descriptor is COUNT else state.get())
    return found


CONVICTIONS: dict[str, tuple[Build, Callable[[Build], None]]] = {
    "key-group-off-by-one": (ShortBackend, each_key_has_exactly_one_owner_after_a_rescale),
    "chunk-not-copied-on-write": (
        partial(KeyedStateBackend, create_state_map=SharingStateMap),
        a_value_is_what_it_was_at_the_synchronous_part,
    ),
    "shallow-copy-on-write": (
        partial(KeyedStateBackend, create_state_map=ShallowStateMap),
        a_list_is_what_it_was_at_the_synchronous_part,
    ),
    "drops-unregistered-state": (ForgetfulBackend, a_state_that_nobody_registers_survives),
}


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_mutant_breaks_the_property_s9(name: str) -> None:
    build, holds = CONVICTIONS[name]

    with pytest.raises(AssertionError):
        holds(build)


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_reference_keeps_the_property_s9(name: str) -> None:
    _, holds = CONVICTIONS[name]

    holds(KeyedStateBackend)
