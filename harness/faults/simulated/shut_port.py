"""A port that nobody listens on: connections are cut when it shuts, and refused while it is shut.

Invariant: it counts the connections that it ended or refused, by the error that their clients see.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from harness.faults.simulated.losses import LOST_CONNECTION, REFUSED, losses

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["ShutPort"]


class ShutPort:
    """Cuts every connection and refuses new ones. Mutable: counts."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """Live connections are cut at once, idle ones too."""
        self._codes[str(LOST_CONNECTION)] += link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it."""
        self._codes[str(REFUSED)] += 1
        link.doom_at(flight, link.hub.now_ms + 1, REFUSED)

    def ends(self, link: Link) -> None:
        """It listens again."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were lost or refused, by error code."""
        return losses(self._codes)
