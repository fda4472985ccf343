"""The state of one operator of one subtask: creates and restores it, gives it to the operator, and snapshots it.

Answers to Flink's `StreamTaskStateInitializer`, `StreamOperatorStateHandler` and the contexts that they give to an
operator and to a `CheckpointedFunction`. Invariant: `is_restored` says that the job starts from a checkpoint, even if
that held nothing for this operator (C45).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointOptions,
    HearsOfAborted,
    HearsOfComplete,
    can,
)
from reference_impl.checkpoints.async_checkpoint import (
    OperatorSnapshotFutures,
    OperatorSubtaskState,
    TaskStateStore,
)
from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.key_groups import compute_key_group_range_for_operator_index
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.serializer import PlainSerializer
from reference_impl.state.snapshots import SnapshotFuture

T = TypeVar("T")


class FunctionInitializationContext(Protocol):
    """The part of a `StateInitializationContext` that a user's function sees."""

    @property
    def is_restored(self) -> bool:
        """Whether the job starts from a checkpoint."""

    @property
    def restored_checkpoint_id(self) -> int | None:
        """Id of the restored checkpoint, or None."""

    @property
    def operator_state_store(self) -> OperatorStateBackend:
        """Where list, union and broadcast states are registered."""

    @property
    def keyed_state_store(self) -> KeyedStateStore | None:
        """Where keyed states are registered; None on a stream without keys."""


class FunctionSnapshotContext(Protocol):
    """The part of a `StateSnapshotContext` that a user's function sees."""

    @property
    def checkpoint_id(self) -> int: ...

    @property
    def checkpoint_timestamp(self) -> int:
        """When the checkpoint was triggered (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInitializationContext:
    """Argument of `initialize_state`, which is called at each start before `open` (C45)."""

    operator_id: str
    restored_checkpoint_id: int | None = None
    operator_state_store: Any = None
    """An `OperatorStateBackend`."""
    keyed_state_store: KeyedStateStore | None = None
    timers: Timers | None = None
    """The task's processing-time service."""
    raw_operator_state: Sequence[Any] = ()
    """What earlier attempts put into `StateSnapshotContext.raw_operator_state`."""

    @property
    def is_restored(self) -> bool:
        """Whether a checkpoint is restored, even one without state (C45)."""
        return self.restored_checkpoint_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshotContext:
    """Argument of `snapshot_state`, which is called in the synchronous part of each checkpoint (C6).

    The raw state takes plain data, which is copied as soon as `snapshot_state` returns.
    """

    operator_id: str
    checkpoint_id: int
    checkpoint_timestamp: int = 0
    raw_operator_state: list[Any] = field(default_factory=list)


class StateBackend(Protocol):
    """An `OperatorStateBackend` or a `KeyedStateBackend`."""

    def snapshot(
        self, checkpoint_id: int, timestamp: int, options: CheckpointOptions
    ) -> SnapshotFuture[object]:
        """Take the synchronous part now; the returned future does the rest (C7)."""


class InternalTimers(Protocol):
    """`InternalTimerServices`, as the state handler uses it."""

    def snapshot(self) -> SnapshotFuture[object]:
        """The timers registered now (T15)."""

    def close(self) -> None:
        """Let no timer fire any more."""


class _InitializesState(Protocol):
    def initialize_state(self, context: StateInitializationContext) -> None: ...


class _SnapshotsState(Protocol):
    def snapshot_state(self, context: StateSnapshotContext) -> None: ...


class _Disposable(Protocol):
    def dispose(self) -> None: ...


class _HearsOfSubsumed(Protocol):
    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None: ...


class StreamOperatorStateHandler:
    """The state of one operator of one subtask: gives it to the operator at the start, and snapshots it. Mutable.

    Answers to Flink's `StreamOperatorStateHandler`. Invariant: the synchronous part of a snapshot has a fixed order
    (C6) and yields all of its futures or none: if a step fails, the futures already created are cancelled.

    Difference from Flink: an operator has no raw keyed state of its own; that place holds the timers.
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

    def initialize_operator_state(self, operator: object) -> None:
        """Call the operator's `initialize_state` with the restored state (C45)."""
        if not can(operator, _InitializesState):
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
        self, operator: object, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        """Take the synchronous part. Any failure raises CheckpointException with the reason DECLINED."""
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
        operator: object,
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Timers, the user's part, raw state, operator state, keyed state (C6)."""
        if self._timer_services is not None:
            futures.raw_keyed_state = self._timer_services.snapshot()
        context = StateSnapshotContext(
            operator_id=self.operator_id,
            checkpoint_id=metadata.checkpoint_id,
            checkpoint_timestamp=metadata.timestamp,
        )
        if can(operator, _SnapshotsState):
            operator.snapshot_state(context)
        if context.raw_operator_state:
            copied = tuple(map(_RAW.encode, context.raw_operator_state))  # the user may change it (C7)
            futures.raw_operator_state = SnapshotFuture.of(copied)
        cut = (metadata.checkpoint_id, metadata.timestamp, options)
        if self._operator_state_backend is not None:
            futures.managed_operator_state = self._operator_state_backend.snapshot(*cut)
        if self._keyed_state_backend is not None:
            futures.managed_keyed_state = self._keyed_state_backend.snapshot(*cut)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._tell(HearsOfComplete, lambda backend: backend.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._tell(HearsOfAborted, lambda backend: backend.notify_checkpoint_aborted(checkpoint_id))

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self._tell(_HearsOfSubsumed, lambda backend: backend.notify_checkpoint_subsumed(checkpoint_id))

    def close(self) -> None:
        """Dispose of states and timers."""
        if self._timer_services is not None:
            self._timer_services.close()
        self._tell(_Disposable, lambda backend: backend.dispose())

    def _tell(self, kind: type[T], call: Callable[[T], None]) -> None:
        for backend in (self._operator_state_backend, self._keyed_state_backend):
            if can(backend, kind):
                call(backend)


_RAW = PlainSerializer()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOperatorStateContext:
    """The backends of one operator's state."""

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
        """Whether a checkpoint is restored (C45)."""
        return self.restored_checkpoint_id is not None

    def handler(self) -> StreamOperatorStateHandler:
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
    """Creates the state backends and timers of each operator of a subtask, and restores them. Mutable.

    In a chain's link, `build` requests the context and builds the operator with it; `state_handler` is `handler_of`.

    Answers to Flink's `StreamTaskStateInitializer` and `StreamOperatorStateContext`. Invariant: backends and timers
    are restored before the operator exists, so each state that it registers has its restored content at once (C45).
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
        """`now_ms` is the clock for states with a time to live; without it they are refused."""
        self._task_state_store = task_state_store
        self._max_parallelism = max_parallelism
        self._key_group_range = compute_key_group_range_for_operator_index(
            max_parallelism, parallelism, subtask_index
        )
        self._now_ms = now_ms
        self._contexts: dict[str, StreamOperatorStateContext] = {}

    def context_of(self, operator_id: str, *, timers: Timers) -> StreamOperatorStateContext:
        """The context of an operator without keyed state."""
        restored = self._task_state_store.restored_state(operator_id)
        backend = OperatorStateBackend(operator=operator_id)
        backend.restore(restored.managed_operator_state if restored else None)
        self._contexts[operator_id] = StreamOperatorStateContext(
            operator_id=operator_id,
            operator_state_backend=backend,
            timers=timers,
            restored_checkpoint_id=self._task_state_store.restored_checkpoint_id,
            restored=restored,
        )
        return self._contexts[operator_id]

    def keyed_context_of(
        self, operator_id: str, *, timers: Timers, key_type: object = Any
    ) -> StreamOperatorStateContext:
        """The context of an operator after `key_by`, with keyed state and timers of this subtask's key groups."""
        plain = self.context_of(operator_id, timers=timers)
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
        if plain.restored is not None and plain.restored.managed_keyed_state is not None:
            backend.restore([plain.restored.managed_keyed_state])
        if plain.restored is not None and plain.restored.raw_keyed_state is not None:
            services.restore([plain.restored.raw_keyed_state])
        self._contexts[operator_id] = replace(plain, keyed_state_backend=backend, timer_services=services)
        return self._contexts[operator_id]

    def handler_of(self, operator_id: str) -> StreamOperatorStateHandler:
        """The handler of an operator whose context was requested before."""
        if operator_id not in self._contexts:
            raise WrongState(
                f"operator {operator_id!r} has no state yet; call context_of or keyed_context_of when you build it"
            )
        return self._contexts[operator_id].handler()
