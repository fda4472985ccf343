"""Numbers in an order that no cache foresees, and that is the same in every run."""

from __future__ import annotations

__all__ = ["scattered"]

_STRIDE = 611_953
"""A prime: its multiples meet every number once."""


def scattered(step: int, count: int) -> int:
    """The number of 0 .. count-1 that comes at `step`; in `count` steps each comes once."""
    return step * _STRIDE % count
