"""A hunt: acts every so often on all the links that it was begun on, so many times at most.

Invariant: it counts whom it hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.faults.simulated.says import is_write

if TYPE_CHECKING:
    from harness.levels.sim.hub import Due
    from harness.sim.link import Flight, Link

__all__ = ["Hunt", "is_served"]


class Hunt:
    """Acts every so often, on all the links that it was begun on, so many times at most. Mutable: counts."""

    def __init__(self, *, gap_ms: int, count: int | None) -> None:
        self._gap_ms = gap_ms
        self._count = count
        self._links: list[Link] = []
        self._next: Due | None = None
        self.done = 0

    def begins(self, link: Link) -> None:
        """For the first time as soon as all links are known."""
        self._links.append(link)
        if self._next is None:
            self._next = link.hub.at(link.hub.now_ms, self._once)

    def _once(self) -> None:
        hub = self._links[0].hub
        if self._count is None or self.done < self._count:
            self.done += self.hits(self._links)
        self._next = hub.at(hub.now_ms + self._gap_ms, self._once)

    def hits(self, links: Sequence[Link]) -> bool:
        """Hit somebody, if there is anybody."""
        raise NotImplementedError

    def meets(self, link: Link, flight: Flight) -> None:
        """It is left alone until the next time."""

    def ends(self, link: Link) -> None:
        """No more."""
        if self._next is not None:
            link.hub.cancel(self._next)


def is_served(link: Link, flight: Flight) -> bool:
    """Whether the server works on it: a read after it has arrived, a transaction before it has committed."""
    if not flight.is_sound or flight.code is not None:
        return False
    return flight.is_asking(link.hub.now_ms) is is_write(flight)
