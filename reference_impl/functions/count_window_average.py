"""The documentation's first example of keyed state: the average of each two values of a key.

Answers to `CountWindowAverage` of Flink's "Working with State". Invariant: key 1 in (1,3) (1,5) (1,7) (1,4) (1,2) gives
(1,4) after the second and (1,5) after the fourth, and leaves count 1, sum 2 (S10), wherever it crashed on the way.

The three versions of the documentation round differently (V-g): Java's integer division cuts towards zero, Python's
example divides in floating point first, which is wrong beyond 2^53. Here the rounding is said, and exact.
"""

from __future__ import annotations

from enum import Enum

from reference_impl.functions.keyed_process_function import Collector, ProcessContext
from reference_impl.functions.runtime_context import RuntimeContext
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.value_state import ValueState

__all__ = ["CountWindowAverage", "Rounding"]


class Rounding(Enum):
    """What becomes of the rest of a division of integers."""

    TRUNCATE = "towards zero"
    """As Java's `/`."""
    FLOOR = "down"
    """As Python's `//`."""

    def quotient(self, total: int, count: int) -> int:
        """`total` by `count`, which is positive."""
        match self:
            case Rounding.TRUNCATE:
                return total // count if total >= 0 else -(-total // count)
            case Rounding.FLOOR:
                return total // count


class CountWindowAverage:
    """A `KeyedProcessFunction` of pairs (key, number). Mutable once opened.

    It emits (key, average) at each `threshold`-th number of a key.
    """

    def __init__(self, *, threshold: int = 2, rounding: Rounding = Rounding.TRUNCATE) -> None:
        if threshold < 1:
            raise ValueError(f"the average of {threshold} values; give 1 or more")
        self._threshold = threshold
        self._rounding = rounding
        self._sum: ValueState

    def open(self, context: RuntimeContext) -> None:
        """Register count and sum, as one value."""
        self._sum = context.get_state(
            ValueStateDescriptor(name="average", value_type=tuple[int, int], default=(0, 0))
        )

    def process_element(
        self,
        value: tuple[int, int],
        context: ProcessContext,  # noqa: ARG002 - the protocol's
        out: Collector,
    ) -> None:
        """Count and add; the state is cleared before the average goes out."""
        key, number = value
        count, total = self._sum.value()
        count, total = count + 1, total + number
        if count < self._threshold:
            self._sum.update((count, total))
        else:
            self._sum.clear()
            out((key, self._rounding.quotient(total, count)))
