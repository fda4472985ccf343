"""One value of the current key, for a while.

Answers to Flink's `TtlValueState`. Invariant: an expired value is there for one read at most (S13), and a default is
never there (S15).
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.ttl.ttl_keyed_state import TtlKeyedState
from reference_impl.state.value_state import ValueState

__all__ = ["TtlValueState"]


class TtlValueState(TtlKeyedState[ValueStateDescriptor, ValueState]):
    """Around a `ValueState` of values with stamps. Mutable."""

    def value(self) -> Any:
        """The value; None if there is none, or none any more."""
        self._accessed()
        found = self._ttl.read(self._inner.value(), update=self._inner.update, clear=self._inner.clear)
        return None if found is None else found.value

    def update(self, value: Any) -> None:
        """Replace the value, whose life begins; None clears (S3)."""
        self._accessed()
        self._inner.update(None if value is None else self._ttl.stamped(value))
