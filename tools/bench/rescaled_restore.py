"""Restores a checkpoint of many keys at another parallelism and counts the keys that are wrong.

Answers to S8 and S9. Invariant: it follows a job's path: each subtask's snapshot, one checkpoint file, the
reassignment of states, each new subtask's backend; only the file connects the two sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.system.clock import monotonic_us
from reference_impl.checkpoints.storage import CheckpointStorage
from reference_impl.checkpoints.task_state import OperatorSubtaskState
from reference_impl.job.completed_checkpoints import CompletedCheckpoint, FileCheckpointStorage, OperatorState
from reference_impl.job.execution_graph import JobVertex
from reference_impl.job.messages import CheckpointProperties
from reference_impl.job.state_assignment import StateAssignmentOperation
from reference_impl.state.key_groups import (
    assign_key_to_parallel_operator,
    compute_key_group_range_for_operator_index,
)
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import ValueStateDescriptor

__all__ = ["Rescale", "restore_rescaled"]

_JOB, _OPERATOR, _CHECKPOINT = "bench", "keyed", 1
_MAX_PARALLELISM = 128
_VALUE = ValueStateDescriptor(name="value", value_type=int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """The number of keys, and of subtasks before and after."""

    keys: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredKeys:
    """The result of a restore."""

    wrong: int
    """Keys that are in no subtask, in two, or have another value, and keys that were never saved."""
    took_s: float
    """From reading the file to the last backend."""


def restore_rescaled(rescale: Rescale) -> RestoredKeys:
    """Save, restore, and check every key."""
    with TemporaryDirectory(prefix="floodmark-rescale-") as name:
        storage = FileCheckpointStorage(CheckpointStorage(Path(name), job_id=_JOB))
        storage.write(_checkpoint(rescale))
        began_us = monotonic_us()
        restored = _restored(storage.read(_CHECKPOINT), rescale.after)
        took_s = (monotonic_us() - began_us) / 1e6
    return RestoredKeys(wrong=_wrong(restored, rescale), took_s=took_s)


def _checkpoint(rescale: Rescale) -> CompletedCheckpoint:
    subtasks = [_backend(index, rescale.before) for index in range(rescale.before)]
    states = [_state(backend) for backend in subtasks]
    for key in range(rescale.keys):
        owner = assign_key_to_parallel_operator(key, _MAX_PARALLELISM, rescale.before)
        subtasks[owner].set_current_key(key)
        states[owner].update(-key)
    saved: dict[int, OperatorSubtaskState] = {}
    for index, backend in enumerate(subtasks):
        future = backend.snapshot(_CHECKPOINT)
        future.run()
        saved[index] = OperatorSubtaskState(managed_keyed_state=future.result())
    return CompletedCheckpoint(
        job_id=_JOB,
        checkpoint_id=_CHECKPOINT,
        timestamp_ms=0,
        completion_timestamp_ms=0,
        properties=CheckpointProperties(),
        operator_states={
            _OPERATOR: OperatorState(
                operator_id=_OPERATOR,
                parallelism=rescale.before,
                max_parallelism=_MAX_PARALLELISM,
                subtask_states=saved,
            )
        },
    )


def _restored(checkpoint: CompletedCheckpoint, parallelism: int) -> list[KeyedStateBackend]:
    vertex = JobVertex(
        name="vertex",
        operator_ids=(_OPERATOR,),
        parallelism=parallelism,
        max_parallelism=_MAX_PARALLELISM,
    )
    assigned = StateAssignmentOperation(checkpoint=checkpoint, vertices=[vertex]).assign_states()
    backends = [_backend(index, parallelism) for index in range(parallelism)]
    for index, backend in enumerate(backends):
        snapshot = assigned[vertex.name, index]
        if snapshot is not None:
            backend.restore([snapshot.operator_states[_OPERATOR].managed_keyed_state])
    return backends


def _wrong(backends: Sequence[KeyedStateBackend], rescale: Rescale) -> int:
    found: dict[Any, list[int]] = {}
    for backend in backends:
        state = _state(backend)
        for key in backend.get_keys(_VALUE.name):
            backend.set_current_key(key)
            found.setdefault(key, []).append(state.value())
    right = sum(found.get(key) == [-key] for key in range(rescale.keys))
    return max(rescale.keys, len(found)) - right


def _backend(index: int, parallelism: int) -> KeyedStateBackend:
    owned = compute_key_group_range_for_operator_index(_MAX_PARALLELISM, parallelism, index)
    return KeyedStateBackend(
        operator=_OPERATOR, max_parallelism=_MAX_PARALLELISM, key_group_range=owned, key_type=int
    )


def _state(backend: KeyedStateBackend) -> Any:
    return backend.get_partitioned_state(None, _VALUE)
