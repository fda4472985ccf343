"""Functions with operator state, started, saved and restored at any parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.functions.sink import FunctionState
from reference_impl.state.operator_state import OperatorStateBackend, RoundRobinOperatorStateRepartitioner
from reference_impl.state.snapshots import OperatorStateHandle


class StateBench:
    """One function and its operator state."""

    def __init__(
        self, function: object, handle: OperatorStateHandle | None = None, *, restored: bool | None = None
    ) -> None:
        self.backend = OperatorStateBackend(operator="function")
        self.backend.restore(handle)
        self.state = FunctionState(function)
        is_restored = handle is not None if restored is None else restored
        self.state.initialize_state(
            StateInitializationContext(
                operator_id="function",
                restored_checkpoint_id=1 if is_restored else None,
                operator_state_store=self.backend,
            )
        )

    def save(self, checkpoint_id: int = 1, timestamp: int = 0) -> OperatorStateHandle | None:
        """Both parts of a snapshot."""
        self.state.snapshot_state(
            StateSnapshotContext(
                operator_id="function", checkpoint_id=checkpoint_id, checkpoint_timestamp=timestamp
            )
        )
        future = self.backend.snapshot(checkpoint_id, timestamp, CheckpointOptions())
        future.run()
        return future.result()


def redistributed(handles: Sequence[OperatorStateHandle | None], parallelism: int) -> list[Any]:
    """The parts of so many subtasks."""
    repartitioner = RoundRobinOperatorStateRepartitioner(operator="function")
    return list(repartitioner.repartition_state(handles, len(handles), parallelism))
