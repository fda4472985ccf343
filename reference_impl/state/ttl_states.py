"""The five kinds of keyed state whose values have a life, and the rules of stamping and reading that they share.

Answers to Flink's `AbstractTtlDecorator`, `AbstractTtlState`, `TtlValueState`, `TtlListState`, `TtlMapState`,
`TtlReducingState` and `TtlAggregatingState`. Invariant: a read of an expired value never stamps it anew; it takes it
away, whether or not it shows it once more (S12, S13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from reference_impl.errors import StateError, WrongState
from reference_impl.state.key_groups import Identity
from reference_impl.state.keyed_state import (
    AggregatingState,
    KeyedState,
    ListState,
    ReducingState,
    ValueState,
)
from reference_impl.state.map_state import MapEntries, MapState
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_descriptor import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.ttl_config import StateTtlConfig, StateVisibility, TtlTimeProvider, UpdateType
from reference_impl.state.ttl_value import TtlValue, last_access_of

__all__ = [
    "TtlAggregateFunction",
    "TtlAggregatingState",
    "TtlDecorator",
    "TtlKeyedState",
    "TtlListState",
    "TtlMapIterator",
    "TtlMapState",
    "TtlMapView",
    "TtlMergingState",
    "TtlReduceFunction",
    "TtlReducingState",
    "TtlValueState",
]


class TtlDecorator:
    """What all states with a time to live have in common: stamping, and what a read does.

    The rules of one state's configuration, in its subtask's time.

    Answers to Flink's `AbstractTtlDecorator`, as a collaborator of the states instead of their parent. Invariant: a
    read of an expired value never stamps it anew; it takes it away, whether or not it shows it once more (S12, S13).
    """

    def __init__(self, config: StateTtlConfig, time: TtlTimeProvider) -> None:
        self.updates_on_read = config.update_type is UpdateType.ON_READ_AND_WRITE
        self.returns_expired = config.state_visibility is StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
        self._time_to_live_ms = config.time_to_live_ms
        self._time = time

    def stamped(self, value: Any) -> TtlValue:
        """The value as written now."""
        return TtlValue(value, self._time.current_timestamp)

    def has_expired(self, last_access_ms: int) -> bool:
        """Whether who reads it is to find it expired (S11)."""
        return self._time.has_passed(last_access_ms, self._time_to_live_ms)

    def shown(self, value: TtlValue | None) -> TtlValue | None:
        """The value if a reader may see it."""
        if value is None or (not self.returns_expired and self.has_expired(value.last_access_ms)):
            return None
        return value

    def read(
        self, value: TtlValue | None, *, update: Callable[[TtlValue], None], clear: Callable[[], None]
    ) -> TtlValue | None:
        """The value if the reader may see it; stamped anew or taken away first, as its age and the rules want it."""
        if value is None:
            return None
        if self.has_expired(value.last_access_ms):
            clear()
            return value if self.returns_expired else None
        if self.updates_on_read:
            update(self.stamped(value.value))
        return value


D = TypeVar("D")
S = TypeVar("S", bound=KeyedState)
M = TypeVar("M", bound=ListState | ReducingState | AggregatingState)


class TtlKeyedState(Generic[D, S]):
    """What the states with a time to live have in common: each is around a state of values with stamps.

    Around `inner`; `accessed` is called before each access. Mutable.

    Answers to Flink's `AbstractTtlState`. Invariant: what is not about values, such as the namespace, is the inner
    state's own business.
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
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._inner.current_namespace


class TtlMergingState(TtlKeyedState[D, M]):
    """One whose namespaces can be merged (S7). Mutable."""

    def __init__(self, descriptor: D, inner: M, ttl: TtlDecorator, accessed: Callable[[], None]) -> None:
        super().__init__(descriptor, inner, ttl, accessed)
        self.merge_namespaces = inner.merge_namespaces


class TtlValueState(TtlKeyedState[ValueStateDescriptor, ValueState]):
    """One value of the current key, for a while.

    Around a `ValueState` of values with stamps. Mutable.

    Answers to Flink's `TtlValueState`. Invariant: an expired value is there for one read at most (S13), and a default
    is never there (S15).
    """

    def value(self) -> Any:
        """The value; None if there is none, or none any more."""
        self._accessed()
        found = self._ttl.read(self._inner.value(), update=self._inner.update, clear=self._inner.clear)
        return None if found is None else found.value

    def update(self, value: Any) -> None:
        """Replace the value, whose life begins; None clears (S3)."""
        self._accessed()
        self._inner.update(None if value is None else self._ttl.stamped(value))


class TtlListState(TtlMergingState[ListStateDescriptor, ListState]):
    """Elements of the current key, each for a while.

    Around a `ListState` of elements with stamps. Mutable.

    Answers to Flink's `TtlListState`. Invariant: each element has its own stamp. A read leaves the expired out and the
    list as it is, for rewriting it each time is dear (FLINK-30088); only when none lives is the entry taken away, key
    and all (S14, FLINK-21413).

    Deviation: a read goes through the whole list at once, where Flink's goes as far as its caller iterates. What reads
    refresh, they write: that leaves out the expired for good.
    """

    def get(self) -> list[Any]:
        """Copies of the elements that may be shown; an empty list if there are none, never None."""
        self._accessed()
        elements: list[TtlValue] = self._inner.get()
        living = [element for element in elements if not self._ttl.has_expired(element.last_access_ms)]
        if elements and not living:
            self._inner.clear()
        elif living and self._ttl.updates_on_read:
            self._inner.update([self._ttl.stamped(element.value) for element in living])
        return [element.value for element in (elements if self._ttl.returns_expired else living)]

    def add(self, element: Any) -> None:
        """Append an element, which cannot be None."""
        self.add_all([element])

    def add_all(self, elements: Iterable[Any]) -> None:
        """Append elements, all or none; without any, nothing changes."""
        self._accessed()
        self._inner.add_all(self._all_stamped(elements))

    def update(self, elements: Iterable[Any]) -> None:
        """Replace the elements; without any, there are none."""
        self._accessed()
        self._inner.update(self._all_stamped(elements))

    def _all_stamped(self, elements: Iterable[Any] | None) -> list[TtlValue]:
        given = None if elements is None else list(elements)
        if given is None or any(element is None for element in given):
            what = "None is no list of elements" if given is None else "None cannot be an element of a list"
            raise StateError(
                f"{what}; give what there is", operator=self.table.context.operator, state=self.table.name
            )
        return [self._ttl.stamped(element) for element in given]


_Project = Callable[[Identity, Any], Any]
"""What an iterator gives of an entry: its key, its value or both."""


class TtlMapState(TtlKeyedState[MapStateDescriptor, MapState]):
    """Values of the current key by keys of the user's, each for a while.

    Around a `MapState` of values with stamps, which `serializer` reads and writes. Mutable.

    Answers to Flink's `TtlMapState`. Invariant: each entry has its own stamp, and whoever meets an expired one, by its
    key or in a view, takes it away; with the last entry goes all that is stored under the key (S14, FLINK-21413). A
    view goes on speaking of the key and the namespace for which it was asked for.

    Deviation: `remove` of an iterator is about the entry given last also when `has_next` has been asked since, as in a
    map without a time to live (FLINK-10267); Flink's refuses. `is_empty` and the length of a view count without
    touching.
    """

    def __init__(
        self,
        descriptor: MapStateDescriptor,
        inner: MapState,
        ttl: TtlDecorator,
        accessed: Callable[[], None],
        *,
        serializer: TypeSerializer,
    ) -> None:
        super().__init__(descriptor, inner, ttl, accessed)
        self._serializer = serializer

    def get(self, key: Any) -> Any:
        """A copy of the value; None if there is none, or none any more, or if it is None."""
        found = self._read(key)
        return None if found is None else found.value

    def contains(self, key: Any) -> bool:
        """Whether there is an entry that may be shown, be its value None; to ask is to read."""
        return self._read(key) is not None

    def is_empty(self) -> bool:
        """Whether there is no entry that may be shown."""
        self._accessed()
        return not len(self._view(lambda key, _: key))

    def put(self, key: Any, value: Any) -> None:
        """Enter a value, whose life begins."""
        self._accessed()
        self._inner.put(key, self._ttl.stamped(value))

    def put_all(self, values: Mapping[Any, Any]) -> None:
        """Enter values, all or none."""
        self._accessed()
        stamped = self._ttl.stamped
        self._inner.put_all(values and {key: stamped(value) for key, value in values.items()})

    def remove(self, key: Any) -> None:
        """Let there be no such entry."""
        self._accessed()
        self._inner.remove(key)

    def entries(self) -> TtlMapView:
        """Pairs of key and value, in the order in which the keys were entered."""
        self._accessed()
        return self._view(lambda key, value: (self._inner.key_of(key), value))

    def keys(self) -> TtlMapView:
        """The keys, in the order in which they were entered."""
        self._accessed()
        return self._view(lambda key, _: self._inner.key_of(key))

    def values(self) -> TtlMapView:
        """The values, in the order in which their keys were entered."""
        self._accessed()
        return self._view(lambda _, value: value)

    def iterator(self) -> TtlMapIterator:
        """Goes once over the entries, and can remove the one it has just given."""
        return iter(self.entries())

    def _read(self, key: Any) -> TtlValue | None:
        self._accessed()
        inner = self._inner
        return self._ttl.read(
            inner.get(key), update=partial(inner.put, key), clear=partial(inner.remove, key)
        )

    def _view(self, project: _Project) -> TtlMapView:
        return TtlMapView(self._inner.entries_here(), self._ttl, self._serializer, project)


class TtlMapView:
    """What a map shows at the time when somebody looks: each iteration begins anew, each length is counted."""

    def __init__(
        self, entries: MapEntries, ttl: TtlDecorator, serializer: TypeSerializer, project: _Project
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

    def __iter__(self) -> TtlMapIterator:
        return TtlMapIterator(self._entries, self._ttl, self._serializer, self._project)


class TtlMapIterator:
    """Goes once over what a map shows; each entry it comes by is read. Mutable."""

    def __init__(
        self, entries: MapEntries, ttl: TtlDecorator, serializer: TypeSerializer, project: _Project
    ) -> None:
        self._entries = entries
        self._ttl = ttl
        self._serializer = serializer
        self._project = project
        self._ahead = iter(tuple(entries.items))
        self._next: tuple[Identity, TtlValue] | None = None
        self._last: Identity | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.has_next():
            raise StopIteration
        assert self._next is not None
        (self._last, found), self._next = self._next, None
        return self._project(self._last, found.value)

    def has_next(self) -> bool:
        """Whether there is one more; to ask reads it."""
        while self._next is None:
            identity = next(self._ahead, None)
            if identity is None:
                return False
            found = self._read(identity)
            self._next = None if found is None else (identity, found)
        return True

    def remove(self) -> None:
        """Remove the entry given last from the state; WrongState before the first, and a second time."""
        if self._last is None:
            raise WrongState("there is no entry to remove: call next() first, and remove() once for each")
        self._entries.remove(self._last)
        self._last = None

    def _read(self, identity: Identity) -> TtlValue | None:
        data = self._entries.items.get(identity)
        return self._ttl.read(
            None if data is None else self._serializer.decode(data),
            update=lambda value: self._entries.replace(identity, self._serializer.encode(value)),
            clear=lambda: self._entries.remove(identity),
        )


class TtlReduceFunction:
    """`reduce` for values with stamps; what it makes is stamped anew."""

    def __init__(self, reduce: ReduceFunction, ttl: TtlDecorator) -> None:
        self._reduce = reduce
        self._ttl = ttl

    def __call__(self, old: TtlValue, new: TtlValue) -> TtlValue:
        shown = [one.value for one in (self._ttl.shown(old), self._ttl.shown(new)) if one is not None]
        match shown:
            case [first, second]:
                return self._ttl.stamped(self._reduce(first, second))
            case [only]:
                return self._ttl.stamped(only)
        return old  # both have expired, as when namespaces are merged; so has this then


class TtlReducingState(TtlMergingState[ReducingStateDescriptor, ReducingState]):
    """One value of the current key, to which each value added is reduced, for a while.

    Around a `ReducingState` of values with stamps. Mutable.

    Answers to Flink's `TtlReducingState` and `TtlReduceFunction`. Invariant: what has expired and is not shown takes no
    part: the next value added is a first one again (S15).
    """

    def get(self) -> Any:
        """The value; None if nothing was added, or nothing that still lives."""
        self._accessed()
        inner = self._inner
        found = self._ttl.read(inner.get_internal(), update=inner.update_internal, clear=inner.clear)
        return None if found is None else found.value

    def add(self, value: Any) -> None:
        """Reduce what still lives and `value` to one, whose life begins; None clears, as in Flink."""
        self._accessed()
        self._inner.add(None if value is None else self._ttl.stamped(value))


class TtlAggregateFunction:
    """`aggregate` for accumulators with stamps; what it makes is stamped anew."""

    def __init__(self, aggregate: AggregateFunction, ttl: TtlDecorator) -> None:
        self._aggregate = aggregate
        self._ttl = ttl

    def create_accumulator(self) -> TtlValue:
        """The accumulator of nothing."""
        return self._ttl.stamped(self._aggregate.create_accumulator())

    def add(self, value: Any, accumulator: TtlValue) -> TtlValue:
        """The accumulator with `value` in it, or a new one if it has expired."""
        shown = self._ttl.shown(accumulator)
        into = self._aggregate.create_accumulator() if shown is None else shown.value
        return self._ttl.stamped(self._aggregate.add(value, into))

    def get_result(self, accumulator: TtlValue) -> Any:
        """What it comes to, of whatever age it is."""
        return self._aggregate.get_result(accumulator.value)

    def merge(self, a: TtlValue, b: TtlValue) -> TtlValue:
        """One of those that live."""
        shown = [one.value for one in (self._ttl.shown(a), self._ttl.shown(b)) if one is not None]
        match shown:
            case [first, second]:
                return self._ttl.stamped(self._aggregate.merge(first, second))
            case [only]:
                return self._ttl.stamped(only)
        return a  # both have expired; so has this then


class TtlAggregatingState(TtlMergingState[AggregatingStateDescriptor, AggregatingState]):
    """An accumulator of the current key, into which values are gathered, for a while.

    Around an `AggregatingState` of accumulators with stamps. Mutable.

    Answers to Flink's `TtlAggregatingState` and `TtlAggregateFunction`. Invariant: what has expired and is not shown
    takes no part: the next value added goes into a new accumulator (S15).
    """

    def get(self) -> Any:
        """What the accumulator comes to; None if nothing was added, or nothing that still lives."""
        self._accessed()
        inner = self._inner
        found = self._ttl.read(inner.get_internal(), update=inner.update_internal, clear=inner.clear)
        return None if found is None else self.descriptor.aggregate.get_result(found.value)

    def add(self, value: Any) -> None:
        """Gather `value` in what still lives, whose life begins anew; None clears, as in Flink."""
        self._accessed()
        self._inner.add(value)
