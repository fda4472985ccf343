"""What a snapshot of an operator's state leaves behind, keyed state and operator state, as values for a file.

Answers to Flink's `KeyGroupsStateHandle`, `StateMetaInfoSnapshot` and `OperatorStateHandle`. Invariant: a handle is
complete in itself and shares nothing with the state that it was taken of (S23).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct, msgpack

from reference_impl.state.copy_on_write_state_map import Chunk, EntryKey
from reference_impl.state.key_groups import Identity, KeyGroupRange, value_of
from reference_impl.state.schema import ANY, Schema

__all__ = [
    "Block",
    "Item",
    "KeyedStateHandle",
    "Mode",
    "OperatorStateHandle",
    "OperatorStatePartitions",
    "StateMetaInfo",
    "StoredItems",
    "decode_block",
    "encode_block",
]

StoredItems = bytes | list[bytes] | dict[Identity, bytes | None]
"""What one entry holds: a value, the elements of a list, the entries of a map; each encoded by its serializer."""

Block = bytes
"""Some entries of one state and one key group, encoded."""


class StateMetaInfo(Struct, frozen=True, kw_only=True):
    """What is to be known of a state to read it, or to refuse to."""

    kind: str
    schema: Schema
    """Of a value, an element, an accumulator, a value of a map."""
    key_schema: Schema | None = None
    """Of a key of a map."""

    @property
    def without_stamps(self) -> StateMetaInfo:
        """The same without a time to live."""
        schema = self.schema.parts[0] if self.schema.kind == "ttl" else self.schema
        return msgspec.structs.replace(self, schema=schema)

    def __str__(self) -> str:
        keys = "" if self.key_schema is None else f"{self.key_schema} to "
        return f"{self.kind} state of {keys}{self.schema}"


class KeyedStateHandle(Struct, frozen=True, kw_only=True):
    """The keyed state of one subtask at one checkpoint, as a value that can be written to a file.

    Which key groups it speaks of, which states there are, and their entries by key group and name.

    Answers to Flink's `KeyGroupsStateHandle` and `StateMetaInfoSnapshot`. Invariant: it is complete in itself: who
    knows nothing of the operator can cut it by key groups, and carry a state whose types it does not know to the next
    snapshot.
    """

    key_group_range: KeyGroupRange
    max_parallelism: int
    key_schema: Schema = ANY
    states: dict[str, StateMetaInfo]
    key_groups: dict[int, dict[str, list[Block]]]
    """A key group in which nothing lies is left out."""

    def intersection(self, key_group_range: KeyGroupRange) -> KeyedStateHandle | None:
        """What it says of those key groups; None if it speaks of none of them."""
        common = self.key_group_range.intersection(key_group_range)
        if not len(common):
            return None
        kept = {group: blocks for group, blocks in self.key_groups.items() if group in common}
        return msgspec.structs.replace(self, key_group_range=common, key_groups=kept)

    def entries(self, name: str) -> Iterator[tuple[Any, Any, StoredItems]]:
        """The key, the namespace and what is stored, of each entry of a state."""
        for blocks in self.key_groups.values():
            for block in blocks.get(name, ()):
                for key, items in decode_block(block):
                    namespace, identity = key if isinstance(key, tuple) else (None, key)
                    yield value_of(identity), None if namespace is None else value_of(namespace), items


def encode_block(chunk: Chunk, kind: str, transform: Any = None) -> Block | None:
    """The entries of a chunk that `transform`, if there is one, leaves; None if it leaves none."""
    entries = chunk.entries
    if kind in _SEVERAL:
        entries = {key: cell.items for key, cell in entries.items()}
    if transform is not None:
        entries = {key: left for key, items in entries.items() if (left := transform(items)) is not None}
    return _encode(entries) if entries else None


def decode_block(block: Block) -> Iterable[tuple[EntryKey, Any]]:
    """The entries of a block."""
    entries: dict[EntryKey, Any] = _decode(block)
    return entries.items()


_SEVERAL = frozenset({"list", "map"})
"""The kinds of state that have more than one value a key."""
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder().decode


Item = bytes | tuple[bytes, bytes]
"""An element, or of broadcast state an entry: its key and its value. Encoded by the state's serializers."""


class Mode(Enum):
    """How a state's items find the subtasks of the next run (S18)."""

    SPLIT_DISTRIBUTE = "split"
    """Each item goes to one subtask (S20)."""
    UNION = "union"
    """Every subtask gets all items of all (S22)."""
    BROADCAST = "broadcast"
    """Every subtask has a copy of the same, and gets one (S22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatePartitions:
    """What one subtask wrote of one state."""

    mode: Mode
    schema: Schema = ANY
    """By which its elements, or values, can be read (S2)."""
    key_schema: Schema | None = None
    """By which the keys of broadcast state can be read."""
    items: tuple[Item, ...] = ()
    """In their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStateHandle:
    """What a snapshot of operator state leaves behind, as plain values.

    What one subtask wrote of all its operator state; one without state writes none at all (S18).

    Answers to Flink's `OperatorStateHandle`, its `StateMetaInfo` and its `Mode`. Invariant: a handle is a value that
    shares nothing with the state it was taken of (S23). Each item is whole by itself, so a list can be cut between any
    two of them: there are no offsets into one file that a compression could shift (FLINK-33863).
    """

    states: Mapping[str, OperatorStatePartitions] = field(default_factory=dict)
