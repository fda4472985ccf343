"""Claims about lists and broadcast maps of an operator, their snapshots and restores: S18-S25."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.errors import StateError, StateMigrationException
from reference_impl.state.operator_state import OperatorStateBackend, RoundRobinOperatorStateRepartitioner
from reference_impl.state.snapshots import OperatorStateHandle, SnapshotFuture
from reference_impl.state.state_descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tools.cases import each

BUFFER = ListStateDescriptor(name="buffer", element_type=str)
OFFSETS = ListStateDescriptor(name="offsets", element_type=int)
RULES = MapStateDescriptor(name="rules", key_type=str, value_type=list[int])


def begun(backend: OperatorStateBackend) -> SnapshotFuture[OperatorStateHandle | None]:
    """Its snapshot after the synchronous part."""
    return backend.snapshot(1, 1000, CheckpointOptions())


def written(backend: OperatorStateBackend) -> OperatorStateHandle | None:
    """Its snapshot, as a file would give it back."""
    future = begun(backend)
    future.run()
    data = msgspec.msgpack.encode(future.result())
    return msgspec.msgpack.decode(data, type=OperatorStateHandle | None)


def backend_of(handle: OperatorStateHandle | None = None) -> OperatorStateBackend:
    """A subtask of operator `sink` that has restored `handle`."""
    backend = OperatorStateBackend(operator="sink")
    backend.restore(handle)
    return backend


def rescaled(backends: list[OperatorStateBackend], parallelism: int) -> list[OperatorStateBackend]:
    """All of them written, given to `parallelism` subtasks, and restored there."""
    handles = [written(backend) for backend in backends]
    parts = RoundRobinOperatorStateRepartitioner().repartition_state(handles, len(handles), parallelism)
    return [backend_of(part) for part in parts]


def test_a_backend_without_state_is_told_as_none_s18() -> None:
    """FLINK-5985: an empty handle counts as state, and then nobody can tell a stateless task."""
    assert written(backend_of()) is None


def test_a_name_gives_the_same_state_each_time_s18() -> None:
    backend = backend_of()

    assert backend.get_list_state(BUFFER) is backend.get_list_state(BUFFER)


MODES = ["get_list_state", "get_union_list_state", "get_broadcast_state"]
WORDS = {"get_list_state": "split", "get_union_list_state": "union", "get_broadcast_state": "broadcast"}


def asked(backend: OperatorStateBackend, how: str, name: str = "x") -> Any:
    """That state of the backend, registered in that mode."""
    kind = MapStateDescriptor if how == "get_broadcast_state" else ListStateDescriptor
    return getattr(backend, how)(kind(name=name))


@each("first", MODES)
@each("second", MODES)
def test_a_name_in_another_mode_is_refused_with_both_named_s18(first: str, second: str) -> None:
    backend = backend_of()
    asked(backend, first)

    if first == second:
        assert asked(backend, second) is asked(backend, first)
        return
    with pytest.raises(StateError, match=f"'sink'.*'x'.*'{WORDS[first]}'.*'{WORDS[second]}'"):
        asked(backend, second)


def test_a_restored_name_is_refused_in_another_mode_s18() -> None:
    before = backend_of()
    before.get_union_list_state(OFFSETS).add(7)

    with pytest.raises(StateError, match="'union'.*'split'"):
        backend_of(written(before)).get_list_state(OFFSETS)


def test_elements_keep_their_order_and_survive_s19() -> None:
    before = backend_of()
    before.get_list_state(BUFFER).add_all(["a", "b"])
    before.get_list_state(BUFFER).add("c")

    assert backend_of(written(before)).get_list_state(BUFFER).get() == ["a", "b", "c"]


def test_state_that_nobody_asks_for_is_in_the_next_snapshot_all_the_same_s19() -> None:
    before = backend_of()
    before.get_list_state(BUFFER).add("a")
    before.get_broadcast_state(RULES).put("r", [1])
    after = backend_of(written(before))
    after.get_list_state(OFFSETS).add(1)

    again = backend_of(written(after))

    assert again.registered_state_names == ["buffer", "offsets"]
    assert again.registered_broadcast_state_names == ["rules"]
    assert again.get_list_state(BUFFER).get() == ["a"]


def test_a_snapshot_does_not_see_what_is_done_after_it_began_s23() -> None:
    backend = backend_of()
    buffer, rules = backend.get_list_state(BUFFER), backend.get_broadcast_state(RULES)
    buffer.add("before")
    rules.put("rule", [1])
    future = begun(backend)

    buffer.add("after")
    rules.put("rule", [2])
    buffer.clear()
    rules.clear()
    future.run()

    restored = backend_of(future.result())
    assert restored.get_list_state(BUFFER).get() == ["before"]
    assert dict(restored.get_broadcast_state(RULES).entries()) == {"rule": [1]}


def test_what_was_added_or_read_is_not_shared_with_the_state_s23() -> None:
    backend = backend_of()
    lists = backend.get_list_state(ListStateDescriptor(name="lists", element_type=list[int]))
    mine = [1]

    lists.add(mine)
    mine.append(2)
    [read] = lists.get()
    assert isinstance(read, list)
    read.append(3)

    assert lists.get() == [[1]]


@pytest.mark.parametrize("values", [None, ["b", None]])
def test_a_missing_element_is_refused_and_changes_nothing_s4(values: Any) -> None:
    state = backend_of().get_list_state(BUFFER)
    state.add("a")

    for method in (state.update, state.add_all):
        with pytest.raises(StateError, match="'sink', state 'buffer'"):
            method(values)

    assert state.get() == ["a"]


def test_an_element_of_another_type_is_refused_by_name_s2() -> None:
    with pytest.raises(StateError, match="'sink', state 'offsets': 'seven' is no int"):
        backend_of().get_list_state(OFFSETS).add("seven")


def test_a_changed_type_is_refused_by_name_when_it_is_asked_for_s2() -> None:
    before = backend_of()
    before.get_list_state(BUFFER).add("a")
    after = backend_of(written(before))

    with pytest.raises(StateMigrationException, match="'sink', state 'buffer': it was str"):
        after.get_list_state(ListStateDescriptor(name="buffer", element_type=int))


def test_a_type_that_can_be_migrated_is_s2() -> None:
    before = backend_of()
    before.get_list_state(OFFSETS).add(1)

    after = backend_of(written(before)).get_list_state(
        ListStateDescriptor(name="offsets", element_type=float)
    )

    assert after.get() == [1.0]


def test_changed_keys_of_broadcast_state_are_refused_s2() -> None:
    before = backend_of()
    before.get_broadcast_state(RULES).put("r", [1])
    changed = MapStateDescriptor(name="rules", key_type=int, value_type=list[int])

    with pytest.raises(StateMigrationException, match="its keys were str"):
        backend_of(written(before)).get_broadcast_state(changed)


def test_one_name_with_two_types_in_one_run_is_refused_s2() -> None:
    backend = backend_of()
    backend.get_list_state(BUFFER)

    with pytest.raises(StateError, match="str and now with int"):
        backend.get_list_state(ListStateDescriptor(name="buffer", element_type=int))


def test_a_time_to_live_is_refused_for_operator_state_s11() -> None:
    descriptor = ListStateDescriptor(name="buffer", ttl=StateTtlConfig(time_to_live_ms=1))

    with pytest.raises(StateError, match="operator state cannot expire"):
        backend_of().get_list_state(descriptor)


def test_a_restore_comes_before_any_state_is_asked_for() -> None:
    backend = backend_of()
    backend.get_list_state(BUFFER)

    with pytest.raises(StateError, match="before the restore: 'buffer'"):
        backend.restore(None)


def test_a_disposed_backend_holds_nothing() -> None:
    backend = backend_of()
    backend.get_list_state(BUFFER)

    backend.dispose()

    assert backend.registered_state_names == []


BUFFERS = st.lists(st.lists(st.text(max_size=4), max_size=6), min_size=1, max_size=4)


@given(BUFFERS, st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_a_buffer_is_the_same_multiset_after_any_rescales_s21_s25(
    buffers: list[list[str]], parallelisms: list[int]
) -> None:
    """FLINK-33863: through the file form too."""
    backends = [backend_of() for _ in buffers]
    for backend, elements in zip(backends, buffers, strict=True):
        backend.get_list_state(BUFFER).add_all(elements)

    for parallelism in parallelisms:
        backends = rescaled(backends, parallelism)

    found = Counter(element for backend in backends for element in backend.get_list_state(BUFFER).get())
    assert found == Counter(element for elements in buffers for element in elements)


UPDATES = st.lists(
    st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("abc"), st.integers(0, 9)), max_size=8
)


@given(UPDATES, st.lists(st.integers(1, 4), min_size=1, max_size=3), UPDATES)
def test_copies_stay_equal_through_updates_and_rescales_s22_s24(
    first: list[tuple[str, str, int]], parallelisms: list[int], second: list[tuple[str, str, int]]
) -> None:
    """As long as every subtask applies the same; against a dict."""
    backends, model = [backend_of(), backend_of()], dict[str, list[int]]()
    for updates in (first, second):
        for what, key, number in updates:
            for backend in backends:
                rules = backend.get_broadcast_state(RULES)
                rules.put(key, [number]) if what == "put" else rules.remove(key)
            model.update({key: [number]}) if what == "put" else model.pop(key, None)
        for parallelism in parallelisms:
            backends = rescaled(backends, parallelism)

    assert [dict(each.get_broadcast_state(RULES).entries()) for each in backends] == [model] * len(backends)


def test_the_keyed_side_reads_broadcast_state_and_cannot_write_it_s24() -> None:
    rules = backend_of().get_broadcast_state(RULES)
    view = rules.read_only()
    rules.put("r", [1])

    for value in (view.get("r"), *dict(view.immutable_entries()).values()):
        assert value is not None
        value.append(2)

    assert view.get("r") == [1]
    assert view.contains("r")
    assert {"put", "put_all", "remove", "clear", "entries"}.isdisjoint(dir(view))


def test_broadcast_state_tells_keys_apart_by_type_too_s24() -> None:
    state = backend_of().get_broadcast_state(MapStateDescriptor(name="anything"))

    state.put_all([(1, "int"), (1.0, "float"), (True, "bool"), ([1], "list")])

    assert [state.get(1), state.get(1.0), state.get(True), state.get([1])] == ["int", "float", "bool", "list"]
    assert len(state) == len(list(state.entries()))


def test_a_refused_entry_leaves_broadcast_state_as_it_was_s24() -> None:
    rules = backend_of().get_broadcast_state(RULES)
    rules.put("r", [1])

    with pytest.raises(StateError, match="'sink', state 'rules'"):
        rules.put_all({"r": [2], "s": "no list"})

    assert dict(rules.entries()) == {"r": [1]}


def test_an_entry_may_be_removed_while_entries_are_read_s24() -> None:
    rules = backend_of().get_broadcast_state(RULES)
    rules.put_all({"a": [1], "b": [2]})

    for key, _ in rules.entries():
        rules.remove(key)

    assert len(rules) == 0


@each("ask", ["get_list_state", "get_union_list_state", "get_broadcast_state"])
@each("descriptor", [ValueStateDescriptor(name="odd"), "odd", None])
def test_an_unknown_kind_of_descriptor_is_refused_by_operator_s18(ask: str, descriptor: Any) -> None:
    with pytest.raises(
        StateError, match=f"'sink'.* a {type(descriptor).__name__} cannot describe this kind of state"
    ):
        getattr(backend_of(), ask)(descriptor)


def test_a_list_cannot_be_asked_for_as_a_map_nor_a_map_as_a_list_s18() -> None:
    backend: Any = backend_of()

    with pytest.raises(StateError, match="'sink', state 'buffer': .*give a MapStateDescriptor"):
        backend.get_broadcast_state(BUFFER)
    with pytest.raises(StateError, match="'sink', state 'rules': .*give a ListStateDescriptor"):
        backend.get_list_state(RULES)


def test_a_type_that_cannot_be_stored_is_refused_by_state_s2() -> None:
    class Opaque:
        pass

    with pytest.raises(StateError, match="'sink', state 'opaque': .*cannot be stored"):
        backend_of().get_list_state(ListStateDescriptor(name="opaque", element_type=Opaque))


def test_a_broadcast_state_asked_for_again_with_other_keys_is_refused_s2() -> None:
    backend = backend_of()
    backend.get_broadcast_state(RULES)

    with pytest.raises(StateError, match="'sink', state 'rules': it was requested with str and now with int"):
        backend.get_broadcast_state(MapStateDescriptor(name="rules", key_type=int, value_type=list[int]))


def test_entries_can_be_gone_through_twice_by_either_side_s24() -> None:
    rules = backend_of().get_broadcast_state(RULES)
    rules.put("a", [1])

    for entries in (rules.entries(), rules.immutable_entries(), rules.read_only().immutable_entries()):
        assert [list(entries), list(entries)] == [[("a", [1])]] * 2
    assert list(rules.iterator()) == [("a", [1])]


@pytest.mark.parametrize("ask", ["get_list_state", "get_union_list_state"])
def test_elements_of_several_types_are_not_put_into_one_list_s2(ask: str) -> None:
    """As after a change of type that not every subtask has come to."""
    backends = [backend_of(), backend_of()]
    for backend, descriptor, element in zip(
        backends, (OFFSETS, ListStateDescriptor(name="offsets", element_type=str)), (1, "a"), strict=True
    ):
        getattr(backend, ask)(descriptor).add(element)

    with pytest.raises(StateError, match="state 'offsets': one subtask left elements of int, another of str"):
        rescaled(backends, 1)


def test_a_list_without_elements_decides_no_type_s2() -> None:
    empty, full = backend_of(), backend_of()
    empty.get_list_state(ListStateDescriptor(name="offsets", element_type=str))
    full.get_list_state(OFFSETS).add(7)

    [restored] = rescaled([empty, full], 1)

    assert restored.get_list_state(OFFSETS).get() == [7]
