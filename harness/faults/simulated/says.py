"""What a flight says on the wire: the one place where a simulated fault looks at its statements and packets.

A flight may carry several statements, the handshake of a new connection before them. Invariant: everything here
follows from `Flight.packets` and `Flight.says`, so a flight of one statement needs no change elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.sim.link import Flight
    from harness.sim.wire import Statement

__all__ = ["effect_of", "is_handshake", "is_write", "moved_bytes", "statements_of", "still_said"]


def statements_of(flight: Flight) -> Sequence[Statement]:
    """Its statements, without the handshake."""
    return flight.says


def still_said(flight: Flight, now_ms: int) -> Sequence[Statement]:
    """The statements that a fault which begins now can still meet, the handshake of a new connection first.

    Once the server has got the request, all but the last answer has passed.
    """
    says = flight.says if flight.is_asking(now_ms) else flight.says[-1:]
    if not flight.connection.fresh:
        return says
    handshake = next(packet.statement for packet in flight.packets())
    return (handshake, *says)


def is_handshake(statement: Statement) -> bool:
    """Whether it is the greeting of a new connection and its answer."""
    return statement.command == "handshake"


def effect_of(flight: Flight) -> Statement:
    """The statement with which it takes effect: its COMMIT, or the only one that it has."""
    return flight.says[-1]


def is_write(flight: Flight) -> bool:
    """Whether it is a transaction of a sink."""
    return effect_of(flight).command == "commit"


def moved_bytes(flight: Flight, *, up: bool) -> int:
    """The bytes that it moves in one direction."""
    return sum(packet.bytes for packet in flight.packets() if packet.up is up)
