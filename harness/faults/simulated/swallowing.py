"""What swallows bytes without a word: connections stay open while it lasts, and healing cuts those that have a hole.

Answers to Toxiproxy's `timeout`. Invariant: it counts what it swallowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.faults.simulated.losses import LOST_CONNECTION
from harness.faults.simulated.under_way import meet_all, meet_unarrived

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["Swallowing"]

_CHUNK_BYTES = 96
"""Of one request or answer, about; to be counted, not to be measured."""


class Swallowing:
    """Swallows one direction, or both; connections stay open, and healing cuts those that have a hole. Counts."""

    def __init__(self, *, upward: bool, downward: bool) -> None:
        self._upward = upward
        self._downward = downward
        self.swallows_requests = upward
        """The server does not hear that a client has hung up."""
        self._swallowed: dict[Flight, None] = {}
        self._cut = 0

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        (meet_all if self._downward else meet_unarrived)(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Let no answer come of it."""
        if flight.doom is not None:
            return
        if self._upward or flight.connection.fresh:  # without a greeting there is no request either
            link.never_arrives(flight)
        flight.kept, flight.swallowed, flight.due_ms = True, True, None
        self._swallowed[flight] = None

    def ends(self, link: Link) -> None:
        """Its connections are closed: their streams have holes."""
        for flight in self._swallowed:
            if not flight.over:
                self._cut += 1
                link.lose(flight, LOST_CONNECTION)

    def evidence(self) -> dict[str, Any]:
        """How much it swallowed."""
        chunks = len(self._swallowed)
        if not chunks:
            return {}
        return {
            "chunks_swallowed": chunks,
            "bytes_swallowed": chunks * _CHUNK_BYTES,
            "connections_cut": self._cut,
            "answered": 0,
        }
