"""One value of the current key, to which each value added is reduced, for a while.

Answers to Flink's `TtlReducingState` and `TtlReduceFunction`. Invariant: what has expired and is not shown takes no
part: the next value added is a first one again (S15).
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.reducing_state import ReducingState
from reference_impl.state.state_descriptor import ReduceFunction, ReducingStateDescriptor
from reference_impl.state.ttl.ttl_decorator import TtlDecorator
from reference_impl.state.ttl.ttl_keyed_state import TtlMergingState
from reference_impl.state.ttl_value import TtlValue

__all__ = ["TtlReduceFunction", "TtlReducingState"]


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
    """Around a `ReducingState` of values with stamps. Mutable."""

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
