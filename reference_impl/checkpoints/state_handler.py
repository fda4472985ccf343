"""The state of one operator of one subtask: built and restored at its start, handed to it, snapshot at each checkpoint.

Answers to Flink's `StreamTaskStateInitializer`, `StreamOperatorStateHandler` and the contexts that both hand out, to an
operator and to a `CheckpointedFunction`. Invariant: of the contexts, `is_restored` says that there was a checkpoint to
begin from, not that it held anything for this operator (C45).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointOptions,
    HearsOfAborted,
    HearsOfComplete,
)
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateStore
from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.key_groups import compute_key_group_range_for_operator_index
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.keyed_state_store import KeyedStateStore
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.serializer import PlainSerializer
from reference_impl.state.snapshot_future import SnapshotFuture

__all__ = [
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "InternalTimers",
    "StateBackend",
    "StateInitializationContext",
    "StateSnapshotContext",
    "StreamOperatorStateContext",
    "StreamOperatorStateHandler",
    "StreamTaskStateInitializer",
]


class FunctionInitializationContext(Protocol):
    """What a user's function sees of a `StateInitializationContext`."""

    @property
    def is_restored(self) -> bool:
        """Whether this is not the first start."""

    @property
    def restored_checkpoint_id(self) -> int | None:
        """From which checkpoint; None: from none."""

    @property
    def operator_state_store(self) -> OperatorStateBackend:
        """Where list, union and broadcast states are registered."""

    @property
    def keyed_state_store(self) -> KeyedStateStore | None:
        """Where states of the current key are registered; None on a stream without keys."""


class FunctionSnapshotContext(Protocol):
    """What a user's function sees of a `StateSnapshotContext`."""

    @property
    def checkpoint_id(self) -> int:
        """Of which checkpoint this is a part."""

    @property
    def checkpoint_timestamp(self) -> int:
        """When it was triggered (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInitializationContext:
    """Handed to `initialize_state`, on each start, before `open` (C45)."""

    operator_id: str
    restored_checkpoint_id: int | None = None
    operator_state_store: Any = None
    """An `OperatorStateBackend`."""
    keyed_state_store: KeyedStateStore | None = None
    timers: Timers | None = None
    """The task's processing-time service."""
    raw_operator_state: Sequence[Any] = ()
    """What earlier instances left in their `StateSnapshotContext.raw_operator_state`."""

    @property
    def is_restored(self) -> bool:
        """Whether a checkpoint is being restored; one without any state counts (C45)."""
        return self.restored_checkpoint_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshotContext:
    """Handed to `snapshot_state`, in the synchronous part of each checkpoint (C6).

    What is put into the raw state is plain data, and is copied as soon as `snapshot_state` returns.
    """

    operator_id: str
    checkpoint_id: int
    checkpoint_timestamp: int = 0
    raw_operator_state: list[Any] = field(default_factory=list)


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
    """The state of one operator of one subtask: given out at its start, kept at each checkpoint.

    Of one operator; its backends come restored. Mutable, as they are.

    Answers to Flink's `StreamOperatorStateHandler`. Invariant: the synchronous part of a snapshot has one order (C6),
    and it comes to all of its futures or to none: if any of it fails, what had been begun is cancelled.

    Deviation: an operator writes no raw keyed state of its own; that place is the timers'.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOperatorStateContext:
    """What one operator's state is kept in."""

    operator_id: str
    operator_state_backend: OperatorStateBackend
    keyed_state_backend: KeyedStateBackend | None = None
    """None on a stream without keys."""
    timer_services: InternalTimerServices | None = None
    timers: Timers
    restored_checkpoint_id: int | None = None
    restored: OperatorSubtaskState | None = None

    @property
    def is_restored(self) -> bool:
        """Whether it comes from a checkpoint (C45)."""
        return self.restored_checkpoint_id is not None

    def handler(self) -> StreamOperatorStateHandler:
        """Who keeps it at each checkpoint."""
        keyed = self.keyed_state_backend
        return StreamOperatorStateHandler(
            operator_id=self.operator_id,
            restored_checkpoint_id=self.restored_checkpoint_id,
            restored=self.restored,
            operator_state_backend=self.operator_state_backend,
            keyed_state_backend=keyed,
            keyed_state_store=None if keyed is None else KeyedStateStore(keyed),
            timer_services=self.timer_services,
            timers=self.timers,
        )


class StreamTaskStateInitializer:
    """Builds what keeps one operator's state, and fills it with what was restored.

    Of subtask `subtask_index`. Mutable: knows the contexts it has made.

    In a chain's link: `build` asks for the context and builds the operator around it; `state_handler` is `handler_of`.

    Answers to Flink's `StreamTaskStateInitializer` and `StreamOperatorStateContext`. Invariant: backends and timers are
    restored before the operator is built around them, so whatever it registers has its content at once (C45).
    """

    def __init__(
        self,
        *,
        task_state_store: TaskStateStore,
        subtask_index: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`now_ms` is the clock of states with a time to live, which are refused without."""
        self._task_state_store = task_state_store
        self._max_parallelism = max_parallelism
        self._key_group_range = compute_key_group_range_for_operator_index(
            max_parallelism, parallelism, subtask_index
        )
        self._now_ms = now_ms
        self._contexts: dict[str, StreamOperatorStateContext] = {}

    def context_of(self, operator_id: str, *, timers: Timers) -> StreamOperatorStateContext:
        """For an operator without keys."""
        return self._made(operator_id, timers, None, None)

    def keyed_context_of(
        self, operator_id: str, *, timers: Timers, key_type: Any = Any
    ) -> StreamOperatorStateContext:
        """For an operator behind a `key_by`: with keyed state and timers of this subtask's key groups."""
        restored = self._task_state_store.restored_state(operator_id)
        backend = KeyedStateBackend(
            operator=operator_id,
            max_parallelism=self._max_parallelism,
            key_group_range=self._key_group_range,
            key_type=key_type,
            now_ms=self._now_ms,
        )
        services = InternalTimerServices(
            timers=timers,
            key_context=backend,
            key_group_range=self._key_group_range,
            max_parallelism=self._max_parallelism,
        )
        if restored is not None and restored.managed_keyed_state is not None:
            backend.restore([restored.managed_keyed_state])
        if restored is not None and restored.raw_keyed_state is not None:
            services.restore([restored.raw_keyed_state])
        return self._made(operator_id, timers, backend, services)

    def handler_of(self, operator_id: str) -> StreamOperatorStateHandler:
        """Of an operator whose context was asked for."""
        if operator_id not in self._contexts:
            raise WrongState(
                f"operator {operator_id!r} has no state yet; ask for its context when you build it"
            )
        return self._contexts[operator_id].handler()

    def _made(
        self,
        operator_id: str,
        timers: Timers,
        keyed: KeyedStateBackend | None,
        services: InternalTimerServices | None,
    ) -> StreamOperatorStateContext:
        restored = self._task_state_store.restored_state(operator_id)
        backend = OperatorStateBackend(operator=operator_id)
        backend.restore(restored.managed_operator_state if restored else None)
        context = StreamOperatorStateContext(
            operator_id=operator_id,
            operator_state_backend=backend,
            keyed_state_backend=keyed,
            timer_services=services,
            timers=timers,
            restored_checkpoint_id=self._task_state_store.restored_checkpoint_id,
            restored=restored,
        )
        self._contexts[operator_id] = context
        return context
