"""What the simulated server refuses: writes, clients, connections, large packets, rows for which there is no room.

Answers to errors 1290, 1114, 3032, 1040, 1153, 1054 and 1146. Invariant: what is refused took no effect; each counts
its refusals.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from harness.sim.faults.cuts import losses
from harness.sim.faults.under_way import meet_requests
from harness.sim.link import LOST_CONNECTION, Flight, Link

__all__ = ["MaxConnections", "OfflineMode", "OversizedPacket", "Refuses", "is_write"]

_OFFLINE: Final = 3032
_TOO_MANY_CONNECTIONS: Final = 1040
_TOO_LARGE: Final = 1153
_BYTES_MIN: Final = 1_024
"""No server takes less."""


def is_write(flight: Flight) -> bool:
    """Whether it is a transaction of a sink."""
    return flight.says[-1].command == "commit"


class Refuses:
    """Every transaction that writes, or every read, ends with `code`, also one under way. Mutable: counts."""

    def __init__(self, code: int, *, writes: bool) -> None:
        self._code = code
        self._writes = writes
        self._refused = 0

    def begins(self, link: Link) -> None:
        """Open ones too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it, if it is one of those; its connection lives on."""
        if is_write(flight) is self._writes and flight.is_sound:
            self._refused += 1
            link.answers(flight, self._code)

    def ends(self, link: Link) -> None:
        """It takes them again."""

    def evidence(self) -> dict[str, Any]:
        """How many it refused."""
        return {"codes": {str(self._code): self._refused}} if self._refused else {}


class OfflineMode:
    """Ordinary users are hung up on and not let in. Mutable: counts."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """Those that are connected."""
        self._codes[str(LOST_CONNECTION)] += link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """Those that come; live connections there are none."""
        if flight.connection.fresh and flight.doom is None:
            self._codes[str(_OFFLINE)] += 1
            link.breaks(flight, worked=False, code=_OFFLINE)

    def ends(self, link: Link) -> None:
        """All are welcome."""

    def evidence(self) -> dict[str, Any]:
        """How many were hung up on, and how many not let in."""
        return losses(self._codes)


class MaxConnections:
    """The server is full but for so many: whoever is connected is hung up on, and few come back. Mutable: counts."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._links: dict[Link, None] = {}
        self._refused = 0

    def begins(self, link: Link) -> None:
        """Others have taken their places."""
        self._links[link] = None
        link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """A new one is let in if there is a place."""
        if not flight.connection.fresh or flight.doom is not None:
            return
        admitted = sum(one is not flight.connection for each in self._links for one in each.connections)
        if admitted >= self._connections_max:
            self._refused += 1
            link.breaks(flight, worked=False, code=_TOO_MANY_CONNECTIONS)

    def ends(self, link: Link) -> None:
        """There is room again."""

    def evidence(self) -> dict[str, Any]:
        """How many were refused."""
        return (
            {"refused": self._refused, "codes": {str(_TOO_MANY_CONNECTIONS): self._refused}}
            if self._refused
            else {}
        )


class OversizedPacket:
    """A statement of more than so many bytes is refused, and its connection ends. Mutable: counts."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = max(_BYTES_MIN, bytes_max)
        self._refused = 0

    def begins(self, link: Link) -> None:
        """It holds for sessions that begin now: the others are ended first."""
        link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it, if it is too large."""
        if flight.doom is None and any(statement.asks > self._bytes_max for statement in flight.says):
            self._refused += 1
            link.breaks(flight, worked=False, code=_TOO_LARGE)

    def ends(self, link: Link) -> None:
        """Larger ones are taken again, in sessions that begin now."""
        link.cut()

    def evidence(self) -> dict[str, Any]:
        """How many were refused."""
        found = {"codes": {str(_TOO_LARGE): self._refused}, "bytes_max": self._bytes_max}
        return found if self._refused else {}
