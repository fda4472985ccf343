"""The entries of one keyed state, organised so that taking a snapshot copies only a directory.

Answers to Flink's `CopyOnWriteStateMap` and its `CopyOnWriteStateMapSnapshot`. Entries are stored in chunks of some
hundreds; a directory maps positions to chunks, key group by key group. A snapshot keeps a copy of the directory.
Invariant: a chunk or cell that a snapshot refers to is never changed; a write copies it first (C7, S9, FLINK-26968).
So a snapshot can be read on another thread.

Differences from Flink: one map holds all key groups of a subtask, where Flink has a map for each. A full chunk is
split, so no operation takes longer than copying one chunk, where Flink rehashes a few entries at each access; but all
namespaces of a key stay in one chunk. The map is not told when a snapshot has been read: the first write to a chunk
after a snapshot always copies it, so the two threads share nothing that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from reference_impl.state.key_groups import SPREAD_BITS, Identity, spread_of

EntryKey = Identity | tuple[Identity, Identity]
"""A key, or a namespace and a key."""
_CHUNK_ENTRIES_MAX = 256
"""Copying that many takes some microseconds, the longest that a write waits because of a snapshot.

Encoding them takes less than 0.1 ms, so a snapshot in slices leaves time for 10,000 changes a second.
"""
_DIRECTORY_BITS_MAX = 17
"""Limit for the size of the directory, which a snapshot copies."""


T = TypeVar("T", list[bytes], dict[Identity, bytes | None])


class Cell(Struct, Generic[T], gc=False):
    """The elements of a list state or the entries of a map state, for one key. Mutable."""

    version: int
    items: T


Stored = bytes | Cell[Any]
"""The content of an entry."""


class Chunk:
    """Some entries of one key group. Mutable while its version is the map's."""

    __slots__ = ("depth", "entries", "entries_max", "version")

    def __init__(
        self,
        entries: dict[EntryKey, Stored],
        *,
        version: int,
        depth: int,
        entries_max: int = _CHUNK_ENTRIES_MAX,
    ) -> None:
        self.entries: dict[EntryKey, Any] = entries
        self.version = version
        self.depth = depth
        """All keys in this chunk agree in this many bits of their spread."""
        self.entries_max = entries_max
        """A chunk with more entries is split."""


_NEVER_OWNED = -1
_NOTHING = Chunk({}, version=_NEVER_OWNED, depth=0)
"""Stands for every empty chunk; a write replaces it by a new chunk."""


class StateMapSnapshot:
    """A map as it was at one moment; can be read once. Mutable: releases what has been read.

    It is released gradually, because freeing the old chunks of a million changed keys at once takes time.
    """

    def __init__(self, directory: list[Chunk], shift: int) -> None:
        self._directory = directory
        self._depth = SPREAD_BITS - shift

    def chunks_of(self, key_group_offset: int) -> Iterator[Chunk]:
        """The chunks of a key group that have or had entries, each once."""
        last = _NOTHING
        for index in range(key_group_offset << self._depth, (key_group_offset + 1) << self._depth):
            chunk, self._directory[index] = self._directory[index], _NOTHING
            if chunk is not last:
                yield chunk
            last = chunk


class CopyOnWriteStateMap:
    """Entries by position and key. Mutable.

    `position` is the key group, counted from the subtask's first, followed by the key's spread. Dropping its lowest
    `shift` bits gives the index in `directory`.
    """

    def __init__(self, key_groups: int) -> None:
        self.shift = SPREAD_BITS
        self.directory = [_NOTHING] * key_groups
        self.version = 0
        """Incremented by each snapshot. A chunk or cell with a lower version may belong to a snapshot."""
        self._depth_max = max(min(SPREAD_BITS, _DIRECTORY_BITS_MAX - key_groups.bit_length()), 0)

    def __len__(self) -> int:
        """The number of entries; counts them."""
        return sum(len(chunk.entries) for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """Each chunk once, by key group; chunks may be split during the iteration."""
        position = 0
        while position >> self.shift < len(self.directory):
            chunk = self.directory[position >> self.shift]
            yield chunk
            span_bits = SPREAD_BITS - chunk.depth
            position = (position >> span_bits) + 1 << span_bits

    def get(self, position: int, key: EntryKey) -> Any:
        """The stored value, or None."""
        return self.directory[position >> self.shift].entries.get(key)

    def put(self, position: int, key: EntryKey, stored: Stored) -> None:
        chunk = self.chunk_to_write(position)
        chunk.entries[key] = stored
        if len(chunk.entries) > chunk.entries_max:
            self.split_full(position)

    def remove(self, position: int, key: EntryKey) -> Stored | None:
        """Remove and return the stored value; None if there was none."""
        if key not in self.directory[position >> self.shift].entries:
            return None
        removed: Stored = self.chunk_to_write(position).entries.pop(key)
        return removed

    def chunk_to_write(self, position: int) -> Chunk:
        """The chunk at that position, copied if a snapshot may refer to it."""
        chunk = self.directory[position >> self.shift]
        return self.own(position, chunk) if chunk.version < self.version else chunk

    def cell_to_write(self, position: int, key: EntryKey) -> Cell[T] | None:
        """The cell of that key, copied if a snapshot may refer to it; None if there is none."""
        cell: Cell[T] | None = self.get(position, key)
        if cell is not None and cell.version < self.version:
            cell = Cell(self.version, cell.items.copy())
            self.chunk_to_write(position).entries[key] = cell
        return cell

    def own(self, position: int, chunk: Chunk) -> Chunk:
        """Replace `chunk`, to which a snapshot may refer, by a copy."""
        copy = Chunk(
            chunk.entries.copy(), version=self.version, depth=chunk.depth, entries_max=chunk.entries_max
        )
        self._enter(position, copy)
        return copy

    def split_full(self, position: int) -> None:
        """Split the full chunk at that position, if its entries differ in their spread."""
        chunk = self.directory[position >> self.shift]
        halves = self._halves(chunk) if chunk.depth < self._depth_max else ({}, chunk.entries)
        if not all(halves):  # cannot be split: try again at twice the size
            chunk.entries_max = 2 * len(chunk.entries)
            return
        if chunk.depth == SPREAD_BITS - self.shift:
            self.directory = [one for one in self.directory for _ in range(2)]
            self.shift -= 1
        half_bit = 1 << (SPREAD_BITS - chunk.depth - 1)
        for half, at in zip(halves, (position & ~half_bit, position | half_bit), strict=True):
            self._enter(at, Chunk(half, version=self.version, depth=chunk.depth + 1))

    def rewrite(self, change: Callable[[Stored], Stored]) -> None:
        """Replace each entry, in new chunks; if `change` raises, nothing is replaced."""
        rewritten: list[Chunk] = []
        last: Chunk | None = None
        for chunk in self.directory:
            if chunk is not last:
                entries = {key: change(stored) for key, stored in chunk.entries.items()}
                new = Chunk(entries, version=self.version if entries else _NEVER_OWNED, depth=chunk.depth)
            rewritten.append(new)
            last = chunk
        self.directory = rewritten

    def snapshot(self) -> StateMapSnapshot:
        self.version += 1
        return StateMapSnapshot(self.directory.copy(), self.shift)

    def _enter(self, position: int, chunk: Chunk) -> None:
        """Point the directory to `chunk` for all positions that share its first bits."""
        places = 1 << (SPREAD_BITS - self.shift - chunk.depth)
        first = (position >> self.shift) // places * places
        self.directory[first : first + places] = [chunk] * places

    def _halves(self, chunk: Chunk) -> tuple[dict[EntryKey, Stored], dict[EntryKey, Stored]]:
        """The chunk's entries, separated by the next bit of their spread."""
        halves: tuple[dict[EntryKey, Stored], dict[EntryKey, Stored]] = ({}, {})
        shift = SPREAD_BITS - chunk.depth - 1
        for key, stored in chunk.entries.items():
            spread = spread_of(key[1] if isinstance(key, tuple) else key)  # the namespace has no influence
            halves[spread >> shift & 1][key] = stored
        return halves
