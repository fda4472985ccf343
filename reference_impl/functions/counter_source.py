"""The documentation's stateful source: it counts, and a checkpoint never splits a count from its emission.

Answers to `CounterSource` of Flink's "Working with State", a legacy `SourceFunction` whose `run` has a thread of its
own while checkpoints run on the task's. Invariant: whoever holds the lock sees as many numbers emitted as the offset
says; both change under it, and the task takes it for a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from reference_impl.errors import StateError
from reference_impl.snapshots.state_contexts import FunctionInitializationContext, FunctionSnapshotContext
from reference_impl.state.state_descriptor import ListStateDescriptor

__all__ = ["CounterSource", "SourceContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What a source function emits through."""

    collect: Callable[[Any], None]
    checkpoint_lock: AbstractContextManager[Any]
    """Nothing of a checkpoint happens while somebody else has it; it can be taken again and again."""


class CounterSource:
    """Emits 0, 1, 2, ... and goes on where its snapshot was. Mutable."""

    def __init__(self, *, end: int | None = None) -> None:
        """With `end` it stops before that number; else when it is cancelled."""
        self._end = end
        self._offset = 0
        self._is_running = True
        self._state: Any = None

    def run(self, context: SourceContext) -> None:
        """Until the end, or `cancel`."""
        while self._is_running and (self._end is None or self._offset < self._end):
            with context.checkpoint_lock:  # number and offset are one step
                context.collect(self._offset)
                self._offset += 1

    def cancel(self) -> None:
        """From any thread; the number under way is still emitted."""
        self._is_running = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the offset, and go on from it after a restore.

        A second one is refused, where the documentation's example forgets all but the last: this source has one
        sequence, so fewer instances than before cannot go on with all of them.
        """
        self._state = context.operator_state_store.get_list_state(
            ListStateDescriptor(name="state", element_type=int)
        )
        offsets = list(self._state.get()) if context.is_restored else []
        if len(offsets) > 1:
            raise StateError(
                f"this source counts one sequence and was restored with {len(offsets)} offsets, {offsets};"
                " restore it at the parallelism that it had",
                operator=type(self).__name__,
                state="state",
            )
        self._offset = offsets[0] if offsets else 0

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:  # noqa: ARG002 - the protocol's
        """Under the lock."""
        self._state.update([self._offset])
