"""Claims about states whose values have a life, kind by kind: S11-S15."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.errors import StateError
from reference_impl.state.state_descriptor import (
    TIME_MAX_MS,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
)
from reference_impl.state.tests.ttl_rig import (
    DESCRIPTORS,
    NEVER,
    ON_READ,
    ON_WRITE,
    RETURN,
    Collecting,
    Subtask,
    ttl,
)


def write(subtask: Subtask, number: int = 7) -> None:
    """One value, whatever the kind of state."""
    match subtask.descriptor:
        case ValueStateDescriptor():
            subtask.state.update(number)
        case MapStateDescriptor():
            subtask.state.put(1, number)
        case _:
            subtask.state.add(number)


def read(subtask: Subtask) -> Any:
    """What is there; None if there is nothing."""
    match subtask.descriptor:
        case ValueStateDescriptor():
            return subtask.state.value()
        case MapStateDescriptor():
            return subtask.state.get(1)
        case ListStateDescriptor():
            return next(iter(subtask.state.get()), None)
        case AggregatingStateDescriptor():
            return (subtask.state.get() or (None,))[0]
        case _:
            return subtask.state.get()


KINDS = pytest.mark.parametrize("kind", DESCRIPTORS)


@KINDS
def test_a_value_expires_when_its_life_is_over_and_not_before_s11(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100))
    subtask.now_ms = 50
    write(subtask)

    subtask.now_ms = 149
    assert read(subtask) == 7
    subtask.now_ms = 150
    assert read(subtask) is None


@KINDS
def test_a_life_beyond_the_end_of_time_ends_there_s11(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(TIME_MAX_MS))
    subtask.now_ms = 10
    write(subtask)

    subtask.now_ms = TIME_MAX_MS - 1
    assert read(subtask) == 7
    subtask.now_ms = TIME_MAX_MS
    assert read(subtask) is None


@pytest.mark.parametrize("time_to_live_ms", [0, -1])
def test_a_life_of_nothing_is_refused_s11(time_to_live_ms: int) -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        StateTtlConfig(time_to_live_ms=time_to_live_ms)


@KINDS
def test_disabled_never_expires_and_keeps_no_stamps_s12(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(1, update=UpdateType.DISABLED))
    write(subtask)
    subtask.now_ms = 10**9

    assert read(subtask) == 7
    handle = subtask.written()
    assert handle is not None
    assert handle.states["state"].schema.kind != "ttl"


@KINDS
def test_reads_refresh_only_where_they_are_said_to_s12(kind: str) -> None:
    found = {}
    for update in (ON_WRITE, ON_READ):
        subtask = Subtask(DESCRIPTORS[kind], ttl(100, update=update))
        write(subtask)
        subtask.now_ms = 60
        read(subtask)
        subtask.now_ms = 120
        found[update] = read(subtask)

    assert found == {ON_WRITE: None, ON_READ: 7}


@KINDS
def test_writes_refresh_s12(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100))
    write(subtask, 1)
    subtask.now_ms = 60
    write(subtask, 2)
    subtask.now_ms = 120

    assert read(subtask) is not None


@KINDS
@pytest.mark.parametrize("visibility", [NEVER, RETURN])
def test_a_read_of_the_expired_never_refreshes_it_s12(kind: str, visibility: Any) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100, update=ON_READ, visibility=visibility))
    write(subtask)
    subtask.now_ms = 100
    read(subtask)

    subtask.now_ms = 101
    assert read(subtask) is None


@pytest.mark.parametrize("kind", ["value", "map", "reducing", "aggregating"])
def test_the_expired_is_shown_once_where_it_is_shown_s13(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100, visibility=RETURN))
    write(subtask)
    subtask.now_ms = 100

    assert [read(subtask), read(subtask)] == [7, None]


def test_an_expired_list_is_shown_once_where_it_is_shown_s13() -> None:
    subtask = Subtask(DESCRIPTORS["list"], ttl(100, visibility=RETURN))
    subtask.state.add_all([1, 2])
    subtask.now_ms = 100

    assert [subtask.state.get(), subtask.state.get()] == [[1, 2], []]


def test_expired_elements_are_shown_as_long_as_others_live_s13_s14() -> None:
    """Reading does not rewrite the list, so they are still there."""
    subtask = Subtask(DESCRIPTORS["list"], ttl(100, visibility=RETURN))
    subtask.state.add(1)
    subtask.now_ms = 60
    subtask.state.add(2)
    subtask.now_ms = 120

    assert [subtask.state.get(), subtask.state.get()] == [[1, 2], [1, 2]]


@KINDS
@pytest.mark.parametrize("visibility", [NEVER, RETURN])
def test_who_reads_the_expired_takes_it_away_key_and_all_s13_s14(kind: str, visibility: Any) -> None:
    """FLINK-21413: the key of a list or map of which nothing lived was kept."""
    subtask = Subtask(DESCRIPTORS[kind], ttl(100, visibility=visibility))
    write(subtask)
    assert subtask.stored == 1
    subtask.now_ms = 100

    read(subtask)

    assert subtask.stored == 0


def test_a_list_expires_element_by_element_s14() -> None:
    subtask = Subtask(DESCRIPTORS["list"], ttl(100))
    for number in range(4):
        subtask.now_ms = 30 * number
        subtask.state.add(number)

    subtask.now_ms = 130

    assert subtask.state.get() == [2, 3]


def test_reading_a_list_does_not_rewrite_it_s14() -> None:
    """FLINK-30088: each read of a long list wrote it."""
    subtask = Subtask(DESCRIPTORS["list"], ttl(100))
    subtask.state.add(1)
    subtask.now_ms = 60
    subtask.state.add(2)
    before = subtask.backend.get_or_create_keyed_state(subtask.state.descriptor).table.get("k", None)
    subtask.now_ms = 120

    assert subtask.state.get() == [2]

    assert subtask.state.table.get("k", None) is before
    assert len(before) == 2


def test_a_read_that_refreshes_a_list_leaves_the_expired_out_s14() -> None:
    subtask = Subtask(DESCRIPTORS["list"], ttl(100, update=ON_READ))
    subtask.state.add(1)
    subtask.now_ms = 60
    subtask.state.add(2)
    subtask.now_ms = 120

    subtask.state.get()

    assert len(subtask.state.table.get("k", None)) == 1


def test_updating_a_list_begins_the_life_of_all_of_it_s14() -> None:
    subtask = Subtask(DESCRIPTORS["list"], ttl(100))
    subtask.state.add(1)
    subtask.now_ms = 90
    subtask.state.update([1, 2])
    subtask.now_ms = 150

    assert subtask.state.get() == [1, 2]


@pytest.mark.parametrize("given", [None, [1, None]])
def test_a_missing_element_is_refused_under_a_life_too_s4(given: Any) -> None:
    subtask = Subtask(DESCRIPTORS["list"], ttl(100))
    subtask.state.add(0)

    for method in (subtask.state.update, subtask.state.add_all):
        with pytest.raises(StateError, match="'op', state 'state'"):
            method(given)

    assert subtask.state.get() == [0]


def test_to_update_with_nothing_clears_s3_s4() -> None:
    for kind, nothing in (("value", None), ("list", [])):
        subtask = Subtask(DESCRIPTORS[kind], ttl(100))
        write(subtask)
        subtask.state.update(nothing)
        assert subtask.stored == 0


@pytest.mark.parametrize(("visibility", "result"), [(NEVER, 5), (RETURN, 12)])
def test_reducing_with_the_expired_starts_anew_unless_it_is_shown_s15(visibility: Any, result: int) -> None:
    subtask = Subtask(DESCRIPTORS["reducing"], ttl(100, visibility=visibility))
    subtask.state.add(7)
    subtask.now_ms = 100

    subtask.state.add(5)

    assert subtask.state.get() == result


@pytest.mark.parametrize(("visibility", "result"), [(NEVER, (5,)), (RETURN, (7, 5))])
def test_aggregating_with_the_expired_starts_anew_unless_it_is_shown_s15(
    visibility: Any, result: tuple[int, ...]
) -> None:
    subtask = Subtask(DESCRIPTORS["aggregating"], ttl(100, visibility=visibility))
    subtask.state.add(7)
    subtask.now_ms = 100

    subtask.state.add(5)

    assert subtask.state.get() == result


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_what_is_combined_is_stamped_now_s15(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100))
    subtask.state.add(7)
    subtask.now_ms = 90
    subtask.state.add(5)
    subtask.now_ms = 189

    assert subtask.state.get() in (12, (7, 5))


def test_a_default_does_not_count_s15() -> None:
    subtask = Subtask(ValueStateDescriptor(name="v", value_type=int, default=42), ttl(100))

    assert subtask.state.value() is None


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_a_function_that_raises_leaves_the_value_and_its_stamp_s5(kind: str) -> None:
    class Breaking(Collecting):
        def add(self, value: int, accumulator: list[int]) -> list[int]:
            return super().add(value, accumulator) if value else [1 // value]

    def reduce(old: int, new: int) -> int:
        return old // new

    descriptors: dict[str, StateDescriptor] = {
        "reducing": ReducingStateDescriptor(name="s", reduce=reduce, value_type=int),
        "aggregating": AggregatingStateDescriptor(name="s", aggregate=Breaking(), accumulator_type=list[int]),
    }
    subtask = Subtask(descriptors[kind], ttl(100))
    subtask.state.add(7)
    subtask.now_ms = 90

    with pytest.raises(ZeroDivisionError):
        subtask.state.add(0)

    assert read(subtask) == 7
    subtask.now_ms = 100
    assert read(subtask) is None


@pytest.mark.parametrize(("kind", "merged"), [("list", [2, 3]), ("reducing", 5), ("aggregating", (2, 3))])
def test_merging_namespaces_leaves_the_expired_out_s7_s15(kind: str, merged: Any) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100))
    for now_ms, namespace, number in ((0, "a", 1), (60, "b", 2), (80, "c", 3)):
        subtask.now_ms = now_ms
        subtask.state.set_current_namespace(namespace)
        subtask.state.add(number)
    subtask.now_ms = 120

    subtask.state.merge_namespaces("all", ["a", "b", "c"])

    subtask.state.set_current_namespace("all")
    assert subtask.state.get() == merged
    assert subtask.stored == 1
    subtask.state.set_current_namespace("b")
    assert not subtask.state.get()


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_merging_what_has_all_expired_gives_nothing_s7_s15(kind: str) -> None:
    subtask = Subtask(DESCRIPTORS[kind], ttl(100))
    for namespace in "ab":
        subtask.state.set_current_namespace(namespace)
        subtask.state.add(1)
    subtask.now_ms = 120

    subtask.state.merge_namespaces("all", ["a", "b"])

    subtask.state.set_current_namespace("all")
    assert subtask.state.get() is None


def test_keys_and_namespaces_expire_each_for_itself_s1_s14() -> None:
    subtask = Subtask(DESCRIPTORS["value"], ttl(100))
    for now_ms, key, namespace in ((0, "k", None), (50, "k", "n"), (50, "l", None)):
        subtask.now_ms = now_ms
        subtask.select(key)
        subtask.state.set_current_namespace(namespace)
        subtask.state.update(now_ms)
    subtask.now_ms = 120

    found = {}
    for key in "kl":
        for namespace in (None, "n"):
            subtask.select(key)
            subtask.state.set_current_namespace(namespace)
            assert subtask.state.current_namespace == namespace
            found[key, namespace] = subtask.state.value()

    assert found == {("k", None): None, ("k", "n"): 50, ("l", None): 50, ("l", "n"): None}


def test_adding_none_to_a_reducing_state_leaves_its_value_and_restamps_it_d2() -> None:
    """A reducing state without TTL is cleared by it (S5)."""
    subtask = Subtask(DESCRIPTORS["reducing"], ttl(100))
    subtask.state.add(7)
    subtask.now_ms = 60
    subtask.state.add(None)

    subtask.now_ms = 159
    assert subtask.state.get() == 7
    subtask.now_ms = 160
    assert subtask.state.get() is None


def test_adding_none_to_a_reducing_state_that_shows_nothing_shows_nothing_d2() -> None:
    subtask = Subtask(DESCRIPTORS["reducing"], ttl(100))
    subtask.state.add(None)
    assert subtask.state.get() is None
    subtask.state.add(7)
    subtask.now_ms = 100

    subtask.state.add(None)

    assert subtask.state.get() is None
    assert subtask.stored == 0
