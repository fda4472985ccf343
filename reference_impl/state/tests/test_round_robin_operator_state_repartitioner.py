"""Claims about operator state that goes to another number of subtasks: S18-S22, C19."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.errors import StateError
from reference_impl.state.operator_state import (
    RoundRobinOperatorStateRepartitioner,
    refuse_union_finished_in_part,
)
from reference_impl.state.snapshots import Mode, OperatorStateHandle, OperatorStatePartitions

Subtask = dict[str, list[Any]] | None


def handles(mode: Mode, *subtasks: Subtask) -> list[OperatorStateHandle | None]:
    """One for each of `subtasks`, all of whose states are of `mode`."""
    return [
        None
        if states is None
        else OperatorStateHandle(
            states={
                name: OperatorStatePartitions(mode=mode, items=tuple(items)) for name, items in states.items()
            }
        )
        for states in subtasks
    ]


def repartition(mode: Mode, *subtasks: Subtask, to: int) -> list[dict[str, list[Any]]]:
    """What each of the `to` new subtasks gets."""
    given = RoundRobinOperatorStateRepartitioner().repartition_state(
        handles(mode, *subtasks), len(subtasks), to
    )
    return [
        {name: list(one.items) for name, one in handle.states.items()} if handle else {} for handle in given
    ]


def test_the_rest_of_one_name_ends_where_the_next_one_begins_s20() -> None:
    a, b = ["a0", "a1", "a2", "a3", "a4"], ["b0", "b1"]

    found = repartition(Mode.SPLIT_DISTRIBUTE, {"a": a[:3], "b": b[:1]}, {"a": a[3:], "b": b[1:]}, to=3)

    assert found == [
        {"a": ["a0", "a1"], "b": ["b1"]},
        {"a": ["a2", "a3"], "b": []},
        {"a": ["a4"], "b": ["b0"]},
    ]


def test_at_the_same_parallelism_a_split_state_stays_where_it_is_s19() -> None:
    found = repartition(Mode.SPLIT_DISTRIBUTE, {"a": [1, 2, 3]}, None, {"a": [4]}, to=3)

    assert found == [{"a": [1, 2, 3]}, {}, {"a": [4]}]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_everybody_gets_all_of_a_union_s19_s22(parallelism: int) -> None:
    found = repartition(Mode.UNION, {"u": [1, 2]}, {"u": [3]}, to=parallelism)

    assert found == [{"u": [1, 2, 3]}] * parallelism


def test_at_the_same_parallelism_each_keeps_its_broadcast_copy_s19() -> None:
    found = repartition(Mode.BROADCAST, {"rules": ["mine"]}, {"rules": ["yours"]}, to=2)

    assert found == [{"rules": ["mine"]}, {"rules": ["yours"]}]


def test_copies_go_round_among_those_that_reported_s22() -> None:
    found = repartition(Mode.BROADCAST, {"rules": ["x"]}, None, {"rules": []}, {"rules": ["z"]}, to=3)

    assert found == [{"rules": ["x"]}, {"rules": ["z"]}, {"rules": ["x"]}]


def test_who_reported_nothing_gets_a_copy_at_the_same_parallelism_too_s22() -> None:
    """FLINK-23475: a subtask that had finished wrote none, and came back without rules."""
    found = repartition(Mode.BROADCAST, {"rules": ["x"]}, None, to=2)

    assert found == [{"rules": ["x"]}, {"rules": ["x"]}]


def test_a_broadcast_state_that_is_empty_everywhere_stays_so_s22() -> None:
    assert repartition(Mode.BROADCAST, {"rules": []}, {"rules": []}, to=3) == [{"rules": []}] * 3


def test_nothing_is_made_of_nothing_s18() -> None:
    found = RoundRobinOperatorStateRepartitioner().repartition_state([None, None], 2, 3)

    assert found == [None, None, None]


NAMES = st.sampled_from(["a", "b", "c", "d"])
SUBTASKS = st.lists(
    st.none() | st.dictionaries(NAMES, st.lists(st.integers(), max_size=7)), min_size=1, max_size=6
)


@given(SUBTASKS, st.integers(1, 7))
def test_a_split_keeps_every_item_in_its_order_and_loads_evenly_s21(
    subtasks: list[Subtask], parallelism: int
) -> None:
    found = repartition(Mode.SPLIT_DISTRIBUTE, *subtasks, to=parallelism)

    for name in "abcd":
        before = Counter(item for states in subtasks if states for item in states.get(name, ()))
        assert Counter(item for states in found for item in states.get(name, ())) == before
    if parallelism != len(subtasks):
        loads = [sum(map(len, states.values())) for states in found]
        assert max(loads) - min(loads) <= 1


@given(SUBTASKS, st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_a_union_stays_what_it_is_when_each_takes_its_part_s22(
    subtasks: list[Subtask], parallelisms: list[int]
) -> None:
    """A user of a union must filter: here each keeps every so manieth, and nothing doubles over several rescales."""
    before = {
        name: Counter(item for states in subtasks if states for item in states.get(name, ()))
        for name in "abcd"
    }

    for parallelism in parallelisms:
        united = repartition(Mode.UNION, *subtasks, to=parallelism)
        subtasks = [
            {name: items[index::parallelism] for name, items in states.items()}
            for index, states in enumerate(united)
        ]

    for name, items in before.items():
        assert Counter(item for states in subtasks if states for item in states.get(name, ())) == items


def test_one_name_in_two_modes_is_refused_by_name_s18() -> None:
    split = handles(Mode.SPLIT_DISTRIBUTE, {"offsets": [1]})
    union = handles(Mode.UNION, {"offsets": [2]})

    with pytest.raises(StateError, match="'source'.*'offsets'.*'split' and 'union'"):
        RoundRobinOperatorStateRepartitioner(operator="source").repartition_state(split + union, 2, 1)


def test_a_handle_for_each_old_subtask_is_asked_for() -> None:
    with pytest.raises(ValueError, match="1 handles for 2 old subtasks"):
        RoundRobinOperatorStateRepartitioner().repartition_state([None], 2, 1)


def test_no_subtasks_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        RoundRobinOperatorStateRepartitioner().repartition_state([None], 1, 0)


def test_a_union_of_which_some_had_finished_is_refused_c19() -> None:
    """FLINK-21080: what the finished ones held would be missing."""
    with pytest.raises(StateError, match="1 of 2 subtasks have finished"):
        refuse_union_finished_in_part("source", [*handles(Mode.UNION, {"offsets": [1]}), None], [False, True])


@pytest.mark.parametrize("finished", [[False, False], [True, True]])
def test_a_union_of_which_none_or_all_had_finished_is_taken_c19(finished: list[bool]) -> None:
    refuse_union_finished_in_part("source", handles(Mode.UNION, {"u": [1]}, {"u": [2]}), finished)


def test_split_state_of_which_some_had_finished_is_taken_c19() -> None:
    written = [*handles(Mode.SPLIT_DISTRIBUTE, {"buffer": [1]}), None]

    refuse_union_finished_in_part("sink", written, [False, True])
