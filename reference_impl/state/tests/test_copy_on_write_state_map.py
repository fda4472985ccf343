"""Claims about the copy-on-write map: a snapshot is what was, whatever is written since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.state.copy_on_write_state_map import Cell, CopyOnWriteStateMap, StateMapSnapshot
from reference_impl.state.key_groups import SPREAD_BITS, spread_of

KEY_GROUPS = 3


def position_of(key: Any) -> int:
    """Of an int as key, alone or behind a namespace."""
    identity: int = key[1] if isinstance(key, tuple) else key
    return identity % KEY_GROUPS << SPREAD_BITS | spread_of(identity)


def put(state_map: CopyOnWriteStateMap, key: Any, value: bytes) -> None:
    state_map.put(position_of(key), key, value)


def contents(held: StateMapSnapshot | CopyOnWriteStateMap) -> dict[Any, Any]:
    """Of all key groups; a chunk met twice would show as a wrong number of entries. A snapshot is read once."""
    if isinstance(held, CopyOnWriteStateMap):
        chunks = list(held.chunks())
    else:
        chunks = [chunk for key_group in range(KEY_GROUPS) for chunk in held.chunks_of(key_group)]
    items = [item for chunk in chunks for item in chunk.entries.items()]
    assert len(items) == len(dict(items))
    return dict(items)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 40), st.binary(min_size=1, max_size=2)),
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("forget")),
    ),
    max_size=60,
)


@given(OPERATIONS)
def test_every_snapshot_stays_what_it_was_c7(operations: list[tuple[Any, ...]]) -> None:
    state_map, model = CopyOnWriteStateMap(KEY_GROUPS), dict[int, bytes]()
    held: list[tuple[StateMapSnapshot, dict[int, bytes]]] = []
    for operation in operations:
        match operation:
            case ("put", key, value):
                put(state_map, key, value)
                model[key] = value
                chunk = state_map.chunk_to_write(position_of(key))
                chunk.entries_max = 4  # so that a few entries split it
            case ("remove", key):
                assert state_map.remove(position_of(key), key) == model.pop(key, None)
            case ("snapshot",):
                held.append((state_map.snapshot(), dict(model)))
            case ("forget",):
                del held[:1]

    assert contents(state_map) == model
    assert len(state_map) == len(model)
    assert [contents(snapshot) for snapshot, _ in held] == [expected for _, expected in held]


def test_a_second_write_after_a_snapshot_is_not_seen_either_c7() -> None:
    """FLINK-26968: an entry that was found was written without getting the new version."""
    state_map = CopyOnWriteStateMap(KEY_GROUPS)
    put(state_map, 1, b"before")
    first = state_map.snapshot()
    put(state_map, 1, b"between")
    second = state_map.snapshot()

    put(state_map, 1, b"after")
    put(state_map, 1, b"and after")

    assert [contents(held) for held in (first, second)] == [{1: b"before"}, {1: b"between"}]


def test_a_cell_is_copied_before_it_is_changed_and_once_only_c7() -> None:
    state_map = CopyOnWriteStateMap(KEY_GROUPS)
    state_map.put(position_of(1), 1, Cell(state_map.version, [b"a"]))
    snapshot = state_map.snapshot()

    cell = state_map.cell_to_write(position_of(1), 1)
    assert cell is not None
    cell.items.append(b"b")

    assert state_map.cell_to_write(position_of(1), 1) is cell
    assert contents(snapshot)[1].items == [b"a"]
    assert contents(state_map)[1].items == [b"a", b"b"]


def test_thousands_of_keys_lie_in_chunks_of_hundreds_s9() -> None:
    state_map = CopyOnWriteStateMap(KEY_GROUPS)
    for key in range(9000):
        put(state_map, key, b"x")

    sizes = [len(chunk.entries) for chunk in state_map.chunks()]

    assert sum(sizes) == 9000
    assert max(sizes) <= 256
    assert contents(state_map) == dict.fromkeys(range(9000), b"x")


def test_chunks_split_under_a_snapshot_and_under_an_iteration_s9() -> None:
    state_map = CopyOnWriteStateMap(KEY_GROUPS)
    for key in range(600):
        put(state_map, key, b"old")
    snapshot = state_map.snapshot()

    met: list[Any] = []
    for chunk in state_map.chunks():
        met += list(chunk.entries)
        for key in range(600, 6000):
            put(state_map, key, b"new")

    assert {key for key in met if key < 600} == set(range(600))
    assert len(met) == len(set(met))
    assert contents(snapshot) == dict.fromkeys(range(600), b"old")


def test_many_namespaces_of_one_key_stay_in_one_chunk_without_end_of_splitting_s9() -> None:
    state_map = CopyOnWriteStateMap(KEY_GROUPS)
    for namespace in range(3000):
        put(state_map, (namespace, 7), b"x")

    assert len(state_map.directory) <= KEY_GROUPS << 2
    assert len(contents(state_map)) == 3000


@pytest.mark.parametrize("key_groups", [1, 128, 32768])
def test_a_directory_stays_small_however_many_key_groups_s9(key_groups: int) -> None:
    state_map = CopyOnWriteStateMap(key_groups)
    for key in range(9000):
        state_map.put(spread_of(key), key, b"x")  # all in the first key group

    assert len(state_map.directory) <= 1 << 17


def test_a_rewrite_leaves_snapshots_alone_s2() -> None:
    state_map = CopyOnWriteStateMap(KEY_GROUPS)
    for key in range(5):
        put(state_map, key, b"old")
    snapshot = state_map.snapshot()

    state_map.rewrite(lambda stored: stored + b"er")  # type: ignore[operator]  # no cells here
    put(state_map, 9, b"x")

    assert contents(snapshot) == dict.fromkeys(range(5), b"old")
    assert contents(state_map) == dict.fromkeys(range(5), b"older") | {9: b"x"}
