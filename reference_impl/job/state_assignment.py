"""Assigns the state of a checkpoint to the subtasks of the job, at any parallelism.

Answers to Flink's `StateAssignmentOperation`. Invariant: each key group, with its keys and timers, goes to the subtask
that owns it (S9); each item of split list state goes to one subtask, each of union state to all, and a copy of
broadcast state to each (S20, S22). In-flight data belong to their channel, and so to a parallelism.

Difference from Flink: Flink can redistribute in-flight data to another number of channels; here that is refused
(FLINK-31963 shows the difficulty). Take a savepoint, or use aligned barriers, before changing the parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from reference_impl.checkpoints.task_state import FINISHED_ON_RESTORE, OperatorSubtaskState, TaskStateSnapshot
from reference_impl.errors import StateError, StateMigrationException
from reference_impl.job.completed_checkpoints import CompletedCheckpoint, OperatorState
from reference_impl.job.execution_graph import JobVertex
from reference_impl.job.pending_checkpoint import check_inputs_of_finished
from reference_impl.state.handles import (
    KeyedStateHandle,
    Mode,
    OperatorStateHandle,
    OperatorStatePartitions,
    StateMetaInfo,
)
from reference_impl.state.internal_timers import KeyGroupTimers, TimersHandle
from reference_impl.state.key_groups import KeyGroupRange, compute_key_group_range_for_operator_index
from reference_impl.state.repartitioner import RoundRobinOperatorStateRepartitioner

__all__ = ["StateAssignmentOperation"]

_RAW = "raw operator state"
_NOTHING = OperatorSubtaskState()


class StateAssignmentOperation:
    """Assigns one checkpoint to `vertices`."""

    def __init__(
        self,
        *,
        checkpoint: CompletedCheckpoint,
        vertices: Iterable[JobVertex],
        allow_non_restored_state: bool = False,
    ) -> None:
        self._checkpoint = checkpoint
        self._vertices = {vertex.name: vertex for vertex in vertices}
        self._allow_non_restored_state = allow_non_restored_state

    def assign_states(self) -> dict[tuple[str, int], TaskStateSnapshot | None]:
        """For each vertex and subtask the state that it restores, or None; StateError if it does not fit (S8)."""
        self._check_nothing_is_lost()
        check_inputs_of_finished(self._vertices, self._checkpoint.operator_states)
        assigned: dict[tuple[str, int], TaskStateSnapshot | None] = {}
        for vertex in self._vertices.values():
            for subtask, snapshot in enumerate(self._assign(vertex)):
                assigned[vertex.name, subtask] = snapshot
        return assigned

    def _assign(self, vertex: JobVertex) -> list[TaskStateSnapshot | None]:
        states = self._checkpoint.operator_states
        known = [states[operator] for operator in vertex.operator_ids if operator in states]
        if known and all(state.is_fully_finished for state in known):
            return [FINISHED_ON_RESTORE] * vertex.parallelism
        given: list[dict[str, OperatorSubtaskState]] = [{} for _ in range(vertex.parallelism)]
        for state in known:
            self._check_fits(vertex, state)
            for subtask, mine in enumerate(_redistributed(state, vertex)):
                if mine.has_state:
                    given[subtask][state.operator_id] = mine
        return [TaskStateSnapshot(operator_states=mine) if mine else None for mine in given]

    def _check_nothing_is_lost(self) -> None:
        operators = {operator for vertex in self._vertices.values() for operator in vertex.operator_ids}
        for state in self._checkpoint.operator_states.values():
            if (
                state.operator_id not in operators
                and state.subtask_states
                and not self._allow_non_restored_state
            ):
                raise StateError(
                    f"checkpoint {self._checkpoint.checkpoint_id} has state of it, but the job has no such operator; "
                    "give an operator this id, or set allow_non_restored_state to drop the state",
                    operator=state.operator_id,
                )

    def _check_fits(self, vertex: JobVertex, state: OperatorState) -> None:
        number = self._checkpoint.checkpoint_id
        if vertex.parallelism > state.max_parallelism:
            raise StateError(
                f"checkpoint {number} was taken with a maximum parallelism of {state.max_parallelism}, and vertex "
                f"{vertex.name!r} has {vertex.parallelism}; give it at most {state.max_parallelism}",
                operator=state.operator_id,
            )
        for field in ("managed_keyed_state", "raw_keyed_state"):
            has_some = any(getattr(mine, field) is not None for mine in state.subtask_states.values())
            if has_some and vertex.max_parallelism != state.max_parallelism:
                raise StateError(
                    f"checkpoint {number} has it in {state.max_parallelism} key groups, but vertex {vertex.name!r} "
                    f"has a maximum parallelism of {vertex.max_parallelism}; give it {state.max_parallelism}",
                    operator=state.operator_id,
                    state=field,
                )
        readers = [other for other in self._vertices.values() if vertex.name in other.inputs]
        writers = [self._vertices[name] for name in vertex.inputs]
        self._check_channels(vertex, state, "input_channel_state", writers)
        self._check_channels(vertex, state, "result_channel_state", readers)

    def _check_channels(
        self, vertex: JobVertex, state: OperatorState, field: str, neighbours: Sequence[JobVertex]
    ) -> None:
        if all(getattr(mine, field) is None for mine in state.subtask_states.values()):
            return
        for other in (vertex, *neighbours):
            before = self._parallelism_before(other)
            if before is not None and before != other.parallelism:
                raise StateError(
                    f"checkpoint {self._checkpoint.checkpoint_id} has records in flight between {before} subtasks of "
                    f"vertex {other.name!r}, which now has {other.parallelism}; restore at {before}, and change the "
                    "parallelism from a savepoint",
                    operator=state.operator_id,
                    state=field,
                )

    def _parallelism_before(self, vertex: JobVertex) -> int | None:
        states = self._checkpoint.operator_states
        return next(
            (states[operator].parallelism for operator in vertex.operator_ids if operator in states), None
        )


def _redistributed(state: OperatorState, vertex: JobVertex) -> list[OperatorSubtaskState]:
    """The state of one operator for each new subtask."""
    old = [state.subtask_states.get(subtask, _NOTHING) for subtask in range(state.parallelism)]
    managed = _repartitioned(state, [mine.managed_operator_state for mine in old], vertex.parallelism)
    raw = _repartitioned(state, [_as_list_state(mine.raw_operator_state) for mine in old], vertex.parallelism)
    is_rescaled = vertex.parallelism != state.parallelism
    new: list[OperatorSubtaskState] = []
    for subtask in range(vertex.parallelism):
        owned = compute_key_group_range_for_operator_index(
            vertex.max_parallelism, vertex.parallelism, subtask
        )
        new.append(
            replace(
                _NOTHING if is_rescaled else old[subtask],  # in-flight data stay with their subtask
                managed_operator_state=managed[subtask],
                raw_operator_state=_as_items(raw[subtask]),
                managed_keyed_state=_keyed_state(state, [mine.managed_keyed_state for mine in old], owned),
                raw_keyed_state=_timers([mine.raw_keyed_state for mine in old], owned),
            )
        )
    return new


def _repartitioned(
    state: OperatorState, handles: Sequence[OperatorStateHandle | None], parallelism: int
) -> list[OperatorStateHandle | None]:
    repartitioner = RoundRobinOperatorStateRepartitioner(operator=state.operator_id)
    return repartitioner.repartition_state(handles, state.parallelism, parallelism)


def _as_list_state(items: Sequence[Any] | None) -> OperatorStateHandle | None:
    """Raw operator state as a list state, so that it is split like one."""
    if items is None:
        return None
    partitions = OperatorStatePartitions(mode=Mode.SPLIT_DISTRIBUTE, items=tuple(items))
    return OperatorStateHandle(states={_RAW: partitions})


def _as_items(handle: OperatorStateHandle | None) -> tuple[Any, ...] | None:
    return None if handle is None else handle.states[_RAW].items


def _keyed_state(
    state: OperatorState, handles: Sequence[KeyedStateHandle | None], owned: KeyGroupRange
) -> KeyedStateHandle | None:
    """One handle with the key groups that a subtask owns, from the handles of all old subtasks."""
    parts = [part for handle in handles if handle is not None and (part := handle.intersection(owned))]
    if not parts:
        return None
    states: dict[str, StateMetaInfo] = {}
    for name, meta in (item for part in parts for item in part.states.items()):
        if states.setdefault(name, meta) != meta:
            raise StateMigrationException(
                f"one subtask left it as {states[name]}, another as {meta}, since not all had requested it with its"
                f" new type; restore at parallelism {state.parallelism} first",
                operator=state.operator_id,
                state=name,
            )
    key_groups = {group: blocks for part in parts for group, blocks in part.key_groups.items()}
    return msgspec.structs.replace(
        parts[0], key_group_range=owned, states=states, key_groups=dict(sorted(key_groups.items()))
    )


def _timers(handles: Sequence[TimersHandle | None], owned: KeyGroupRange) -> TimersHandle | None:
    """The timers of the key groups that a subtask owns, from the handles of all old subtasks."""
    services: dict[str, dict[int, KeyGroupTimers]] = {}
    for handle in handles:
        for name, groups in (handle.services if handle is not None else {}).items():
            mine = {group: timers for group, timers in groups.items() if group in owned}
            if mine:
                services.setdefault(name, {}).update(mine)
    return TimersHandle(key_group_range=owned, services=services) if services else None
