"""The operator state of one subtask, lists and broadcast maps, and its redistribution to other subtasks.

Answers to Flink's `DefaultOperatorStateBackend`, `PartitionableListState` and `HeapBroadcastState`. Invariant: under
one name there is one object with one mode (S18).

Answers to Flink's `RoundRobinOperatorStateRepartitioner`. Invariant: the new subtasks together get exactly the items
of a split state that the old ones wrote, and over all split states no subtask gets more than one item more than
another (S21).

Difference from Flink: the order is defined, where Flink's is that of a hash map. Items keep the order of the old
subtasks and their order in each; names are handled in the order in which the subtasks, from the first on, wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.errors import StateError, StateMigrationException
from reference_impl.state.serializer import UNENCODABLE, Compatibility, TypeSerializer, compatibility
from reference_impl.state.snapshots import (
    Mode,
    OperatorStateHandle,
    OperatorStatePartitions,
    SnapshotFuture,
)
from reference_impl.state.state_descriptor import ListStateDescriptor, MapStateDescriptor

_Written = dict[str, list[OperatorStatePartitions]]
"""For each name, what the subtasks wrote, in the order of the subtasks."""
_Given = list[dict[str, OperatorStatePartitions]]
"""For each new subtask, what it gets."""


class RoundRobinOperatorStateRepartitioner:
    """Redistributes the state of one operator; planted defects override the method of a mode."""

    def __init__(self, *, operator: str = "of the task") -> None:
        self._operator = operator

    def repartition_state(
        self, previous: Sequence[OperatorStateHandle | None], old_parallelism: int, new_parallelism: int
    ) -> list[OperatorStateHandle | None]:
        """For each new subtask, the handle that it restores, or None."""
        if len(previous) != old_parallelism:
            raise ValueError(
                f"{len(previous)} handles for {old_parallelism} old subtasks; give one for each in their order, or None"
            )
        if new_parallelism < 1:
            raise ValueError(f"operator state is to go to {new_parallelism} subtasks; give 1 or more")
        written = _by_name(previous, self._operator)
        given: _Given = [{} for _ in range(new_parallelism)]
        if new_parallelism == old_parallelism:
            self.keep(previous, written, given)
        else:
            self.split(written, given)
            self.broadcast(_of_mode(Mode.BROADCAST, written), given)
        self.unite(written, given)
        return [OperatorStateHandle(states=states) if states else None for states in given]

    def keep(self, previous: Sequence[OperatorStateHandle | None], written: _Written, given: _Given) -> None:
        """Same parallelism: give back each subtask's state, and supply lacking broadcast copies (S19, FLINK-23475)."""
        for states, handle in zip(given, previous, strict=True):
            for name, partitions in handle.states.items() if handle else ():
                if partitions.mode is not Mode.UNION:
                    states[name] = partitions
        copies = _of_mode(Mode.BROADCAST, written)
        self.broadcast({name: of for name, of in copies.items() if len(_reported(of)) < len(previous)}, given)

    def split(self, written: _Written, given: _Given) -> None:
        """Give contiguous parts to the subtasks; where one name's remainder ends, the next name's begins (S20)."""
        parallelism, start = len(given), 0
        for name, partitions in _of_mode(Mode.SPLIT_DISTRIBUTE, written).items():
            whole = self._joined(name, partitions)
            items, position = whole.items, 0
            base, remainder = divmod(len(items), parallelism)
            for turn in range(parallelism):
                share = base + (turn < remainder)
                part = items[position : position + share]
                position += share
                given[(start + turn) % parallelism][name] = replace(whole, items=part)
            start = (start + remainder) % parallelism

    def unite(self, written: _Written, given: _Given) -> None:
        """Every subtask gets all items (S22) and must drop those of others (S25)."""
        for name, partitions in _of_mode(Mode.UNION, written).items():
            united = self._joined(name, partitions)
            for states in given:
                states[name] = united

    def _joined(self, name: str, partitions: Sequence[OperatorStatePartitions]) -> OperatorStatePartitions:
        """The items of all subtasks; StateError if their types differ, since no subtask could read them all (S2)."""
        holding = _reported(partitions) or partitions
        types = list(dict.fromkeys(str(one.schema) for one in holding if one.schema != holding[0].schema))
        if types:
            raise StateError(
                f"one subtask left elements of {holding[0].schema}, another of {', '.join(types)}; restore it at the"
                " old parallelism first, and let every subtask ask for it with the new type",
                operator=self._operator,
                state=name,
            )
        return replace(holding[0], items=tuple(item for one in holding for item in one.items))

    def broadcast(self, copies: _Written, given: _Given) -> None:
        """Assign the copies round robin, skipping empty ones (S22)."""
        for name, partitions in copies.items():
            reported = _reported(partitions) or partitions
            for subtask, states in enumerate(given):
                states[name] = reported[subtask % len(reported)]


def refuse_union_finished_in_part(
    operator: str, previous: Sequence[OperatorStateHandle | None], finished: Sequence[bool]
) -> None:
    """Raise StateError if some subtasks have finished, others have not, and one of these has union state.

    The finished ones wrote nothing, so their elements would be missing from the union (C19, FLINK-21080).
    """
    if all(finished) or not any(finished):
        return
    for name, partitions in _of_mode(Mode.UNION, _by_name(previous, operator)).items():
        raise StateError(
            f"{sum(finished)} of {len(finished)} subtasks have finished, so their elements of this union list "
            f"are missing, while {len(partitions)} still have theirs; restore a checkpoint in which none or all "
            "have finished (C19)",
            operator=operator,
            state=name,
        )


def _by_name(previous: Sequence[OperatorStateHandle | None], operator: str) -> _Written:
    written: _Written = {}
    for handle in previous:
        for name, partitions in handle.states.items() if handle else ():
            written.setdefault(name, []).append(partitions)
    for name, several in written.items():
        if len({partitions.mode for partitions in several}) > 1:
            modes = " and ".join(repr(mode.value) for mode in dict.fromkeys(one.mode for one in several))
            raise StateError(
                f"some of its subtasks wrote it as {modes}; restore handles of one and the same operator (S18)",
                operator=operator,
                state=name,
            )
    return written


def _of_mode(mode: Mode, written: _Written) -> _Written:
    return {name: several for name, several in written.items() if several[0].mode is mode}


def _reported(partitions: Sequence[OperatorStatePartitions]) -> list[OperatorStatePartitions]:
    """The handles that hold items."""
    return [one for one in partitions if one.items]


class _NamedState:
    """Common part of list and broadcast state: its name, mode and types, and what it refuses. Mutable."""

    def __init__(
        self, operator: str, descriptor: ListStateDescriptor | MapStateDescriptor, mode: Mode
    ) -> None:
        self._operator = operator
        self.name = descriptor.name
        self.mode = mode
        self.key_serializer: TypeSerializer | None = None
        """That of a map's keys."""
        try:
            self.serializer = descriptor.serializer
            if isinstance(descriptor, MapStateDescriptor):
                self.key_serializer = descriptor.key_serializer
        except TypeError as error:
            raise self.error(str(error)) from None
        if descriptor.ttl is not None and descriptor.ttl.is_enabled:
            raise self.error("operator state cannot expire; leave `ttl` out of its descriptor (S11)")
        self.clear()

    def clear(self) -> None:
        raise NotImplementedError

    def refuse_other_types(self, asked: _NamedState) -> None:
        """Raise StateError if `asked`, a later request for this state, has other types (S2)."""
        pairs = (self.serializer, asked.serializer), (self.key_serializer, asked.key_serializer)
        for first, now in pairs:
            if first is not None and now is not None and first.schema != now.schema:
                raise self.error(
                    f"it was requested with {first.schema} and now with {now.schema}; use one type (S2)"
                )

    def error(self, problem: str) -> StateError:
        return StateError(problem, operator=self._operator, state=self.name)

    def _migration(self, restored: OperatorStatePartitions) -> Callable[[bytes], bytes]:
        """Makes restored items readable with the type of this state (S2)."""
        old = restored.schema
        match compatibility(new=self.serializer.schema, old=old):
            case Compatibility.AS_IS:
                return lambda data: data
            case Compatibility.AFTER_MIGRATION:
                return lambda data: self.serializer.migrate(data, old)
            case Compatibility.INCOMPATIBLE:
                raise self._changed(f"it was {old} and cannot be read as {self.serializer.schema}")

    def _changed(self, problem: str) -> StateMigrationException:
        return StateMigrationException(
            f"{problem}; register it with a type that can read the old one (S2)",
            operator=self._operator,
            state=self.name,
        )

    def _encoded_with(self, serializer: TypeSerializer, part: object) -> bytes:
        try:
            return serializer.encode(part)
        except UNENCODABLE as error:
            raise self.error(str(error)) from None


T = TypeVar("T")


class PartitionableListState(_NamedState, Generic[T]):
    """Operator state that is a list; its elements are redistributed when the parallelism changes. Mutable.

    Answers to Flink's `PartitionableListState`. Invariant: elements are encoded when they are added and decoded when
    they are read, so no caller can change the state through an element, and a snapshot only copies references (S23).
    """

    _items: list[bytes]

    def __len__(self) -> int:
        return len(self._items)

    def get(self) -> list[T]:
        """All elements in order, as a new list (S4)."""
        decode = self.serializer.decode
        return [decode(item) for item in self._items]

    def add(self, value: T) -> None:
        """Append an element."""
        self._items.append(self._encoded(value))

    def add_all(self, values: Iterable[T]) -> None:
        """Append all elements, or none if one is refused (S4)."""
        self._items += self._all_encoded(values)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; if one is refused, nothing changes (S4)."""
        self._items = self._all_encoded(values)

    def clear(self) -> None:
        self._items = []

    def restore(self, restored: OperatorStatePartitions) -> None:
        """Take the items of a snapshot, migrated if necessary (S2)."""
        migrate = self._migration(restored)
        self._items = [migrate(item) for item in restored.items if isinstance(item, bytes)]

    def partitions(self) -> OperatorStatePartitions:
        """The content for a snapshot (S23)."""
        return OperatorStatePartitions(
            mode=self.mode, schema=self.serializer.schema, items=tuple(self._items)
        )

    def _all_encoded(self, values: Iterable[T] | None) -> list[bytes]:
        if values is None:
            raise self.error("no list of elements was given; give an empty one to clear the state")
        return [self._encoded(value) for value in values]

    def _encoded(self, value: T) -> bytes:
        if value is None:
            raise self.error("None is no element of a list state; leave it out (S4)")
        return self._encoded_with(self.serializer, value)


K = TypeVar("K")
V = TypeVar("V")


class BroadcastState(_NamedState, Generic[K, V]):
    """Operator state that is the same in every subtask: a map, written by elements that are broadcast. Mutable.

    This object is one subtask's copy, for the side of the operator that receives the broadcast.

    Answers to Flink's `BroadcastState`, `ReadOnlyBroadcastState` and `HeapBroadcastState`. Invariant: only the
    broadcast side, which every subtask receives in full, can write; the keyed side gets a read-only view, or the
    copies would diverge (S24). Values are encoded when they are put and decoded when they are read, so changing what
    was read changes a copy.

    Each subtask checkpoints its own copy and does not know the others. The copies are equal as long as all subtasks
    apply the same updates, and these depend neither on the order of elements nor on anything local. Nothing checks
    that at run time; a property-based test does.

    Difference from Flink: entries keep the order in which their keys were first put; Flink promises no order (S24).
    """

    key_serializer: TypeSerializer
    _values: dict[bytes, bytes]
    """By encoded key, so that 1, 1.0 and True differ, and a list can be a key."""

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """A copy of the value of `key`, or None."""
        value = self._values.get(self._encoded_with(self.key_serializer, key))
        return None if value is None else self.serializer.decode(value)

    def contains(self, key: K) -> bool:
        return self._encoded_with(self.key_serializer, key) in self._values

    def entries(self) -> list[tuple[K, V]]:
        """All keys and values at the time of the call, as a new list."""
        key_of, value_of = self.key_serializer.decode, self.serializer.decode
        return [(key_of(key), value_of(value)) for key, value in self._values.items()]

    immutable_entries = entries
    """Flink's name for the reader's method; changes to the result affect only copies."""

    def iterator(self) -> Iterator[tuple[K, V]]:
        return iter(self.entries())

    def put(self, key: K, value: V) -> None:
        self.put_all([(key, value)])

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Put all entries, or none if one is refused."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        self._values.update(
            [
                (self._encoded_with(self.key_serializer, k), self._encoded_with(self.serializer, v))
                for k, v in pairs
            ]
        )

    def remove(self, key: K) -> None:
        """Without effect if there is no such key."""
        self._values.pop(self._encoded_with(self.key_serializer, key), None)

    def clear(self) -> None:
        self._values = {}

    def restore(self, restored: OperatorStatePartitions) -> None:
        """Take the entries of a snapshot, migrated if necessary (S2); keys are never migrated, as in Flink."""
        migrate = self._migration(restored)
        keys, old_keys = self.key_serializer.schema, restored.key_schema
        if old_keys is None or compatibility(new=keys, old=old_keys) is not Compatibility.AS_IS:
            raise self._changed(f"its keys were {old_keys} and cannot be read as {keys}")
        self._values = {item[0]: migrate(item[1]) for item in restored.items if isinstance(item, tuple)}

    def read_only(self) -> ReadOnlyBroadcastState[K, V]:
        """The view for the keyed side."""
        return ReadOnlyBroadcastState(self)

    def partitions(self) -> OperatorStatePartitions:
        """The content for a snapshot (S23)."""
        return OperatorStatePartitions(
            mode=self.mode,
            schema=self.serializer.schema,
            key_schema=self.key_serializer.schema,
            items=tuple(self._values.items()),
        )


class ReadOnlyBroadcastState(Generic[K, V]):
    """A live view without methods that write (S24)."""

    def __init__(self, state: BroadcastState[K, V]) -> None:
        self.get = state.get
        self.contains = state.contains
        self.immutable_entries = state.immutable_entries


_State = PartitionableListState[Any] | BroadcastState[Any, Any]
S = TypeVar("S", bound=_State)


class OperatorStateBackend:
    """The operator state of one subtask: lists and broadcast maps by name, saved and restored together. Mutable.

    Answers to Flink's `OperatorStateBackend` and `DefaultOperatorStateBackend`. Invariant: under one name there is one
    object with one mode (S18). A restored state that no operator requests is in the next snapshot, unchanged.
    """

    def __init__(self, *, operator: str) -> None:
        self._operator = operator
        self._states: dict[str, _State] = {}
        self._restored: dict[str, OperatorStatePartitions] = {}

    @property
    def registered_state_names(self) -> list[str]:
        """Names of the list states that were requested or restored."""
        return [name for name, mode in self._modes().items() if mode is not Mode.BROADCAST]

    @property
    def registered_broadcast_state_names(self) -> list[str]:
        """Names of the broadcast states that were requested or restored."""
        return [name for name, mode in self._modes().items() if mode is Mode.BROADCAST]

    def get_list_state(self, descriptor: ListStateDescriptor) -> PartitionableListState[object]:
        """A list that is split among the subtasks when the parallelism changes (S20)."""
        return self._list_state(descriptor, Mode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> PartitionableListState[object]:
        """A list whose elements every subtask gets at a restore; it must drop those of others (S25)."""
        return self._list_state(descriptor, Mode.UNION)

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that is the same in all subtasks; pass the keyed side its `read_only()` view (S24)."""
        self._refuse_other_kind(descriptor, MapStateDescriptor)
        wanted: BroadcastState[Any, Any] = BroadcastState(self._operator, descriptor, Mode.BROADCAST)
        return self._registered(wanted)

    def snapshot(
        self,
        checkpoint_id: int,  # noqa: ARG002  # part of the backends' protocol
        timestamp: int,  # noqa: ARG002
        options: CheckpointOptions,  # noqa: ARG002
    ) -> SnapshotFuture[OperatorStateHandle | None]:
        """Copy the current content; the result is None if there is no state (S18, S23, FLINK-5985)."""
        copies = {**self._restored, **{name: state.partitions() for name, state in self._states.items()}}
        if not copies:
            return SnapshotFuture.of(None)
        return SnapshotFuture.calling(lambda: OperatorStateHandle(states=copies))

    def restore(self, handle: OperatorStateHandle | None) -> None:
        """Start with the content of `handle`; called before states are requested."""
        if self._states:
            asked = ", ".join(map(repr, self._states))
            raise StateError(f"states were requested before the restore: {asked}", operator=self._operator)
        self._restored = dict(handle.states) if handle else {}

    def dispose(self) -> None:
        self._states.clear()
        self._restored.clear()

    def _modes(self) -> dict[str, Mode]:
        return {name: one.mode for name, one in {**self._restored, **self._states}.items()}

    def _list_state(self, descriptor: ListStateDescriptor, mode: Mode) -> PartitionableListState[object]:
        self._refuse_other_kind(descriptor, ListStateDescriptor)
        wanted: PartitionableListState[object] = PartitionableListState(self._operator, descriptor, mode)
        return self._registered(wanted)

    def _registered(self, wanted: S) -> S:
        """The state with the name of `wanted`: at the first request `wanted`, with its restored content."""
        name, modes = wanted.name, self._modes()
        if modes.get(name, wanted.mode) is not wanted.mode:
            raise wanted.error(
                f"it is {modes[name].value!r} state and cannot be {wanted.mode.value!r} state too; ask for it as"
                " before, or take another name (S18)"
            )
        state = self._states.get(name)
        if state is None:
            if name in self._restored:
                wanted.restore(self._restored[name])
            self._states[name] = state = wanted
        state.refuse_other_types(wanted)
        return state  # type: ignore[return-value]  # one mode, one class

    def _refuse_other_kind(
        self, descriptor: object, kind: type[ListStateDescriptor | MapStateDescriptor]
    ) -> None:
        if not isinstance(descriptor, kind):
            raise StateError(
                f"a {type(descriptor).__name__} cannot describe this kind of state; give a {kind.__name__}",
                operator=self._operator,
                state=getattr(descriptor, "name", None),
            )
