"""Builds what keeps one operator's state, and fills it with what was restored.

Answers to Flink's `StreamTaskStateInitializer` and `StreamOperatorStateContext`. Invariant: backends and timers
are restored before the operator is built around them, so whatever it registers has its content at once (C45).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reference_impl.errors import WrongState
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.snapshots.stream_operator_state_handler import StreamOperatorStateHandler
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState
from reference_impl.snapshots.task_state_store import TaskStateStore
from reference_impl.state.key_groups import compute_key_group_range_for_operator_index
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.keyed_state_store import KeyedStateStore
from reference_impl.state.operator_state_backend import OperatorStateBackend
from reference_impl.timers import Timers

__all__ = ["StreamOperatorStateContext", "StreamTaskStateInitializer"]


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
    """Of subtask `subtask_index`. Mutable: knows the contexts it has made.

    In a chain's link: `build` asks for the context and builds the operator around it; `state_handler` is `handler_of`.
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
