"""Many small choices for the price of one: the purpose's stream is asked for a big number, and that is used up.

Invariant: equal seed and purpose give equal draws, as with the `Choices` behind it.
"""

from __future__ import annotations

from harness.choices import Choices

__all__ = ["Dice"]

_FRESH = 1 << 120
_SPENT = 1 << 40
"""Below it a remainder is no longer evenly spread, to one in 2^30 for all that is asked of dice."""


class Dice:
    """A stream of small choices. Mutable: it is used up and filled again."""

    __slots__ = ("_choices", "_store")

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._store = 0

    def index(self, count: int) -> int:
        """One of 0 .. count-1, all alike likely."""
        store = self._store
        if store < _SPENT:
            store = self._choices.index(_FRESH)
        self._store, drawn = divmod(store, count)
        return drawn

    def between(self, low: int, high: int) -> int:
        """One of low .. high, both included."""
        return low + self.index(high - low + 1)
