"""Defects of operator state: how lists are split, how broadcast state is copied and written, when both are copied.

Answers to bugs of `RoundRobinOperatorStateRepartitioner` and to the pitfalls of union lists and broadcast state.
Invariant: each entry differs from the part that it replaces in one method.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.checkpoints.state_handler import (
    FunctionInitializationContext,
    StateBackend,
    StreamOperatorStateHandler,
)
from reference_impl.functions.keyed_operators import KeyedBroadcastProcessOperator
from reference_impl.state.operator_state import (
    OperatorStateBackend,
    PartitionableListState,
    RoundRobinOperatorStateRepartitioner,
)
from reference_impl.state.snapshots import OperatorStatePartitions, SnapshotFuture
from reference_impl.state.state_descriptor import ListStateDescriptor
from tools.defects.kinds import PropertyDefect


class _LosesRemainders(RoundRobinOperatorStateRepartitioner):
    """Gives each subtask as many elements as the one with the fewest.

    Where the new parallelism divides the number of elements, or is the old one, the defect is the reference.
    """

    def split(
        self,
        written: dict[str, list[OperatorStatePartitions]],
        given: list[dict[str, OperatorStatePartitions]],
    ) -> None:
        super().split(written, given)
        for name in {name: None for states in given for name in states}:
            least = min(len(states[name].items) for states in given)
            for states in given:
                states[name] = replace(states[name], items=states[name].items[:least])


class _CopiesOnce(RoundRobinOperatorStateRepartitioner):
    """Leaves subtasks that a rescale adds without rules until the next ones are broadcast.

    Where no more subtasks restore than have reported, the defect is the reference.
    """

    def broadcast(
        self,
        copies: dict[str, list[OperatorStatePartitions]],
        given: list[dict[str, OperatorStatePartitions]],
    ) -> None:
        for name, partitions in copies.items():
            for states, copy in zip(given, partitions, strict=False):
                states[name] = copy


class _UnitesLists(OperatorStateBackend):
    """Gives each subtask the elements of all subtasks at a restore; with one subtask the defect is the reference."""

    def get_list_state(self, descriptor: ListStateDescriptor) -> PartitionableListState[Any]:
        return self.get_union_list_state(descriptor)


class _KeyedSideWrites(KeyedBroadcastProcessOperator):
    """Hands the state itself to the keyed side: what a subtask writes for its own keys is in its copy alone.

    Where the keyed side only reads, the defect is the reference.
    """

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        super().initialize_state(context)
        self._views.update(self._states)  # type: ignore[arg-type]  # this is the defect


class _LateBackend:
    """A backend whose snapshot is made when the asynchronous part runs."""

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def snapshot(self, checkpoint_id: int, timestamp: int, options: CheckpointOptions) -> SnapshotFuture[Any]:
        return SnapshotFuture.calling(lambda: self._taken(checkpoint_id, timestamp, options))

    def _taken(self, checkpoint_id: int, timestamp: int, options: CheckpointOptions) -> Any:
        future = self._backend.snapshot(checkpoint_id, timestamp, options)
        future.run()
        return future.result()


def _with_late_copies(*, operator_state_backend: StateBackend, **parts: Any) -> StreamOperatorStateHandler:
    """Snapshots a record that came behind the barrier: it is in the state, and is read again after a restore."""
    return StreamOperatorStateHandler(operator_state_backend=_LateBackend(operator_state_backend), **parts)


_REPARTITIONER = "RoundRobinOperatorStateRepartitioner"

OF_OPERATOR_STATE = (
    PropertyDefect(
        name="split-loses-remainder",
        about="a list that cannot be split evenly loses the remainder",
        mirrors="a division that drops its remainder",
        replaces=_REPARTITIONER,
        statements=("S20", "S21"),
        wrong=_LosesRemainders,
    ),
    PropertyDefect(
        name="broadcast-copy-missing",
        about="at a higher parallelism only as many subtasks get broadcast state as have written it",
        mirrors="FLINK-23475",
        replaces=_REPARTITIONER,
        statements=("S22", "S24"),
        wrong=_CopiesOnce,
    ),
    PropertyDefect(
        name="union-without-filter",
        about="a list that each subtask takes for its own is a union, and nothing filters it",
        mirrors="the pitfall of union list state",
        replaces="OperatorStateBackend",
        statements=("S25",),
        wrong=_UnitesLists,
    ),
    PropertyDefect(
        name="keyed-side-writes-broadcast",
        about="the keyed side gets broadcast state to write, not a view of it, so the copies diverge",
        mirrors="a context that hands out the state itself",
        replaces="KeyedBroadcastProcessOperator",
        statements=("S24",),
        wrong=_KeyedSideWrites,
    ),
    PropertyDefect(
        name="snapshot-sees-later-writes",
        about="an operator's list states are copied in the asynchronous part, not in the synchronous one",
        mirrors="FLINK-26968",
        replaces="StreamOperatorStateHandler",
        statements=("C7", "S23"),
        wrong=_with_late_copies,
    ),
)
