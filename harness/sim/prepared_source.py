"""A source whose elements were made before the run: every attempt of a subtask reads the same list.

Answers to Flink's `FromElementsSource`. Invariant: as of any source, the same position gives the same element
again; barriers stand at fixed positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference_impl.elements import EndOfInput, StreamElement
from reference_impl.events import CheckpointBarrier

__all__ = ["DueElement", "PreparedSource"]

DueElement = tuple[StreamElement, int]
"""An element, and when it is due: in ms since the subtask's first attempt began."""
_END = EndOfInput()


class PreparedSource:
    """One attempt's; a `reference_impl.task.positioned_input.Source`. The last of `elements` is the `EndOfInput`."""

    def __init__(self, elements: Sequence[DueElement], *, checkpoint_every: int, origin_ms: int) -> None:
        self._elements = elements
        self._checkpoint_every = checkpoint_every
        self._origin_ms = origin_ms
        self._last = len(elements) - 1

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` behind the last."""
        return self._elements[position][0] if position < self._last else _END

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """A barrier before every so many positions, but the first."""
        if not position or position % self._checkpoint_every or position >= self._last:
            return None
        return CheckpointBarrier(checkpoint_id=position // self._checkpoint_every)

    def due_ms(self, position: int) -> int:
        """Behind the last element as the last."""
        return self._origin_ms + self._elements[min(position, self._last)][1]
