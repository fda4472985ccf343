"""Claims about what each subtask gets of a checkpoint, at whatever parallelism: S9, S20, S22, C19."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reference_impl.checkpoints.channel_state_writer import InputChannelStateHandle
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.task_state import FINISHED_ON_RESTORE, OperatorSubtaskState
from reference_impl.errors import StateError, StateMigrationException
from reference_impl.job.completed_checkpoints import CompletedCheckpoint, OperatorState
from reference_impl.job.execution_graph import JobVertex
from reference_impl.job.messages import CheckpointProperties
from reference_impl.job.state_assignment import StateAssignmentOperation
from reference_impl.state.handles import (
    KeyedStateHandle,
    Mode,
    OperatorStateHandle,
    OperatorStatePartitions,
    StateMetaInfo,
)
from reference_impl.state.internal_timers import KeyGroupTimers, SavedTimer, TimersHandle
from reference_impl.state.key_groups import (
    compute_key_group_range_for_operator_index,
    compute_operator_index_for_key_group,
)
from reference_impl.state.schema import ANY, ttl_of
from reference_impl.tests.rig import quickly

MAX = 16
IN_FLIGHT = (InputChannelStateHandle(info=InputChannelInfo(0, 0), elements=()),)


def vertex(parallelism: int, *, max_parallelism: int = MAX) -> JobVertex:
    return JobVertex(name="v", operator_ids=("op",), parallelism=parallelism, max_parallelism=max_parallelism)


def checkpoint(
    states: Mapping[int, OperatorSubtaskState], *, parallelism: int, operator: str = "op", **more: Any
) -> CompletedCheckpoint:
    state = OperatorState(
        operator_id=operator, parallelism=parallelism, max_parallelism=MAX, subtask_states=states, **more
    )
    return CompletedCheckpoint(
        job_id="job",
        checkpoint_id=7,
        timestamp_ms=0,
        completion_timestamp_ms=1,
        properties=CheckpointProperties(),
        operator_states={operator: state},
    )


def assigned(taken: CompletedCheckpoint, new: JobVertex) -> list[OperatorSubtaskState]:
    snapshots = StateAssignmentOperation(checkpoint=taken, vertices=[new]).assign_states()
    given = [snapshots[new.name, subtask] for subtask in range(new.parallelism)]
    return [OperatorSubtaskState() if each is None else each.operator_states["op"] for each in given]


def keyed(parallelism: int, subtask: int, groups: Mapping[int, bytes]) -> OperatorSubtaskState:
    """The key groups of a subtask, each with one state of some bytes, and a timer for each."""
    owned = compute_key_group_range_for_operator_index(MAX, parallelism, subtask)
    mine = {group: stored for group, stored in groups.items() if group in owned}
    handle = KeyedStateHandle(
        key_group_range=owned,
        max_parallelism=MAX,
        states={"s": StateMetaInfo(kind="value", schema=ANY)},
        key_groups={group: {"s": [stored]} for group, stored in mine.items()},
    )
    timers = {
        group: KeyGroupTimers(event_time=[SavedTimer(group, group, None)], processing_time=[])
        for group in mine
    }
    return OperatorSubtaskState(
        managed_keyed_state=handle,
        raw_keyed_state=TimersHandle(key_group_range=owned, services={"timers": timers}) if mine else None,
    )


@quickly
@given(
    st.dictionaries(st.integers(0, MAX - 1), st.binary(max_size=3)),
    st.integers(1, MAX),
    st.integers(1, MAX),
)
def test_each_key_group_and_its_timers_go_to_their_one_owner_s9(
    groups: dict[int, bytes], old: int, new: int
) -> None:
    taken = checkpoint({i: keyed(old, i, groups) for i in range(old)}, parallelism=old)

    states = assigned(taken, vertex(new))

    found: dict[int, bytes] = {}
    for subtask, state in enumerate(states):
        handle: KeyedStateHandle = state.managed_keyed_state
        assert handle.key_group_range == compute_key_group_range_for_operator_index(MAX, new, subtask)
        timers = state.raw_keyed_state.services["timers"] if state.raw_keyed_state else {}
        assert sorted(timers) == list(handle.key_groups)
        for group, blocks in handle.key_groups.items():
            assert compute_operator_index_for_key_group(MAX, new, group) == subtask
            assert group not in found
            (found[group],) = blocks["s"]
    assert found == groups


def test_state_of_two_types_is_not_put_together_s2_s17() -> None:
    """As where one subtask had switched a time to live on, and the other had not asked for its state again yet."""
    stamped = StateMetaInfo(kind="value", schema=ttl_of(ANY))
    first, second = (keyed(2, subtask, {0: b"", 15: b""}) for subtask in range(2))
    handle = structs.replace(second.managed_keyed_state, states={"s": stamped})
    taken = checkpoint({0: first, 1: OperatorSubtaskState(managed_keyed_state=handle)}, parallelism=2)

    with pytest.raises(StateMigrationException, match="'op', state 's': .*restore at parallelism 2 first"):
        assigned(taken, vertex(1))
    assert [state.managed_keyed_state.states["s"] for state in assigned(taken, vertex(2))] == [
        first.managed_keyed_state.states["s"],
        stamped,
    ]


@quickly
@given(
    st.lists(st.lists(st.binary(max_size=2), max_size=4), min_size=1, max_size=5),
    st.integers(1, 6),
    st.sampled_from(["managed_operator_state", "raw_operator_state"]),
)
def test_each_item_of_split_state_goes_to_one_subtask_s20(
    lists: list[list[bytes]], new: int, field: str
) -> None:
    is_raw = field == "raw_operator_state"
    old = {
        subtask: OperatorSubtaskState(**{field: tuple(items) if is_raw else split(items)})
        for subtask, items in enumerate(lists)
    }

    states = assigned(checkpoint(old, parallelism=len(lists)), vertex(new))

    handles = [getattr(state, field) for state in states]
    parts = [handle if is_raw else handle.states["l"].items for handle in handles if handle is not None]
    assert Counter(item for part in parts for item in part) == Counter(chain.from_iterable(lists))
    if new == len(lists):
        assert [list(part) for part in parts] == lists


def split(items: list[bytes]) -> OperatorStateHandle:
    partitions = OperatorStatePartitions(mode=Mode.SPLIT_DISTRIBUTE, items=tuple(items))
    return OperatorStateHandle(states={"l": partitions})


@pytest.mark.parametrize("new", [1, 2, 3])
def test_union_state_goes_to_everybody_and_broadcast_state_from_who_has_a_copy_s22(new: int) -> None:
    """Also at the same parallelism: a subtask that had reported none gets one (FLINK-23475)."""
    handle = OperatorStateHandle(
        states={
            "u": OperatorStatePartitions(mode=Mode.UNION, items=(b"1",)),
            "b": OperatorStatePartitions(mode=Mode.BROADCAST, items=((b"k", b"v"),)),
        }
    )

    states = assigned(
        checkpoint({1: OperatorSubtaskState(managed_operator_state=handle)}, parallelism=2), vertex(new)
    )

    for state in states:
        assert state.managed_operator_state.states["u"].items == (b"1",)
        assert state.managed_operator_state.states["b"].items == ((b"k", b"v"),)


def test_a_parallelism_above_the_maximum_is_refused_s8() -> None:
    taken = checkpoint({0: keyed(1, 0, {})}, parallelism=1)

    with pytest.raises(StateError, match=r"operator 'op'.*maximum parallelism of 16.*'v' has 17") as refused:
        assigned(taken, vertex(17, max_parallelism=32))

    assert refused.value.operator == "op"


def test_keyed_state_in_another_number_of_key_groups_is_refused_s8() -> None:
    taken = checkpoint({0: keyed(1, 0, {1: b""})}, parallelism=1)

    with pytest.raises(StateError, match="operator 'op', state 'managed_keyed_state'.*16 key groups"):
        assigned(taken, vertex(2, max_parallelism=32))


def test_what_was_in_flight_is_restored_at_the_same_parallelism_c28() -> None:
    taken = checkpoint({0: OperatorSubtaskState(input_channel_state=IN_FLIGHT)}, parallelism=1)

    assert assigned(taken, vertex(1))[0].input_channel_state == IN_FLIGHT


def test_what_was_in_flight_is_refused_at_another_parallelism_flink_31963_c28() -> None:
    taken = checkpoint({0: OperatorSubtaskState(input_channel_state=IN_FLIGHT)}, parallelism=1)

    with pytest.raises(StateError, match="operator 'op', state 'input_channel_state'.*savepoint"):
        assigned(taken, vertex(2))


def test_what_was_in_flight_is_refused_when_who_writes_has_changed_its_parallelism_c28() -> None:
    taken = checkpoint({0: OperatorSubtaskState(input_channel_state=IN_FLIGHT)}, parallelism=1)
    writer = OperatorState(operator_id="w", parallelism=1, max_parallelism=MAX)
    states = {**taken.operator_states, "w": writer}
    operation = StateAssignmentOperation(
        checkpoint=CompletedCheckpoint(
            job_id="job",
            checkpoint_id=7,
            timestamp_ms=0,
            completion_timestamp_ms=1,
            properties=CheckpointProperties(),
            operator_states=states,
        ),
        vertices=[
            JobVertex(name="w", operator_ids=("w",), parallelism=2),
            JobVertex(name="v", operator_ids=("op",), parallelism=1, max_parallelism=MAX, inputs=("w",)),
        ],
    )

    with pytest.raises(StateError, match="between 1 subtasks of vertex 'w', which now has 2"):
        operation.assign_states()


def test_state_of_an_operator_that_is_gone_is_refused_unless_it_may_be_left_behind() -> None:
    taken = checkpoint({0: keyed(1, 0, {1: b""})}, parallelism=1, operator="gone")

    with pytest.raises(StateError, match="operator 'gone'.*allow_non_restored_state"):
        StateAssignmentOperation(checkpoint=taken, vertices=[vertex(1)]).assign_states()
    left = StateAssignmentOperation(
        checkpoint=taken, vertices=[vertex(1)], allow_non_restored_state=True
    ).assign_states()

    assert left == {("v", 0): None}


def test_an_operator_that_had_finished_is_not_run_again_at_any_parallelism_c19() -> None:
    taken = checkpoint({}, parallelism=1, is_fully_finished=True)

    given = StateAssignmentOperation(checkpoint=taken, vertices=[vertex(2)]).assign_states()

    assert given == {("v", 0): FINISHED_ON_RESTORE, ("v", 1): FINISHED_ON_RESTORE}
