"""What a function knows of where it runs, and its door to keyed state.

Answers to Flink's `RuntimeContext` and `RichFunction`. Invariant: a state obtained here is that of the current key,
whenever it is used (S1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

__all__ = ["RichFunction", "RuntimeContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """Handed to a function's `open`."""

    keyed_state_store: Any = None
    """None on a stream without keys."""
    subtask_index: int = 0
    number_of_parallel_subtasks: int = 1
    max_number_of_parallel_subtasks: int = 128

    def with_keyed_state(self, store: Any) -> RuntimeContext:
        """The same, with the state of the current key."""
        return replace(self, keyed_state_store=store)

    def get_state(self, descriptor: Any) -> Any:
        """One value a key."""
        return self._store().get_state(descriptor)

    def get_list_state(self, descriptor: Any) -> Any:
        """Elements in the order in which they were added."""
        return self._store().get_list_state(descriptor)

    def get_reducing_state(self, descriptor: Any) -> Any:
        """All that was added, reduced to one value."""
        return self._store().get_reducing_state(descriptor)

    def get_aggregating_state(self, descriptor: Any) -> Any:
        """All that was added, in an accumulator."""
        return self._store().get_aggregating_state(descriptor)

    def get_map_state(self, descriptor: Any) -> Any:
        """Values by a key within the key."""
        return self._store().get_map_state(descriptor)

    def _store(self) -> Any:
        if self.keyed_state_store is None:
            raise ValueError(
                "keyed state on a stream without keys: give the operator a key selector and a backend"
            )
        return self.keyed_state_store


@runtime_checkable
class RichFunction(Protocol):
    """Wants keyed state, or to know where it runs."""

    def open(self, context: RuntimeContext) -> None:
        """Before any record: register states."""
