"""What all connections of a proxy hold back together, and the bound on it.

Toxiproxy bounds each connection alone (1 024 chunks), which a thousand of them multiply. Invariant: while more than
`HELD_BYTES_MAX` is held, a direction that holds more than its small share is not read; it is reviewed when less is.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["HELD_BYTES_MAX", "Holdings"]

HELD_BYTES_MAX = 256 * 1024 * 1024
"""Bytes held by all stages and before all sockets of one proxy process."""


class _Waiting(Protocol):
    def review(self) -> None:
        """Look again whether to read."""


class Holdings:
    """A running sum; mutable."""

    __slots__ = ("_held_max", "_waiting", "held")

    def __init__(self, *, held_max: int = HELD_BYTES_MAX) -> None:
        self._held_max = held_max
        self._waiting: dict[_Waiting, None] = {}
        self.held = 0

    @property
    def too_much(self) -> bool:
        """Whether the bound is passed."""
        return self.held > self._held_max

    def move(self, change: int) -> None:
        """So many bytes more, or fewer, are held."""
        self.held += change
        if change < 0 and self._waiting and not self.too_much:
            waiting, self._waiting = self._waiting, {}
            for direction in waiting:
                direction.review()

    def wait(self, direction: _Waiting) -> None:
        """Review it when less than the bound is held."""
        self._waiting[direction] = None
