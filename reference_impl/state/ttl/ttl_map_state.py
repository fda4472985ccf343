"""Values of the current key by keys of the user's, each for a while.

Answers to Flink's `TtlMapState`. Invariant: each entry has its own stamp, and whoever meets an expired one, by its key
or in a view, takes it away; with the last entry goes all that is stored under the key (S14, FLINK-21413). A view goes
on speaking of the key and the namespace for which it was asked for.

Deviation: `remove` of an iterator is about the entry given last also when `has_next` has been asked since, as in a map
without a time to live (FLINK-10267); Flink's refuses. `is_empty` and the length of a view count without touching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from reference_impl.errors import WrongState
from reference_impl.state.key_identity import Identity
from reference_impl.state.map_state import MapEntries, MapState
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_descriptor import MapStateDescriptor
from reference_impl.state.ttl.ttl_decorator import TtlDecorator
from reference_impl.state.ttl.ttl_keyed_state import TtlKeyedState
from reference_impl.state.ttl_value import TtlValue, last_access_of

__all__ = ["TtlMapIterator", "TtlMapState", "TtlMapView"]

_Project = Callable[[Identity, Any], Any]
"""What an iterator gives of an entry: its key, its value or both."""


class TtlMapState(TtlKeyedState[MapStateDescriptor, MapState]):
    """Around a `MapState` of values with stamps, which `serializer` reads and writes. Mutable."""

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
