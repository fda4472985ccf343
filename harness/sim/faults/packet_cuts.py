"""What ends a connection at a packet, or after so many bytes.

Answers to our own proxy's packet rules with `reset`, and to Toxiproxy's `limit_data`. Invariant: whether the work of a
flight that is broken took effect follows from the packet at which it was: before its COMMIT had passed, or after.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.sim.faults.cuts import losses
from harness.sim.faults.picks import Picks
from harness.sim.faults.under_way import meet_all, meet_requests
from harness.sim.link import LOST_CONNECTION, Connection, Flight, Link
from harness.sim.wire import HANDSHAKE, effect_of

__all__ = ["Limit", "ResetAtPacket"]


class ResetAtPacket:
    """RST at a packet of the messages that it picks, or at a byte inside of it. Mutable: counts."""

    def __init__(self, picks: Picks, *, upward: bool, packet: int, inside: int) -> None:
        self._picks = picks
        self._upward = upward
        self._packet = packet
        self._inside = inside
        self._cut: dict[Flight, int] = {}
        """And how many bytes of the message had passed."""

    def begins(self, link: Link) -> None:
        """What is on its way back is met too."""
        if not self._upward:
            meet_all(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Break it, if it is one that is meant."""
        if not flight.is_sound:
            return
        statement = self._picks.first(flight, link.hub.now_ms)
        if statement is None:
            return
        sizes = (statement.asks,) if self._upward else statement.answers
        whole = sizes[: min(self._packet, len(sizes)) - 1]
        self._cut[flight] = sum(whole) + min(self._inside, sizes[len(whole)])
        worked = not self._upward and statement is not HANDSHAKE and statement is effect_of(flight.says)
        link.breaks(flight, worked=worked)

    def ends(self, link: Link) -> None:
        """What was broken stays broken."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were reset, and behind how many bytes of the message."""
        if not self._cut:
            return {}
        passed = Counter(self._cut.values())
        return {
            **losses(Counter({str(LOST_CONNECTION): len(self._cut)})),
            "bytes_passed": {str(size): count for size, count in sorted(passed.items())},
        }


class Limit:
    """So many bytes of each connection pass in one direction; then it ends. Mutable: counts."""

    def __init__(self, *, bytes_max: int, upward: bool) -> None:
        self._bytes_max = bytes_max
        self._upward = upward
        self._passed: dict[Connection, int] = {}
        self._cut = 0

    def begins(self, link: Link) -> None:
        """What is on its way counts, if it has not passed."""
        (meet_requests if self._upward else meet_all)(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Count what it moves; at the limit it ends."""
        if not flight.is_sound:
            return
        passed = self._passed.get(flight.connection, 0)
        effect = effect_of(flight.says)
        for packet in flight.packets():
            if packet.up is not self._upward:
                continue
            passed += packet.bytes
            if passed > self._bytes_max:
                self._cut += 1
                link.breaks(flight, worked=not self._upward and packet.statement is effect)
                break
        self._passed[flight.connection] = passed

    def ends(self, link: Link) -> None:
        """Nobody counts any more."""

    def evidence(self) -> dict[str, Any]:
        """How many connections ended at the limit."""
        return losses(Counter({str(LOST_CONNECTION): self._cut}))
