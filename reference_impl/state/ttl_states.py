"""The five kinds of keyed state whose values expire, and their common rules for timestamps and reads.

Answers to Flink's `AbstractTtlDecorator`, `AbstractTtlState`, `TtlValueState`, `TtlListState`, `TtlMapState`,
`TtlReducingState` and `TtlAggregatingState`. Invariant: a read never refreshes an expired value; it removes the value,
whether or not it still returns it (S12, S13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from reference_impl.errors import StateError
from reference_impl.state.key_groups import Identity
from reference_impl.state.keyed_state import (
    AggregatingState,
    KeyedState,
    ListState,
    MapEntries,
    MapIterator,
    MapState,
    Project,
    ReducingState,
    ValueState,
)
from reference_impl.state.serializer import TtlValue, TypeSerializer, last_access_of
from reference_impl.state.state_descriptor import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    StateVisibility,
    TtlTimeProvider,
    UpdateType,
    ValueStateDescriptor,
)


class TtlDecorator:
    """The rules of one state's TTL configuration: timestamps, and what a read does.

    Answers to Flink's `AbstractTtlDecorator`; the states use it instead of inheriting from it. Invariant: a read never
    refreshes an expired value; it removes the value, whether or not it still returns it (S12, S13).
    """

    def __init__(self, config: StateTtlConfig, time: TtlTimeProvider) -> None:
        self.updates_on_read = config.update_type is UpdateType.ON_READ_AND_WRITE
        self.returns_expired = config.state_visibility is StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
        self._time_to_live_ms = config.time_to_live_ms
        self._time = time

    def stamped(self, value: object) -> TtlValue:
        """The value with the current time."""
        return TtlValue(value, self._time.current_timestamp)

    def has_expired(self, last_access_ms: int) -> bool:
        """Whether a value with that timestamp has expired for a reader (S11)."""
        return self._time.has_passed(last_access_ms, self._time_to_live_ms)

    def shown(self, value: TtlValue | None) -> TtlValue | None:
        """The value if a reader may see it, else None."""
        if value is None or (not self.returns_expired and self.has_expired(value.last_access_ms)):
            return None
        return value

    def read(
        self, value: TtlValue | None, *, update: Callable[[TtlValue], None], clear: Callable[[], None]
    ) -> TtlValue | None:
        """The value if a reader may see it, else None; first refresh it, or remove it if it has expired."""
        if value is None:
            return None
        if self.has_expired(value.last_access_ms):
            clear()
            return value if self.returns_expired else None
        if self.updates_on_read:
            update(self.stamped(value.value))
        return value

    def merged(self, old: TtlValue, new: TtlValue, merge: ReduceFunction) -> TtlValue:
        """What may be seen of the two, merged, with the current time."""
        match [one.value for one in (self.shown(old), self.shown(new)) if one is not None]:
            case [first, second]:
                return self.stamped(merge(first, second))
            case [only]:
                return self.stamped(only)
        return old  # both have expired, as can happen when namespaces are merged; so the result has too


D = TypeVar("D")
A = TypeVar("A")
V = TypeVar("V")
K = TypeVar("K")
P = TypeVar("P")
S = TypeVar("S", bound=KeyedState)
M = TypeVar("M", bound=ListState | ReducingState | AggregatingState)


class TtlKeyedState(Generic[D, S]):
    """Common part of the states with a time to live; wraps a state of timestamped values. Mutable.

    `accessed` is called before each access.

    Answers to Flink's `AbstractTtlState`. Invariant: the inner state handles everything but the values, such as the
    namespace.
    """

    def __init__(self, descriptor: D, inner: S, ttl: TtlDecorator, accessed: Callable[[], None]) -> None:
        self.descriptor = descriptor
        self.table = inner.table
        self.clear = inner.clear
        self.set_current_namespace = inner.set_current_namespace
        self._inner = inner
        self._ttl = ttl
        self._accessed = accessed

    @property
    def current_namespace(self) -> object:
        """The namespace of the next access."""
        return self._inner.current_namespace


class TtlMergingState(TtlKeyedState[D, M]):
    """A state whose namespaces can be merged (S7). Mutable."""

    @property
    def merge_namespaces(self) -> Callable[[object, Iterable[object]], None]:
        """Merge the sources, given second, into the target, and remove them (S7)."""
        return self._inner.merge_namespaces


class TtlValueState(TtlKeyedState[ValueStateDescriptor, ValueState]):
    """A `ValueState` whose value expires. Mutable.

    Answers to Flink's `TtlValueState`. Invariant: an expired value is returned at most once (S13); there is no default
    value (S15).
    """

    def value(self) -> Any:
        """The value; None if there is none or it has expired."""
        self._accessed()
        found = self._ttl.read(self._inner.value(), update=self._inner.update, clear=self._inner.clear)
        return None if found is None else found.value

    def update(self, value: object) -> None:
        """Replace the value and its timestamp; None clears (S3)."""
        self._accessed()
        self._inner.update(None if value is None else self._ttl.stamped(value))


class TtlListState(TtlMergingState[ListStateDescriptor, ListState]):
    """A `ListState` whose elements expire, each with its own timestamp. Mutable.

    Answers to Flink's `TtlListState`. Invariant: a read leaves out expired elements but does not rewrite the list,
    which would be expensive (FLINK-30088); when all have expired, it removes the entry (S14, FLINK-21413).

    Difference from Flink: a read visits the whole list at once, not only as far as the caller iterates. A read that
    refreshes timestamps writes the list without the expired elements.
    """

    def get(self) -> list[Any]:
        """Copies of the elements that may be seen; an empty list if there are none."""
        self._accessed()
        elements: list[TtlValue] = self._inner.get()
        living = [element for element in elements if not self._ttl.has_expired(element.last_access_ms)]
        if elements and not living:
            self._inner.clear()
        elif living and self._ttl.updates_on_read:
            self._inner.update([self._ttl.stamped(element.value) for element in living])
        return [element.value for element in (elements if self._ttl.returns_expired else living)]

    def add(self, element: object) -> None:
        """Append an element, which cannot be None."""
        self.add_all([element])

    def add_all(self, elements: Iterable[object]) -> None:
        """Append all elements, or none if one is refused."""
        self._accessed()
        self._inner.add_all(self._all_stamped(elements))

    def update(self, elements: Iterable[object]) -> None:
        """Replace all elements."""
        self._accessed()
        self._inner.update(self._all_stamped(elements))

    def _all_stamped(self, elements: Iterable[object] | None) -> list[TtlValue]:
        given = None if elements is None else list(elements)
        if given is None or any(element is None for element in given):
            what = "None is no list of elements" if given is None else "None cannot be an element of a list"
            raise StateError(
                f"{what}; give a list without None",
                operator=self.table.context.operator,
                state=self.table.name,
            )
        return [self._ttl.stamped(element) for element in given]


class TtlMapState(TtlKeyedState[MapStateDescriptor, MapState]):
    """A `MapState` whose entries expire, each with its own timestamp. Mutable.

    Answers to Flink's `TtlMapState`. Invariant: each access that finds an expired entry, by its key or in a view,
    removes it; removing the last one removes the whole map (S14, FLINK-21413). A view keeps the key and namespace with
    which it was created.

    Differences from Flink: an iterator's `remove` concerns the entry returned last even if `has_next` was called
    since, as in a map without TTL (FLINK-10267); Flink refuses. `is_empty` and the length of a view count as no read.
    An expired entry that is still stored leaves the map empty (S14); in Flink `isEmpty` then says no.
    """

    def get(self, key: object) -> Any:
        """A copy of the value; None if there is none, if it has expired, or if it is None."""
        found = self._read(key)
        return None if found is None else found.value

    def contains(self, key: object) -> bool:
        """Whether there is an entry that may be seen, even with the value None; counts as a read."""
        return self._read(key) is not None

    def is_empty(self) -> bool:
        """Whether there is no entry that may be seen."""
        self._accessed()
        return not len(self._view(lambda key, _: key))

    def put(self, key: object, value: object) -> None:
        self._accessed()
        self._inner.put(key, self._ttl.stamped(value))

    def put_all(self, values: Mapping[K, object]) -> None:
        """Put all entries, or none if one is refused."""
        self._accessed()
        stamped = self._ttl.stamped
        self._inner.put_all(values and {key: stamped(value) for key, value in values.items()})

    def remove(self, key: object) -> None:
        self._accessed()
        self._inner.remove(key)

    def entries(self) -> TtlMapView[tuple[object, object]]:
        """Pairs of key and value, in the order in which the keys were first put."""
        self._accessed()
        return self._view(lambda key, value: (self._inner.key_of(key), value))

    def keys(self) -> TtlMapView[object]:
        """The keys, in the order in which they were first put."""
        self._accessed()
        return self._view(lambda key, _: self._inner.key_of(key))

    def values(self) -> TtlMapView[object]:
        """The values, in the order in which their keys were first put."""
        self._accessed()
        return self._view(lambda _, value: value)

    def iterator(self) -> TtlMapIterator[tuple[object, object]]:
        """An iterator over the entries that can remove the one it returned last."""
        return iter(self.entries())

    def _read(self, key: object) -> TtlValue | None:
        self._accessed()
        inner = self._inner
        return self._ttl.read(
            inner.get(key), update=partial(inner.put, key), clear=partial(inner.remove, key)
        )

    def _view(self, project: Project[P]) -> TtlMapView[P]:
        return TtlMapView(self._inner.entries_here(), self._ttl, self._inner.serializer, project)


class TtlMapView(Generic[P]):
    """A live view of a map: each iteration starts anew, each length is counted anew."""

    def __init__(
        self, entries: MapEntries, ttl: TtlDecorator, serializer: TypeSerializer, project: Project[P]
    ) -> None:
        self._entries = entries
        self._ttl = ttl
        self._serializer = serializer
        self._project = project

    def __len__(self) -> int:
        stored = self._entries.items.values()
        if self._ttl.returns_expired:
            return len(stored)
        return sum(data is not None and not self._ttl.has_expired(last_access_of(data)) for data in stored)

    def __iter__(self) -> TtlMapIterator[P]:
        return TtlMapIterator(self._entries, self._ttl, self._serializer, self._project)


class TtlMapIterator(MapIterator[P]):
    """Iterates once over a map; each entry that it passes counts as read. Mutable."""

    def __init__(
        self, entries: MapEntries, ttl: TtlDecorator, serializer: TypeSerializer, project: Project[P]
    ) -> None:
        super().__init__(entries, project)
        self._ttl = ttl
        self._serializer = serializer
        self._found: TtlValue | None = None

    def has_next(self) -> bool:
        """Whether there is a further entry; reads that entry."""
        while self._next is None:
            identity = next(self._ahead, None)
            if identity is None:
                return False
            self._found = self._read(identity)
            if self._found is not None:
                self._next = identity
        return True

    def _value_of(self, _identity: Identity, /) -> object:
        assert self._found is not None
        return self._found.value

    def _read(self, identity: Identity) -> TtlValue | None:
        data = self._entries.items.get(identity)
        return self._ttl.read(
            None if data is None else self._serializer.decode(data),
            update=lambda value: self._entries.replace(identity, self._serializer.encode(value)),
            clear=lambda: self._entries.remove(identity),
        )


class TtlReduceFunction:
    """Applies `reduce` to timestamped values; the result gets the current time."""

    def __init__(self, reduce: ReduceFunction, ttl: TtlDecorator) -> None:
        self._reduce = reduce
        self._ttl = ttl

    def __call__(self, old: TtlValue, new: TtlValue) -> TtlValue:
        return self._ttl.merged(old, new, self._reduce)


class TtlReducingState(TtlMergingState[ReducingStateDescriptor, ReducingState]):
    """A `ReducingState` whose value expires. Mutable.

    Answers to Flink's `TtlReducingState` and `TtlReduceFunction`. Invariant: an expired value that may not be seen
    takes no part: the next value added counts as the first (S15).
    """

    def get(self) -> Any:
        """The value; None if there is none or it has expired."""
        self._accessed()
        inner = self._inner
        found = self._ttl.read(inner.get_internal(), update=inner.update_internal, clear=inner.clear)
        return None if found is None else found.value

    def add(self, value: object) -> None:
        """Combine the value with `value` and set the timestamp.

        None leaves the value and sets the timestamp, as in Flink; a state without TTL is cleared by it.
        """
        self._accessed()
        if value is not None:
            self._inner.add(self._ttl.stamped(value))
            return
        shown = self._ttl.shown(self._inner.get_internal())
        if shown is None:
            self._inner.clear()
        else:
            self._inner.update_internal(self._ttl.stamped(shown.value))


class TtlAggregateFunction:
    """Applies `aggregate` to timestamped accumulators; the result gets the current time."""

    def __init__(self, aggregate: AggregateFunction[V, A, object], ttl: TtlDecorator) -> None:
        self._aggregate: AggregateFunction[Any, Any, object] = aggregate
        self._ttl = ttl

    def create_accumulator(self) -> TtlValue:
        return self._ttl.stamped(self._aggregate.create_accumulator())

    def add(self, value: object, accumulator: TtlValue) -> TtlValue:
        """The accumulator with `value`; a new one if it has expired."""
        shown = self._ttl.shown(accumulator)
        into = self._aggregate.create_accumulator() if shown is None else shown.value
        return self._ttl.stamped(self._aggregate.add(value, into))

    def get_result(self, accumulator: TtlValue) -> object:
        """The result, even of an expired accumulator."""
        return self._aggregate.get_result(accumulator.value)

    def merge(self, a: TtlValue, b: TtlValue) -> TtlValue:
        """Merge those that have not expired."""
        # `merge` is looked up when it is needed: functions without it can be used otherwise.
        return self._ttl.merged(a, b, lambda one, other: self._aggregate.merge(one, other))  # noqa: PLW0108


class TtlAggregatingState(TtlMergingState[AggregatingStateDescriptor, AggregatingState]):
    """An `AggregatingState` whose accumulator expires. Mutable.

    Answers to Flink's `TtlAggregatingState` and `TtlAggregateFunction`. Invariant: an expired accumulator that may not
    be seen takes no part: the next value added starts a new one (S15).
    """

    def get(self) -> Any:
        """The result; None if there is no accumulator or it has expired."""
        self._accessed()
        inner = self._inner
        found = self._ttl.read(inner.get_internal(), update=inner.update_internal, clear=inner.clear)
        return None if found is None else self.descriptor.aggregate.get_result(found.value)

    def add(self, value: object) -> None:
        """Add `value` and set the timestamp; None clears, as in Flink."""
        self._accessed()
        self._inner.add(value)
