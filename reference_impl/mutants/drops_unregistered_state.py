"""Planted defect: a snapshot holds the states that have been asked for, and not those that were only restored.

Answers to a backend that snapshots its state objects instead of its tables (S9, C45): a state that a job does not touch
between two checkpoints, for it is registered lazily, is gone with the second.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.state.handles import KeyedStateHandle
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.snapshot_future import SnapshotFuture
from reference_impl.state.state_descriptor import StateDescriptor

__all__ = ["ForgetfulBackend"]


class ForgetfulBackend(KeyedStateBackend):
    """Snapshots what was asked for. Mutable."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asked_for: dict[str, None] = {}

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> Any:
        self._asked_for[descriptor.name] = None
        return super().get_or_create_keyed_state(descriptor)

    def snapshot(
        self, checkpoint_id: int, timestamp: int = 0, options: CheckpointOptions | None = None
    ) -> SnapshotFuture[KeyedStateHandle | None]:
        for name in [name for name in self._registry.tables if name not in self._asked_for]:
            del self._registry.tables[name]
        return super().snapshot(checkpoint_id, timestamp, options)
