"""An accumulator of the current key, into which values are gathered, for a while.

Answers to Flink's `TtlAggregatingState` and `TtlAggregateFunction`. Invariant: what has expired and is not shown takes
no part: the next value added goes into a new accumulator (S15).
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.aggregating_state import AggregatingState
from reference_impl.state.state_descriptor import AggregateFunction, AggregatingStateDescriptor
from reference_impl.state.ttl.ttl_decorator import TtlDecorator
from reference_impl.state.ttl.ttl_keyed_state import TtlMergingState
from reference_impl.state.ttl_value import TtlValue

__all__ = ["TtlAggregateFunction", "TtlAggregatingState"]


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
    """Around an `AggregatingState` of accumulators with stamps. Mutable."""

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
