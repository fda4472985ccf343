"""What an operator asks for when it wants a state: its kind, its name, the types in it.

Answers to Flink's `StateDescriptor` family. Invariant: a state is known by its name alone; the descriptor that asks
for a name again must mean the same kind of state and types that can be read as the new ones (S2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from reference_impl.state.serializer import TypeSerializer, serializer_for
from reference_impl.state.ttl_config import StateTtlConfig

__all__ = [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
]

ReduceFunction = Callable[[Any, Any], Any]
"""Makes one value of the old one and the one added; changes neither."""


class AggregateFunction(Protocol):
    """Gathers values in an accumulator of another type."""

    def create_accumulator(self) -> Any:
        """The accumulator of nothing."""

    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with `value` in it; it may be the one given, changed."""

    def get_result(self, accumulator: Any) -> Any:
        """What it comes to."""

    def merge(self, a: Any, b: Any) -> Any:
        """One accumulator of two; either may be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStateDescriptor:
    """One value; `default` for who has none yet, a new copy for each read (S3)."""

    kind: ClassVar[str] = "value"
    name: str
    value_type: Any = Any
    default: Any = None
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        """Of the value."""
        return serializer_for(self.value_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListStateDescriptor:
    """Elements in the order in which they were added."""

    kind: ClassVar[str] = "list"
    name: str
    element_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        """Of an element."""
        return serializer_for(self.element_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducingStateDescriptor:
    """One value, to which each value added is reduced."""

    kind: ClassVar[str] = "reducing"
    name: str
    reduce: ReduceFunction
    value_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        """Of the value."""
        return serializer_for(self.value_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatingStateDescriptor:
    """An accumulator, into which values are gathered."""

    kind: ClassVar[str] = "aggregating"
    name: str
    aggregate: AggregateFunction
    accumulator_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        """Of the accumulator."""
        return serializer_for(self.accumulator_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStateDescriptor:
    """Values by keys of the user's, within the current key."""

    kind: ClassVar[str] = "map"
    name: str
    key_type: Any = Any
    value_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def key_serializer(self) -> TypeSerializer:
        """Of a key of the map."""
        return serializer_for(self.key_type)

    @property
    def serializer(self) -> TypeSerializer:
        """Of a value of the map."""
        return serializer_for(self.value_type)


StateDescriptor = (
    ValueStateDescriptor
    | ListStateDescriptor
    | ReducingStateDescriptor
    | AggregatingStateDescriptor
    | MapStateDescriptor
)
"""Whatever can be asked for."""
