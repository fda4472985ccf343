"""Operator state that is the same in every subtask: a map, written by what is broadcast to all of them.

Answers to Flink's `BroadcastState`, `ReadOnlyBroadcastState` and `HeapBroadcastState`. Invariant: only the side that
every subtask receives in full can write; the keyed side, of which each subtask sees a part, has a view that cannot,
or the copies would diverge (S24). Values are encoded when they are put and decoded when they are read: who changes
what was read changes a copy.

It lies in memory, each subtask checkpoints its own copy, and no subtask knows another's. As long as each applies the
same updates, and they depend neither on the order among elements nor on anything a subtask has for itself, the copies
are equal; nobody checks that at run time, a property of the tests does.

Deviation: entries keep the order in which their keys were first put; who depends on it is wrong in Flink (S24).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from reference_impl.errors import StateError
from reference_impl.state.operator_state_handle import Item, Mode, OperatorStatePartitions
from reference_impl.state.serializer import UNENCODABLE, TypeSerializer

__all__ = ["BroadcastState", "ReadOnlyBroadcastState"]

K = TypeVar("K")
V = TypeVar("V")


class BroadcastState(Generic[K, V]):
    """One subtask's copy, as the side sees it that all subtasks receive. Mutable; `len` is the number of entries."""

    mode = Mode.BROADCAST

    def __init__(
        self,
        *,
        operator: str,
        name: str,
        key_serializer: TypeSerializer,
        serializer: TypeSerializer,
        items: Iterable[Item] = (),
    ) -> None:
        self.key_serializer = key_serializer
        self.serializer = serializer
        self._operator = operator
        self._name = name
        self._values: dict[bytes, bytes] = dict(item for item in items if isinstance(item, tuple))
        """By the encoded key, so that 1, 1.0 and True are three, and a list can be one."""

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of `key`, a copy; None without one."""
        value = self._values.get(self._encoded(self.key_serializer, key))
        return None if value is None else self.serializer.decode(value)

    def contains(self, key: K) -> bool:
        """Whether `key` has a value."""
        return self._encoded(self.key_serializer, key) in self._values

    def entries(self) -> list[tuple[K, V]]:
        """Each key with its value, as they were when this was called; a list of the caller's own."""
        key_of, value_of = self.key_serializer.decode, self.serializer.decode
        return [(key_of(key), value_of(value)) for key, value in self._values.items()]

    immutable_entries = entries
    """Flink's name for a reader's; what one does to a pair, or to what is in it, is done to a copy."""

    def iterator(self) -> Iterator[tuple[K, V]]:
        """Goes once over the entries."""
        return iter(self.entries())

    def put(self, key: K, value: V) -> None:
        """Let `key` have this value."""
        self.put_all([(key, value)])

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Let each key have its value, or none of them if one is missing or of another type."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        self._values.update(
            [(self._encoded(self.key_serializer, k), self._encoded(self.serializer, v)) for k, v in pairs]
        )

    def remove(self, key: K) -> None:
        """Let `key` have none; without effect if it has none."""
        self._values.pop(self._encoded(self.key_serializer, key), None)

    def clear(self) -> None:
        """No entries."""
        self._values.clear()

    def read_only(self) -> ReadOnlyBroadcastState[K, V]:
        """For the keyed side."""
        return ReadOnlyBroadcastState(self)

    def partitions(self) -> OperatorStatePartitions:
        """What a snapshot taken now keeps (S23)."""
        return OperatorStatePartitions(
            mode=self.mode,
            schema=self.serializer.schema,
            key_schema=self.key_serializer.schema,
            items=tuple(self._values.items()),
        )

    def _encoded(self, serializer: TypeSerializer, part: K | V) -> bytes:
        try:
            return serializer.encode(part)
        except UNENCODABLE as error:
            raise StateError(str(error), operator=self._operator, state=self._name) from None


class ReadOnlyBroadcastState(Generic[K, V]):
    """A live view without any way to write (S24)."""

    def __init__(self, state: BroadcastState[K, V]) -> None:
        self.get = state.get
        self.contains = state.contains
        self.immutable_entries = state.immutable_entries
