"""What an operator, or a user's function in it, is handed when its state begins and when it is to be kept.

Answers to Flink's `StateInitializationContext`, `StateSnapshotContext` and the two `Function...Context`s that a
`CheckpointedFunction` sees of them. Invariant: `is_restored` says that there was a checkpoint to begin from, not
that it held anything for this operator (C45).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from reference_impl.state.keyed_state_store import KeyedStateStore
from reference_impl.state.operator_state_backend import OperatorStateBackend
from reference_impl.timers import Timers

__all__ = [
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "StateInitializationContext",
    "StateSnapshotContext",
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
