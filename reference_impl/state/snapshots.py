"""What a snapshot consists of (values that can be written to a file), and its asynchronous part.

Answers to Flink's `KeyGroupsStateHandle`, `StateMetaInfoSnapshot` and `OperatorStateHandle`. Invariant: a handle is
complete by itself and shares no object with the state from which it was taken (S23).

Answers to the `RunnableFuture<SnapshotResult>` that Flink's state backends return from `snapshot`, and to
`DoneFuture`. Invariant: it ends once, with a result, an error or cancelled. Whatever happens to the state meanwhile,
the result is the state at the time when the future was created (C7, S9, S23).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, msgpack

from reference_impl.errors import SnapshotCancelled, WrongState
from reference_impl.state.copy_on_write_state_map import Chunk, EntryKey
from reference_impl.state.key_groups import Identity, KeyGroupRange, value_of
from reference_impl.state.serializer import ANY, Schema

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SnapshotFuture(Generic[T_co]):
    """Runs the generator `slices` to its end; its return value is the result. Mutable.

    On the task's thread, `run_slice` can alternate with mail; on another thread, `run` does everything. `cancel` may
    be called on any thread (C12); a slice that is running is finished first.
    """

    def __init__(self, slices: Generator[None, None, T_co]) -> None:
        self._slices = slices
        self._turn = Lock()
        self._results: list[T_co] = []
        self._error: BaseException | None = None
        self._is_cancelled = False

    @staticmethod
    def of(value: T) -> SnapshotFuture[T]:
        """A future that has already ended with `value`."""
        future = SnapshotFuture(_returning(lambda: value))
        future.run()
        return future

    @staticmethod
    def calling(work: Callable[[], T]) -> SnapshotFuture[T]:
        """A future whose only slice calls `work`."""
        return SnapshotFuture(_returning(work))

    @property
    def is_done(self) -> bool:
        """Whether it has ended: with a result, an error or cancelled."""
        return self._is_cancelled or self._error is not None or bool(self._results)

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    @property
    def written(self) -> T_co | None:
        """The result, even after a cancellation, so that it can be discarded (C8); None if there is none."""
        return self._results[0] if self._results else None

    def run(self) -> None:
        """Run all remaining slices; without effect if it has ended."""
        while not self.run_slice():
            pass

    def run_slice(self) -> bool:
        """Run one slice, which should take some tens of microseconds; return whether the future has ended."""
        with self._turn:
            if not self.is_done:
                self._advance()
            if self._is_cancelled:
                self._slices.close()
        return self.is_done

    def cancel(self) -> None:
        """End without a result; without effect if it has ended. A running slice is finished first."""
        if self.is_done:
            return
        self._is_cancelled = True
        if self._turn.acquire(blocking=False):
            try:
                self._slices.close()
            finally:
                self._turn.release()

    def result(self) -> T_co:
        """The result; raises the error that ended it, or WrongState if it has not ended."""
        if self._is_cancelled:
            raise SnapshotCancelled("the snapshot was cancelled, so it has no result")
        if self._error is not None:
            raise self._error
        if not self._results:
            raise WrongState("the asynchronous part has not ended; call run() before result()")
        return self._results[0]

    def _advance(self) -> None:
        try:
            next(self._slices)
        except StopIteration as end:
            self._results.append(end.value)
        except Exception as error:  # noqa: BLE001  # raised again by `result` (C9)
            self._error = error


def _returning(work: Callable[[], T]) -> Generator[None, None, T]:
    """A generator that ends in its first slice."""
    yield from ()
    return work()


StoredItems = bytes | list[bytes] | dict[Identity, bytes | None]
"""The content of one entry: a value, list elements or map entries, each encoded by its serializer."""

SnapshotTransformer = Callable[[StoredItems], StoredItems | None]
"""Filters an entry for a snapshot without changing it; None leaves the entry out (S16)."""
Block = bytes
"""Some entries of one state and one key group, encoded."""


class StateMetaInfo(Struct, frozen=True, kw_only=True):
    """What must be known of a state to read it or to refuse it."""

    kind: str
    schema: Schema
    """Schema of a value, list element, accumulator, or map value."""
    key_schema: Schema | None = None
    """Schema of a map key."""

    @property
    def without_stamps(self) -> StateMetaInfo:
        """The same without time to live."""
        schema = self.schema.parts[0] if self.schema.kind == "ttl" else self.schema
        return msgspec.structs.replace(self, schema=schema)

    def __str__(self) -> str:
        keys = "" if self.key_schema is None else f"{self.key_schema} to "
        return f"{self.kind} state of {keys}{self.schema}"


class KeyedStateHandle(Struct, frozen=True, kw_only=True):
    """The keyed state of one subtask in one checkpoint.

    Answers to Flink's `KeyGroupsStateHandle` and `StateMetaInfoSnapshot`. Invariant: it can be split by key group, and
    a state of unknown types can be carried to the next snapshot, without knowledge of the operator.
    """

    key_group_range: KeyGroupRange
    max_parallelism: int
    key_schema: Schema = ANY
    states: dict[str, StateMetaInfo]
    key_groups: dict[int, dict[str, list[Block]]]
    """The blocks by key group, then by state name, without empty key groups."""

    def intersection(self, key_group_range: KeyGroupRange) -> KeyedStateHandle | None:
        """The part for those key groups; None if there is none."""
        common = self.key_group_range.intersection(key_group_range)
        if not len(common):
            return None
        kept = {group: blocks for group, blocks in self.key_groups.items() if group in common}
        return msgspec.structs.replace(self, key_group_range=common, key_groups=kept)

    def entries(self, name: str) -> Iterator[tuple[object, object, StoredItems]]:
        """Key, namespace and value of each entry of a state."""
        for blocks in self.key_groups.values():
            for block in blocks.get(name, ()):
                for key, items in decode_block(block):
                    namespace, identity = key if isinstance(key, tuple) else (None, key)
                    yield value_of(identity), None if namespace is None else value_of(namespace), items


def encode_block(chunk: Chunk, kind: str, transform: SnapshotTransformer | None = None) -> Block | None:
    """Encode the entries of a chunk, filtered by `transform`; None if none remain."""
    entries = chunk.entries
    if kind in _SEVERAL:
        entries = {key: cell.items for key, cell in entries.items()}
    if transform is not None:
        entries = {key: left for key, items in entries.items() if (left := transform(items)) is not None}
    return _encode(entries) if entries else None


def decode_block(block: Block) -> Iterable[tuple[EntryKey, StoredItems]]:
    """The entries of a block, with their keys."""
    entries: dict[EntryKey, StoredItems] = _decode(block)
    return entries.items()


_SEVERAL = frozenset({"list", "map"})
"""The kinds of state that store more than one value per key."""
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder().decode


Item = bytes | tuple[bytes, bytes]
"""A list element, or a broadcast entry as a pair of key and value; encoded by the state's serializers."""


class Mode(Enum):
    """How a state's items are assigned to the subtasks of the next run (S18)."""

    SPLIT_DISTRIBUTE = "split"
    """Each item goes to one subtask (S20)."""
    UNION = "union"
    """Every subtask gets all items (S22)."""
    BROADCAST = "broadcast"
    """Every subtask has the same content and gets one copy (S22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatePartitions:
    """What one subtask wrote of one state."""

    mode: Mode
    schema: Schema = ANY
    """Schema of list elements or map values (S2)."""
    key_schema: Schema | None = None
    """Schema of broadcast keys."""
    items: tuple[Item, ...] = ()
    """The items in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStateHandle:
    """What one subtask wrote of its operator state; a subtask without state writes no handle (S18).

    Answers to Flink's `OperatorStateHandle`, its `StateMetaInfo` and its `Mode`. Invariant: it shares no object with
    the state from which it was taken (S23). Items are separate values, so a list can be split between any two of them;
    there are no offsets into a file, which compression would shift (FLINK-33863).
    """

    states: Mapping[str, OperatorStatePartitions] = field(default_factory=dict)
