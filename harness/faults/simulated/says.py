"""What a flight says on the wire: the one place where a simulated fault looks at its statement and packets.

A flight is one statement; the handshake of a new connection is a flight of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight

__all__ = ["command_of", "moved_bytes"]


def command_of(flight: Flight) -> str:
    """Of its statement: `handshake`, `commit`, `rollback` or `query`."""
    return flight.statement.kinds[0]


def moved_bytes(flight: Flight, *, up: bool) -> int:
    """The bytes that it moves in one direction."""
    return sum(packet.bytes for packet in flight.packets() if packet.up is up)
