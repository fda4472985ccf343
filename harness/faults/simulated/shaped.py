"""What a simulated source sent on account of a fault: begun, counted, over.

Invariant: an element that a fault shaped is counted once, however often an attempt takes it up again.
"""

from __future__ import annotations

from typing import Any

from harness.history.event import In, Wm

__all__ = ["Shaped"]


class Shaped:
    """One fault in what the sources of a run send. Mutable."""

    def __init__(self) -> None:
        self.begun = False
        self.over = False
        self.touched: dict[tuple[int, int], None] = {}

    def accepted(self, taken: In | Wm, place: range, *, subtask: int, quiet_ms: int) -> None:
        """An attempt took `taken`, after its source had sent no record for `quiet_ms`; `place`: see `ShapingFault`."""
        key = (subtask, taken.pos)
        if not self.over and key not in self.touched:
            self.take(taken, place, key=key, quiet_ms=quiet_ms)

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        """One that was not counted yet."""
        raise NotImplementedError

    def evidence(self) -> dict[str, Any]:
        """What was counted; empty: nothing."""
        raise NotImplementedError
