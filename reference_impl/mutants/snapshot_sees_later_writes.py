"""Planted defect: the operator's list states are copied in the asynchronous part, and not in the synchronous one.

Answers to FLINK-26968 and to every snapshot that shares what it was taken of (C7, S23): a record that came behind the
barrier is in the state, and is read again after a restore.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.checkpoints.state_handler import StateBackend, StreamOperatorStateHandler
from reference_impl.state.snapshot_future import SnapshotFuture

__all__ = ["build_handler"]


class _LateBackend:
    """A backend that is asked when the asynchronous part runs."""

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


def build_handler(*, operator_state_backend: StateBackend, **parts: Any) -> StreamOperatorStateHandler:
    """A handler whose operator state is a live one until it is written."""
    return StreamOperatorStateHandler(operator_state_backend=_LateBackend(operator_state_backend), **parts)
