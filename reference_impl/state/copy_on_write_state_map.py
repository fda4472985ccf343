"""The entries of one state, for all keys, of which a snapshot is a moment's work.

Answers to Flink's `CopyOnWriteStateMap` and its `CopyOnWriteStateMapSnapshot`. Entries lie in chunks of some hundreds;
a directory says which chunk holds which positions, key group by key group. A snapshot keeps a copy of the directory.
Invariant: no chunk and no cell that a snapshot holds is changed any more; whoever wants to change it makes a copy first
and changes that (C7, S9, FLINK-26968). So a snapshot may be read on another thread.

Deviations. One map for all key groups of a subtask, where Flink has one each; the directory keeps them apart. A chunk
splits by itself when it is full, so that no operation ever takes longer than the copying of one chunk, where Flink
rehashes a few entries at each access. The one exception: all namespaces of a key lie in one chunk. Nobody is told that
a snapshot has been read: the first write to a chunk after a snapshot copies it in any case, so that the two threads
share nothing that either changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from reference_impl.state.key_groups import SPREAD_BITS, Identity, spread_of

__all__ = [
    "Cell",
    "Chunk",
    "CopyOnWriteStateMap",
    "EntryKey",
    "StateMapSnapshot",
    "Stored",
]

EntryKey = Identity | tuple[Identity, Identity]
"""A key, or a namespace and a key."""
_CHUNK_ENTRIES_MAX = 256
"""Copying so many takes some microseconds, which is the longest that a write waits for a snapshot; writing them down
takes less than 0.1 ms, so that a snapshot in slices leaves room for 10,000 changes a second."""
_DIRECTORY_BITS_MAX = 17
"""A directory of more places would itself take long to copy."""


T = TypeVar("T", list[bytes], dict[Identity, bytes | None])


class Cell(Struct, Generic[T], gc=False):
    """The several values of one key: the elements of a list, or the entries of a map. Mutable."""

    version: int
    items: T


Stored = bytes | Cell[Any]
"""What lies in an entry."""


class Chunk:
    """Some entries, all of one key group. Mutable, by those who own its version."""

    __slots__ = ("depth", "entries", "entries_max", "version")

    def __init__(
        self, entries: dict[EntryKey, Any], *, version: int, depth: int, entries_max: int = _CHUNK_ENTRIES_MAX
    ) -> None:
        self.entries = entries
        self.version = version
        self.depth = depth
        """So many bits of the spread are common to all that may lie here."""
        self.entries_max = entries_max
        """With more of them it is split."""


_NOBODY_OWNS_IT = -1
_NOTHING = Chunk({}, version=_NOBODY_OWNS_IT, depth=0)
"""Stands wherever nothing lies yet, or nothing any more; whoever writes there makes a chunk of its own."""


class StateMapSnapshot:
    """What a map was at one moment, to be read once. Mutable: it lets go of what has been read.

    Little by little, for the chunks of a million keys that were written to meanwhile are freed with it.
    """

    def __init__(self, directory: list[Chunk], shift: int) -> None:
        self._directory = directory
        self._depth = SPREAD_BITS - shift

    def chunks_of(self, key_group_offset: int) -> Iterator[Chunk]:
        """The chunks of a key group that hold something, or did, each once."""
        last = _NOTHING
        for index in range(key_group_offset << self._depth, (key_group_offset + 1) << self._depth):
            chunk, self._directory[index] = self._directory[index], _NOTHING
            if chunk is not last:
                yield chunk
            last = chunk


class CopyOnWriteStateMap:
    """Entries by position and key. Mutable.

    `position` is the key group, counted from the first, followed by the key's spread; `shift` of its bits are dropped
    to find the place in `directory`.
    """

    def __init__(self, key_groups: int) -> None:
        self.shift = SPREAD_BITS
        self.directory = [_NOTHING] * key_groups
        self.version = 0
        """Goes up with each snapshot. A chunk or a cell of a lower version may be one that a snapshot holds."""
        self._depth_max = max(min(SPREAD_BITS, _DIRECTORY_BITS_MAX - key_groups.bit_length()), 0)

    def __len__(self) -> int:
        """The number of entries, counted."""
        return sum(len(chunk.entries) for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """Each chunk once, key group by key group; also while some of them split."""
        position = 0
        while position >> self.shift < len(self.directory):
            chunk = self.directory[position >> self.shift]
            yield chunk
            span_bits = SPREAD_BITS - chunk.depth
            position = (position >> span_bits) + 1 << span_bits

    def get(self, position: int, key: EntryKey) -> Any:
        """What is stored; None if nothing is."""
        return self.directory[position >> self.shift].entries.get(key)

    def put(self, position: int, key: EntryKey, stored: Stored) -> None:
        """Store it, in place of what was."""
        chunk = self.chunk_to_write(position)
        chunk.entries[key] = stored
        if len(chunk.entries) > chunk.entries_max:
            self.split_full(position)

    def remove(self, position: int, key: EntryKey) -> Any:
        """What was stored, and is no more; None if nothing was."""
        if key not in self.directory[position >> self.shift].entries:
            return None
        return self.chunk_to_write(position).entries.pop(key)

    def chunk_to_write(self, position: int) -> Chunk:
        """The chunk at that position, which no snapshot holds."""
        chunk = self.directory[position >> self.shift]
        return self.own(position, chunk) if chunk.version < self.version else chunk

    def cell_to_write(self, position: int, key: EntryKey) -> Cell[Any] | None:
        """The cell of that key, which no snapshot holds; None if there is none."""
        cell: Cell[Any] | None = self.get(position, key)
        if cell is not None and cell.version < self.version:
            cell = Cell(self.version, cell.items.copy())
            self.chunk_to_write(position).entries[key] = cell
        return cell

    def own(self, position: int, chunk: Chunk) -> Chunk:
        """Put a copy of `chunk`, which a snapshot holds, where it was."""
        copy = Chunk(
            chunk.entries.copy(), version=self.version, depth=chunk.depth, entries_max=chunk.entries_max
        )
        self._enter(position, copy)
        return copy

    def split_full(self, position: int) -> None:
        """Make two chunks of the full one at that position, if that parts them."""
        chunk = self.directory[position >> self.shift]
        halves = self._halves(chunk) if chunk.depth < self._depth_max else ({}, chunk.entries)
        if not all(
            halves
        ):  # one key with many namespaces, or as deep as it goes: look again when it has doubled
            chunk.entries_max = 2 * len(chunk.entries)
            return
        if chunk.depth == SPREAD_BITS - self.shift:
            self.directory = [one for one in self.directory for _ in range(2)]
            self.shift -= 1
        half_bit = 1 << (SPREAD_BITS - chunk.depth - 1)
        for half, at in zip(halves, (position & ~half_bit, position | half_bit), strict=True):
            self._enter(at, Chunk(half, version=self.version, depth=chunk.depth + 1))

    def rewrite(self, change: Callable[[Stored], Stored]) -> None:
        """Replace each entry, in chunks that no snapshot holds; if `change` raises, none is replaced."""
        rewritten: list[Chunk] = []
        last: Chunk | None = None
        for chunk in self.directory:
            if chunk is not last:
                entries = {key: change(stored) for key, stored in chunk.entries.items()}
                new = Chunk(entries, version=self.version if entries else _NOBODY_OWNS_IT, depth=chunk.depth)
            rewritten.append(new)
            last = chunk
        self.directory = rewritten

    def snapshot(self) -> StateMapSnapshot:
        """Keep what is, for as long as somebody has the snapshot."""
        self.version += 1
        return StateMapSnapshot(self.directory.copy(), self.shift)

    def _enter(self, position: int, chunk: Chunk) -> None:
        """Let the directory lead to `chunk` from all places that share its first bits."""
        places = 1 << (SPREAD_BITS - self.shift - chunk.depth)
        first = (position >> self.shift) // places * places
        self.directory[first : first + places] = [chunk] * places

    def _halves(self, chunk: Chunk) -> tuple[dict[EntryKey, Any], dict[EntryKey, Any]]:
        """Its entries, by the next bit of their spread."""
        halves: tuple[dict[EntryKey, Any], dict[EntryKey, Any]] = ({}, {})
        shift = SPREAD_BITS - chunk.depth - 1
        for key, stored in chunk.entries.items():
            halves[_spread(key) >> shift & 1][key] = stored
        return halves


def _spread(key: EntryKey) -> int:
    """That of the key; a namespace plays no part."""
    return spread_of(key[1] if isinstance(key, tuple) else key)
