"""The acts of faults on simulated links: hold bytes, drop bytes, close the port, select messages.

Answers to Toxiproxy's toxics and to the packet rules of our own proxy (`harness.proxy.mysql`). A flight is one
statement with its reply; the handshake of a new connection is a flight of its own. Messages are numbered in the order
in which they are sent since the fault began, over all connections of the link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from harness.database.simulated.replies import LOST_CONNECTION, REFUSED
from harness.faults.simulated.acts import losses, meet_all, meet_requests, meet_unarrived
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, SimulatedLink
    from harness.faults.real.fault_site import Messages


def command_of(flight: Flight) -> str:
    """The command of its statement: `handshake`, `commit`, `rollback` or `query`."""
    return flight.kinds[0]


def moved_bytes(flight: Flight, *, up: bool) -> int:
    """The bytes that it sends in one direction."""
    return sum(packet.bytes for packet in flight.packets() if packet.up is up)


class Picks:
    """Selects the `nth` matching message and the following ones, `times` in all. Mutable: counts."""

    def __init__(self, messages: Messages, *, packets_min: int = 1) -> None:
        self._messages = messages
        self._statement = messages.statement.casefold()
        self._packets_min = packets_min
        """A message whose reply has fewer packets does not match."""
        self._met = 0
        self._picked = 0

    def take(self, flight: Flight) -> bool:
        """Whether to act on it; counts it if it matches."""
        if self._messages.command not in {"any", *flight.kinds}:
            return False
        if self._packets_min > 1 and len(flight.statement.answers) < self._packets_min:
            return False
        if not flight.sql.casefold().lstrip().startswith(self._statement):
            return False
        self._met += 1
        if self._met < self._messages.nth or self._picked >= self._messages.times:
            return False
        self._picked += 1
        return True


class OnReplies:
    """A link act that also meets what is already on its way, and has nothing to undo."""

    def begins(self, link: SimulatedLink) -> None:
        meet_all(self, link)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Acts on a message that is sent meanwhile."""
        raise NotImplementedError

    def ends(self, link: SimulatedLink) -> None:
        """There is nothing to undo."""

    def evidence(self) -> Json:
        raise NotImplementedError


class OnRequests(OnReplies):
    """The same, of requests: it meets those that have not reached the server."""

    def begins(self, link: SimulatedLink) -> None:
        meet_requests(self, link)


HoldMs = Callable[["SimulatedLink", "Flight"], int]
"""How long (ms) the bytes of a flight are held in one direction."""


class _Held(NamedTuple):
    """A flight that is held, as it was before."""

    hold_ms: int
    due_ms: int
    more_ms: int


class Holding:
    """Holds each chunk that crosses the link in one direction. Mutable: counts.

    Its evidence is how late each flight ended at its client, not for how long it was meant to be held.
    """

    def __init__(self, hold_ms: HoldMs, *, upward: bool) -> None:
        self._hold_ms = hold_ms
        self._upward = upward
        self._held: dict[Flight, _Held] = {}
        self._healed_ms = 0

    def begins(self, link: SimulatedLink) -> None:
        (meet_unarrived if self._upward else meet_all)(self, link)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Holds one chunk of the message."""
        if flight.due_ms is None or flight.doom is not None:
            return
        hold_ms = self._hold_ms(link, flight)
        if self._upward:
            link.delays_request(flight, hold_ms)
        self._held[flight] = _Held(hold_ms, flight.due_ms, flight.more_ms)
        flight.due_ms += hold_ms

    def ends(self, link: SimulatedLink) -> None:
        """Releases what is held."""
        now_ms = self._healed_ms = link.hub.now_ms
        for flight, (hold_ms, _, _) in self._held.items():
            if flight.over or flight.due_ms is None:
                continue
            if self._upward and flight.arrive_ms > now_ms:
                link.delays_request(flight, max(now_ms - flight.arrive_ms, -hold_ms))
            flight.due_ms = max(now_ms, flight.arrive_ms, flight.due_ms - hold_ms)
            link.aim(flight)

    def evidence(self) -> Json:
        """How many chunks came late, by at least half of what they could be held, and by how much in all."""
        late_ms = []
        for flight, (hold_ms, due_ms, more_ms) in self._held.items():
            hold_ms = min(hold_ms, self._healed_ms - due_ms)  # noqa: PLW2901 - healing releases it
            late = min(hold_ms, flight.late_ms(due_ms, more_ms=more_ms, now_ms=self._healed_ms))
            if 0 < hold_ms <= 2 * late:
                late_ms.append(late)
        return {"chunks_held": len(late_ms), "held_ms": sum(late_ms)} if late_ms else {}


def latency(*, delay_ms: int, jitter_ms: int, upward: bool) -> Holding:
    """Holds each chunk for `delay_ms` plus or minus a random `jitter_ms`, at least 0."""

    def hold_ms(link: SimulatedLink, flight: Flight) -> int:
        del flight
        return max(0, delay_ms + link.draw.between(-jitter_ms, jitter_ms))

    return Holding(hold_ms, upward=upward)


_CHUNK_BYTES = 96
"""The nominal size of one dropped request or reply."""


class Swallowing:
    """Drops one or both directions; connections stay open, and healing closes the affected ones. Mutable: counts."""

    def __init__(self, *, upward: bool, downward: bool) -> None:
        self._upward = upward
        self._downward = downward
        self.swallows_requests = upward
        """The server does not notice that a client closed its connection."""
        self._swallowed: dict[Flight, None] = {}
        self._cut = 0

    def begins(self, link: SimulatedLink) -> None:
        (meet_all if self._downward else meet_unarrived)(self, link)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Drops the reply, or the request and so the reply."""
        if flight.doom is not None:
            return
        if self._upward or flight.connection.fresh:  # without a greeting the client sends no request
            link.never_arrives(flight)
        flight.kept, flight.swallowed, flight.due_ms = True, True, None
        self._swallowed[flight] = None

    def ends(self, link: SimulatedLink) -> None:
        """Closes the affected connections, because bytes are missing from their streams."""
        for flight in self._swallowed:
            if not flight.over:
                self._cut += 1
                link.lose(flight, LOST_CONNECTION)

    def evidence(self) -> Json:
        """What was answered all the same was not swallowed."""
        answered = sum(flight.answered for flight in self._swallowed)
        chunks = len(self._swallowed) - answered
        if not chunks:
            return {}
        return {
            "chunks_swallowed": chunks,
            "bytes_swallowed": chunks * _CHUNK_BYTES,
            "connections_cut": self._cut,
            "answered": answered,
        }


class ShutPort(OnReplies):
    """Closes every connection and refuses new ones. Mutable: counts."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()

    def begins(self, link: SimulatedLink) -> None:
        """Closes live connections, idle ones too."""
        self._codes[str(LOST_CONNECTION)] += link.cut()

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Refuses the connect."""
        self._codes[str(REFUSED)] += 1
        link.doom_at(flight, link.hub.now_ms + 1, REFUSED)

    def evidence(self) -> Json:
        return losses(self._codes)
