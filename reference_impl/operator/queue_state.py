"""The operator's queue in checkpoints: one list state with one item per queued element.

Answers to the list state that Flink's `AsyncWaitOperator` registers in `initializeState` and fills in `snapshotState`.
Invariant: the state holds every queued element or none; a partly written queue is never saved (A60).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.elements import QueueElement
from reference_impl.errors import WrongState
from reference_impl.state.element_serializer import queue_element_from, to_state
from reference_impl.state.operator_state import PartitionableListState
from reference_impl.state.state_descriptor import ListStateDescriptor

QUEUE_STATE = ListStateDescriptor(name="_async_wait_operator_state_")
"""On rescaling, its items are split among the subtasks (A56, A64)."""


class QueueState:
    """Reads the queue from operator state at the start, and writes it at each checkpoint. Mutable."""

    def __init__(self) -> None:
        self._state: PartitionableListState[Any] | None = None
        self._restored: list[QueueElement] = []

    def initialize(self, context: StateInitializationContext) -> None:
        self._state = context.operator_state_store.get_list_state(QUEUE_STATE)
        self._restored = [queue_element_from(item) for item in self._state.get()]

    def take_restored(self) -> list[QueueElement]:
        """The restored elements; a second call returns none."""
        restored, self._restored = self._restored, []
        return restored

    def save(self, context: StateSnapshotContext, elements: Sequence[QueueElement]) -> None:
        """Replace the content of the state by `elements`; if that fails, the checkpoint fails."""
        if self._state is None:
            raise WrongState(
                f"operator {context.operator_id!r} has no state; call initialize_state first (C45)"
            )
        try:
            self._state.update([to_state(element) for element in elements])
        except Exception:
            self._state.clear()
            raise
