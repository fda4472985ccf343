"""Drawn snapshots: of every kind of state, of several tasks, with and without any.

Answers to the random handles of Flink's `CheckpointTestUtils`. Invariant: only what a real task could hand in.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.checkpoints.channel_state_writer import (
    InputChannelStateHandle,
    ResultSubpartitionStateHandle,
)
from reference_impl.checkpoints.channels import InputChannelInfo, ResultSubpartitionInfo
from reference_impl.checkpoints.snapshot_file import CompletedSnapshot
from reference_impl.checkpoints.task_state import FINISHED_ON_RESTORE, OperatorSubtaskState, TaskStateSnapshot
from reference_impl.elements import LatencyMarker, Record, RecordAttributes, Watermark, WatermarkStatus
from reference_impl.state.internal_timers import KeyGroupTimers, SavedTimer, TimersHandle
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.state_descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

__all__ = ["elements", "keyed_handle", "operator_handle", "plain_values", "snapshots"]

_numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1)
plain_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.tuples(inner, inner),
    max_leaves=4,
)
"""What a state without a declared type may hold."""

elements = st.one_of(
    st.builds(Record, value=plain_values, timestamp=st.none() | _numbers, position=st.none() | _numbers),
    st.builds(Watermark, timestamp=_numbers, position=st.none() | _numbers),
    st.builds(WatermarkStatus, idle=st.booleans(), position=st.none() | _numbers),
    st.builds(LatencyMarker, id=_numbers),
    st.builds(RecordAttributes, backlog=st.booleans()),
)
"""Whatever streams."""


def operator_handle(values: list[Any]) -> Any:
    """Of a list, a union list and a broadcast state with those values."""
    backend = OperatorStateBackend(operator="map")
    backend.get_list_state(ListStateDescriptor(name="split")).update(values)
    backend.get_union_list_state(ListStateDescriptor(name="union")).update(values)
    broadcast = backend.get_broadcast_state(MapStateDescriptor(name="rules"))
    for place, value in enumerate(values):
        broadcast.put(place, value)
    return _written(backend)


def keyed_handle(values: dict[int, Any]) -> Any:
    """Of a value state with those values by key."""
    backend = KeyedStateBackend(operator="map", max_parallelism=8)
    state = backend.get_partitioned_state(None, ValueStateDescriptor(name="last"))
    for key, value in values.items():
        backend.set_current_key(key)
        state.update(value)
    return _written(backend)


def _written(backend: OperatorStateBackend | KeyedStateBackend) -> Any:
    future = backend.snapshot(1, 0, CheckpointOptions())
    future.run()
    return future.result()


_saved_timers = st.lists(
    st.builds(SavedTimer, _numbers, st.integers(0, 9) | st.text(max_size=3), st.binary(max_size=3)),
    max_size=3,
)
_timers = st.builds(
    TimersHandle,
    key_group_range=st.just(KeyGroupRange(start=0, end=7)),
    services=st.dictionaries(
        st.text(max_size=3),
        st.dictionaries(
            st.integers(0, 7),
            st.builds(KeyGroupTimers, event_time=_saved_timers, processing_time=_saved_timers),
            max_size=2,
        ),
        max_size=2,
    ),
)
_in_flight = st.lists(elements, max_size=3).map(tuple)
_places = st.integers(0, 3)
_items = plain_values.filter(lambda one: one is not None)
_counts = st.dictionaries(st.integers(0, 99), st.integers(0, 9), max_size=3)
_states = st.builds(
    OperatorSubtaskState,
    managed_operator_state=st.none()
    | st.lists(plain_values.filter(lambda one: one is not None), max_size=3).map(operator_handle),
    raw_operator_state=st.none() | st.lists(st.binary(max_size=3), max_size=2).map(tuple),
    managed_keyed_state=st.none()
    | st.dictionaries(st.integers(0, 99), st.integers(0, 9), max_size=3).map(keyed_handle),
    raw_keyed_state=st.none() | _timers,
    input_channel_state=st.none()
    | st.lists(
        st.builds(
            InputChannelStateHandle,
            info=st.builds(InputChannelInfo, gate_idx=_places, input_channel_idx=_places),
            elements=_in_flight,
        ),
        max_size=2,
    ).map(tuple),
    result_channel_state=st.none()
    | st.lists(
        st.builds(
            ResultSubpartitionStateHandle,
            info=st.builds(ResultSubpartitionInfo, partition_idx=_places, sub_partition_idx=_places),
            elements=_in_flight,
        ),
        max_size=2,
    ).map(tuple),
)
_tasks = (
    st.none()
    | st.just(FINISHED_ON_RESTORE)
    | st.builds(
        TaskStateSnapshot,
        operator_states=st.dictionaries(st.text(max_size=3), _states, max_size=2),
        is_task_finished=st.booleans(),
    )
)

snapshots = st.builds(
    CompletedSnapshot,
    job_id=st.just("job"),
    checkpoint_id=st.integers(0, 2**40),
    tasks=st.dictionaries(st.text(max_size=3), _tasks, max_size=2),
    metadata=st.dictionaries(
        st.text(max_size=3), st.integers(0, 9) | st.lists(st.booleans(), max_size=2), max_size=2
    ),
)
"""Completed checkpoints of the job `job`."""
