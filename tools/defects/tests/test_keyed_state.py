"""Planted defects of keyed state: each is convicted by a stated property, which acquits the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reference_impl.state.key_groups import compute_key_group_range_for_operator_index
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.snapshots import KeyedStateHandle
from reference_impl.state.state_descriptor import ListStateDescriptor, ValueStateDescriptor
from tools.defects.tests.wrong_parts import wrong_part

Build = Callable[..., KeyedStateBackend]
COUNT = ValueStateDescriptor(name="count", value_type=int)
SEEN = ListStateDescriptor(name="seen", element_type=int)
KEYS = range(40)


def subtasks(
    build: Build, parallelism: int, handles: list[KeyedStateHandle | None]
) -> list[KeyedStateBackend]:
    """As many backends as the parallelism says, restored from all handles."""
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
    """The snapshot of `one`; `meanwhile` runs between its synchronous and its asynchronous part."""
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
    """The value of each key."""
    state = one.get_partitioned_state(None, descriptor)
    found = []
    for key in KEYS:
        one.set_current_key(key)
        found.append(state.value() if descriptor is COUNT else state.get())
    return found


def backend(wrong: Any) -> Build:
    """What builds a backend of the class `wrong`, or with `wrong` for its state maps."""
    is_backend = issubclass(wrong, KeyedStateBackend)
    return wrong if is_backend else partial(KeyedStateBackend, create_state_map=wrong)


CONVICTIONS: dict[str, Callable[[Build], None]] = {
    "backend-range-half-open": each_key_has_exactly_one_owner_after_a_rescale,
    "chunk-not-copied-on-write": a_value_is_what_it_was_at_the_synchronous_part,
    "shallow-copy-on-write": a_list_is_what_it_was_at_the_synchronous_part,
    "drops-unregistered-state": a_state_that_nobody_registers_survives,
}


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_defect_breaks_the_property_s9(name: str) -> None:
    with pytest.raises(AssertionError):
        CONVICTIONS[name](backend(wrong_part(name)))


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_reference_keeps_the_property_s9(name: str) -> None:
    CONVICTIONS[name](KeyedStateBackend)
