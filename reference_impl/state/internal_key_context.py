"""Which key the state is about at present.

Answers to Flink's `InternalKeyContext`. Invariant: the current key lies in the key groups of this subtask; a key of
another subtask is refused when it is selected, before any state is touched (S1, S8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from reference_impl.errors import StateError
from reference_impl.state.key_groups import KeyGroupRange, assign_to_key_group, check_parallelism
from reference_impl.state.key_hash import HashableKey
from reference_impl.state.key_identity import SPREAD_BITS, Identity, identity_of, spread_of
from reference_impl.state.schema import ANY
from reference_impl.state.serializer import UNENCODABLE, serializer_for

__all__ = ["InternalKeyContext"]

_REMEMBERED_KEYS = 1 << 17
"""Of so many keys the place is known without hashing them again: some 20 MB at most."""


class InternalKeyContext:
    """The current key of one operator, and where it lies. Mutable: each record selects its own."""

    def __init__(
        self, *, operator: str, key_group_range: KeyGroupRange, max_parallelism: int, key_type: Any = Any
    ) -> None:
        check_parallelism(max_parallelism, operator=operator)
        if not len(key_group_range) or key_group_range.end >= max_parallelism:
            raise ValueError(
                f"operator {operator!r}: the key groups {key_group_range} are not among those"
                f" of maximum parallelism {max_parallelism}, which are 0 to {max_parallelism - 1}"
            )
        self.operator = operator
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self.key_serializer = serializer_for(key_type)
        self.current_key: HashableKey = None
        """None: no key is selected."""
        self.identity: Identity = b""
        """Of the current key."""
        self.position: int | None = None
        """The current key's key group, counted from the first of ours, followed by its spread; None without a key."""
        self.on_key_selected: list[Callable[[], None]] = []
        """Called after each selection of a key, as a clean-up that goes by records wants it (S16)."""
        self._placed = lru_cache(maxsize=_REMEMBERED_KEYS)(self._place)
        """Only of ints and strings, which differ by more than type."""

    def set_current_key(self, key: HashableKey) -> None:
        """Let the state be about `key` from now on; StateError if it is none, or another subtask's."""
        kind = type(key)
        self.identity, self.position = (self._placed if kind is int or kind is str else self._place)(key)
        self.current_key = key
        if self.on_key_selected:
            for selected in self.on_key_selected:
                selected()

    def select_none(self) -> None:
        """From now on there is no current key, so an access is refused (S1)."""
        self.current_key, self.identity, self.position = None, b"", None

    @contextmanager
    def selection_kept(self) -> Iterator[None]:
        """Select the present key again at the end, or none if none is."""
        before = self.current_key, self.identity, self.position
        try:
            yield
        finally:
            self.current_key, self.identity, self.position = before

    def place(self, key: HashableKey) -> tuple[Identity, int]:
        """The identity and the position of a key of ours."""
        kind = type(key)
        return self._placed(key) if kind is int or kind is str else self._place(key)

    @property
    def current_key_group(self) -> int:
        """The key group of the current key."""
        if self.position is None:
            raise self.no_key()
        return self.key_group_range.start + (self.position >> SPREAD_BITS)

    def no_key(self, state: str | None = None) -> StateError:
        """What is said to whoever wants state without having selected a key."""
        return StateError(
            "no key is set, so there is no state to speak of; this method belongs into a keyed context,"
            " behind set_current_key(key)",
            operator=self.operator,
            state=state,
        )

    def position_of(self, identity: Identity, key_group: int) -> int:
        """Where a key lies, in a state's map: the order of positions is that of key groups first."""
        return (key_group - self.key_group_range.start) << SPREAD_BITS | spread_of(identity)

    def _place(self, key: HashableKey) -> tuple[Identity, int]:
        if key is None:
            raise StateError("a key is never None; let the key selector give one", operator=self.operator)
        try:
            key_group = assign_to_key_group(key, self.max_parallelism)
            identity = identity_of(key)
            position = self.position_of(identity, key_group)
            if self.key_serializer.schema != ANY:
                self.key_serializer.encode(key)
        except UNENCODABLE as error:
            raise StateError(f"{key!r} cannot be a key: {error}", operator=self.operator) from None
        if key_group not in self.key_group_range:
            raise StateError(
                f"key {key!r} is of key group {key_group}, and this subtask has {self.key_group_range};"
                " partition the stream by the same key and the same maximum parallelism",
                operator=self.operator,
            )
        return identity, position
