"""Numbers in an order that no cache can predict, the same in every run."""

from __future__ import annotations

_STRIDE = 611_953
"""A prime, so its multiples reach every number once."""


def scattered(step: int, count: int) -> int:
    """The number in 0 .. count-1 at `step`; in `count` steps each comes once."""
    return step * _STRIDE % count
