"""The state of one operator of one subtask: given out at its start, kept at each checkpoint.

Answers to Flink's `StreamOperatorStateHandler`. Invariant: the synchronous part of a snapshot has one order (C6),
and it comes to all of its futures or to none: if any of it fails, what had been begun is cancelled.

Deviation: an operator writes no raw keyed state of its own; that place is the timers'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_failure import CheckpointException, CheckpointFailureReason
from reference_impl.checkpoint_listener import HearsOfAborted, HearsOfComplete
from reference_impl.checkpoint_metadata import CheckpointMetaData
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.snapshots.operator_snapshot_futures import OperatorSnapshotFutures
from reference_impl.snapshots.state_contexts import StateInitializationContext, StateSnapshotContext
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState
from reference_impl.state.keyed_state_store import KeyedStateStore
from reference_impl.state.plain_serializer import PlainSerializer
from reference_impl.state.snapshot_future import SnapshotFuture
from reference_impl.timers import Timers

__all__ = [
    "InternalTimers",
    "StateBackend",
    "StreamOperatorStateHandler",
]


class StateBackend(Protocol):
    """What keeps states: an `OperatorStateBackend` or a `KeyedStateBackend`."""

    def snapshot(self, checkpoint_id: int, timestamp: int, options: CheckpointOptions) -> SnapshotFuture[Any]:
        """The synchronous part now, the rest in the future that is returned (C7)."""


class InternalTimers(Protocol):
    """What keeps timers: `InternalTimerServices`."""

    def snapshot(self) -> SnapshotFuture[Any]:
        """The timers there are now (T15)."""

    def close(self) -> None:
        """Let none fire any more."""


@runtime_checkable
class _InitializesState(Protocol):
    def initialize_state(self, context: StateInitializationContext) -> None: ...


@runtime_checkable
class _SnapshotsState(Protocol):
    def snapshot_state(self, context: StateSnapshotContext) -> None: ...


@runtime_checkable
class _Disposable(Protocol):
    def dispose(self) -> None: ...


@runtime_checkable
class _HearsOfSubsumed(Protocol):
    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None: ...


class StreamOperatorStateHandler:
    """Of one operator; its backends come restored. Mutable, as they are."""

    def __init__(
        self,
        *,
        operator_id: str,
        restored_checkpoint_id: int | None = None,
        restored: OperatorSubtaskState | None = None,
        operator_state_backend: StateBackend | None = None,
        keyed_state_backend: StateBackend | None = None,
        keyed_state_store: KeyedStateStore | None = None,
        timer_services: InternalTimers | None = None,
        timers: Timers | None = None,
    ) -> None:
        self.operator_id = operator_id
        self._restored_checkpoint_id = restored_checkpoint_id
        self._raw_operator_state = restored.raw_operator_state if restored else None
        self._operator_state_backend = operator_state_backend
        self._keyed_state_backend = keyed_state_backend
        self._keyed_state_store = keyed_state_store
        self._timer_services = timer_services
        self._timers = timers

    def initialize_operator_state(self, operator: Any) -> None:
        """On every start: the operator asks for its states, and finds in them what was restored (C45)."""
        if not isinstance(operator, _InitializesState):
            return
        operator.initialize_state(
            StateInitializationContext(
                operator_id=self.operator_id,
                restored_checkpoint_id=self._restored_checkpoint_id,
                operator_state_store=self._operator_state_backend,
                keyed_state_store=self._keyed_state_store,
                timers=self._timers,
                raw_operator_state=tuple(map(_RAW.decode, self._raw_operator_state or ())),
            )
        )

    def snapshot_state(
        self, operator: Any, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        """The synchronous part. Raises CheckpointException, as declined, whatever fails in it."""
        futures = OperatorSnapshotFutures()
        try:
            self._snapshot_in_order(futures, operator, metadata, options)
        except Exception as error:
            futures.cancel()
            detail = (
                f"operator {self.operator_id!r} could not take its part in checkpoint {metadata.checkpoint_id}:"
                f" {error}"
            )
            raise CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED, detail) from error
        return futures

    def _snapshot_in_order(
        self,
        futures: OperatorSnapshotFutures,
        operator: Any,
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Timers, the user's part, raw state, the operator's states, the keyed states (C6)."""
        if self._timer_services is not None:
            futures.raw_keyed_state = self._timer_services.snapshot()
        context = StateSnapshotContext(
            operator_id=self.operator_id,
            checkpoint_id=metadata.checkpoint_id,
            checkpoint_timestamp=metadata.timestamp,
        )
        if isinstance(operator, _SnapshotsState):
            operator.snapshot_state(context)
        if context.raw_operator_state:
            copied = tuple(
                map(_RAW.encode, context.raw_operator_state)
            )  # now: the user may go on with them (C7)
            futures.raw_operator_state = SnapshotFuture.of(copied)
        cut = (metadata.checkpoint_id, metadata.timestamp, options)
        if self._operator_state_backend is not None:
            futures.managed_operator_state = self._operator_state_backend.snapshot(*cut)
        if self._keyed_state_backend is not None:
            futures.managed_keyed_state = self._keyed_state_backend.snapshot(*cut)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """To the backends that want to hear of it."""
        self._tell(HearsOfComplete, lambda backend: backend.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """To the backends that want to hear of it."""
        self._tell(HearsOfAborted, lambda backend: backend.notify_checkpoint_aborted(checkpoint_id))

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """To the backends that share something between checkpoints (C13)."""
        self._tell(_HearsOfSubsumed, lambda backend: backend.notify_checkpoint_subsumed(checkpoint_id))

    def close(self) -> None:
        """Let go of states and timers."""
        if self._timer_services is not None:
            self._timer_services.close()
        self._tell(_Disposable, lambda backend: backend.dispose())

    @property
    def _backends(self) -> list[StateBackend]:
        both = (self._operator_state_backend, self._keyed_state_backend)
        return [backend for backend in both if backend is not None]

    def _tell(self, kind: type[Any], call: Callable[[Any], None]) -> None:
        for backend in self._backends:
            if isinstance(backend, kind):
                call(backend)


_RAW = PlainSerializer()
