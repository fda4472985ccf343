"""Operator state that is a list: its elements may be given to other subtasks one by one.

Answers to Flink's `PartitionableListState`. Invariant: an element is encoded when it is added and decoded when it is
read, so nobody who holds one can change the state through it, and a snapshot need only copy references (S23).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from reference_impl.errors import StateError
from reference_impl.state.operator_state_handle import Item, Mode, OperatorStatePartitions
from reference_impl.state.serializer import UNENCODABLE, TypeSerializer

__all__ = ["PartitionableListState"]

T = TypeVar("T")


class PartitionableListState(Generic[T]):
    """One list of one operator's subtask, split or united when it comes to another parallelism. Mutable.

    `len` is the number of its elements.
    """

    def __init__(
        self,
        *,
        operator: str,
        name: str,
        mode: Mode,
        serializer: TypeSerializer,
        items: Iterable[Item] = (),
    ) -> None:
        self.mode = mode
        self.serializer = serializer
        self._operator = operator
        self._name = name
        self._items = [item for item in items if isinstance(item, bytes)]

    def __len__(self) -> int:
        return len(self._items)

    def get(self) -> list[T]:
        """All elements in their order; a list of the caller's own, empty if there are none (S4)."""
        decode = self.serializer.decode
        return [decode(item) for item in self._items]

    def add(self, value: T) -> None:
        """Put it behind the others."""
        self._items.append(self._encoded(value))

    def add_all(self, values: Iterable[T]) -> None:
        """Put all behind the others, or none of them if one is missing (S4)."""
        self._items += self._all_encoded(values)

    def update(self, values: Iterable[T]) -> None:
        """These instead of the others, or the others still if one is missing (S4)."""
        self._items = self._all_encoded(values)

    def clear(self) -> None:
        """No elements."""
        self._items = []

    def partitions(self) -> OperatorStatePartitions:
        """What a snapshot taken now keeps (S23)."""
        return OperatorStatePartitions(
            mode=self.mode, schema=self.serializer.schema, items=tuple(self._items)
        )

    def _all_encoded(self, values: Iterable[T] | None) -> list[bytes]:
        if values is None:
            raise self._error("no list of elements was given; give an empty one to clear the state")
        return [self._encoded(value) for value in values]

    def _encoded(self, value: T) -> bytes:
        if value is None:
            raise self._error("None is no element of a list state; leave it out (S4)")
        try:
            return self.serializer.encode(value)
        except UNENCODABLE as error:
            raise self._error(str(error)) from None

    def _error(self, problem: str) -> StateError:
        return StateError(problem, operator=self._operator, state=self._name)
