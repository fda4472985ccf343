"""What the tests of keyed state share: backends, and snapshots that went through a file's bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import msgpack

from reference_impl.state.key_groups import compute_key_group_range_for_operator_index
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore
from reference_impl.state.snapshots import KeyedStateHandle
from reference_impl.state.state_descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

OPERATOR = "counts"
COUNT = ValueStateDescriptor(name="count", value_type=int)
SEEN = ListStateDescriptor(name="seen")
PAGES = MapStateDescriptor(name="pages")
"""The three states that `filled` fills."""


def backend(*, key: Any = None, **options: Any) -> KeyedStateBackend:
    """One for all key groups; with a key, that is selected."""
    given: dict[str, Any] = {"operator": OPERATOR, "max_parallelism": 128} | options
    made = KeyedStateBackend(**given)
    if key is not None:
        made.set_current_key(key)
    return made


def keyed(key: Any = "k", **options: Any) -> tuple[KeyedStateBackend, KeyedStateStore]:
    """A backend with a key selected, and the door to it."""
    made = backend(key=key, **options)
    return made, KeyedStateStore(made)


def backends(
    parallelism: int, handles: Iterable[KeyedStateHandle | None], *, max_parallelism: int = 128
) -> list[KeyedStateBackend]:
    """One for each subtask, restored from all handles."""
    kept = list(handles)
    made = [
        backend(
            max_parallelism=max_parallelism,
            key_group_range=compute_key_group_range_for_operator_index(max_parallelism, parallelism, index),
        )
        for index in range(parallelism)
    ]
    for one in made:
        one.restore(kept)
    return made


def saved(one: KeyedStateBackend) -> KeyedStateHandle | None:
    """Its state, as bytes that could lie in a file, read again."""
    future = one.snapshot(1)
    future.run()
    return written(future.result())


def written(handle: KeyedStateHandle | None) -> KeyedStateHandle | None:
    """The handle through bytes."""
    return msgpack.decode(msgpack.encode(handle), type=KeyedStateHandle | None)


def filled(keys: range, **options: Any) -> KeyedStateBackend:
    """Three states, for each key."""
    one, store = keyed(0, **options)
    for key in keys:
        one.set_current_key(key)
        store.get_state(COUNT).update(key)
        store.get_list_state(SEEN).add_all([key, str(key)])
        store.get_map_state(PAGES).put_all({(key,): None, "k": key})
    return one


def contents(one: KeyedStateBackend, key: Any) -> tuple[Any, ...]:
    """What the three states hold for a key."""
    store = KeyedStateStore(one)
    one.set_current_key(key)
    return (
        store.get_state(COUNT).value(),
        store.get_list_state(SEEN).get(),
        dict(store.get_map_state(PAGES).entries()),
    )


def of(key: int) -> tuple[Any, ...]:
    """What `filled` leaves for a key."""
    return key, [key, str(key)], {(key,): None, "k": key}
