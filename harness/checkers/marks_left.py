"""Which watermarks of an attempt's input have left it by now.

Answers to "Which watermark" of `docs/history.md`. Mutable: feed it each `owm` in order, ask in between. Invariant:
a surplus `owm` changes nothing. With coalescing one that leaves covers all before it, and the last position of
its value counts as left too, with all before that: this acquits, which is what the page asks for. Grows with the
watermarks that left.
"""

from __future__ import annotations

import math

from harness.checkers.attempt_input import AttemptInput, Mark
from harness.history.event import Owm

__all__ = ["MarksLeft"]


class MarksLeft:
    """Of one attempt."""

    def __init__(self, taken: AttemptInput, *, coalesces: bool) -> None:
        self._taken = taken
        self._coalesces = coalesces
        self._left: set[Mark] = set()
        self.reach: float = -math.inf
        """With coalescing: every position up to this one may count as left."""

    def step(self, owm: Owm) -> Mark | None:
        """Take the next `owm`; the watermark that it is, None for a surplus one."""
        pos = self._taken.left.get(owm.n)
        if pos is None:
            return None
        mark = Mark(pos, owm.w)
        self._left.add(mark)
        if self._coalesces:
            self.reach = max(self.reach, self._taken.positions_of[owm.w][-1])
        return mark

    def __contains__(self, mark: Mark) -> bool:
        return mark in self._left or mark.pos <= self.reach
