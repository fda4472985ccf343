"""Describes a state that an operator requests: its kind, name and types.

Answers to Flink's `StateDescriptor` family. Invariant: a state is identified by its name alone; a later descriptor
with that name must have the same kind, and types that can read the old values (S2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from reference_impl.state.serializer import TypeSerializer, serializer_for
from reference_impl.state.ttl_config import StateTtlConfig

ReduceFunction = Callable[[Any, Any], Any]
"""Combines the old value and an added one, without changing either."""


class AggregateFunction(Protocol):
    """Collects values in an accumulator of another type."""

    def create_accumulator(self) -> Any:
        """An empty accumulator."""

    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with `value` added; may change and return its argument."""

    def get_result(self, accumulator: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any:
        """One accumulator from two; may change either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStateDescriptor:
    """One value per key; reads without a value return a copy of `default` (S3)."""

    kind: ClassVar[str] = "value"
    name: str
    value_type: Any = Any
    default: Any = None
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
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
        return serializer_for(self.element_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducingStateDescriptor:
    """One value per key, combined with each value that is added."""

    kind: ClassVar[str] = "reducing"
    name: str
    reduce: ReduceFunction
    value_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.value_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatingStateDescriptor:
    """One accumulator per key, to which values are added."""

    kind: ClassVar[str] = "aggregating"
    name: str
    aggregate: AggregateFunction
    accumulator_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.accumulator_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStateDescriptor:
    """A map per key."""

    kind: ClassVar[str] = "map"
    name: str
    key_type: Any = Any
    value_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def key_serializer(self) -> TypeSerializer:
        return serializer_for(self.key_type)

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.value_type)


StateDescriptor = (
    ValueStateDescriptor
    | ListStateDescriptor
    | ReducingStateDescriptor
    | AggregatingStateDescriptor
    | MapStateDescriptor
)
"""Any descriptor."""
