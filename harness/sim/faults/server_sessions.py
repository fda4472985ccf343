"""What the simulated server does to sessions and their statements: kills, locks, deadlocks, waits.

Answers to errors 1317, 1927, 1205, 1213 and to the reaping of idle sessions. Invariant: a statement that the server
ended took no effect; each counts the sessions that it met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.levels.sim.hub import Due
from harness.sim.faults.cuts import losses
from harness.sim.faults.server_refusals import is_write
from harness.sim.faults.under_way import meet_requests
from harness.sim.link import LOST_CONNECTION, Flight, Link

__all__ = ["Deadlocks", "KillConnection", "KillQuery", "LockRows", "ReapIdle"]

_INTERRUPTED: Final = 1317
_DEADLOCK: Final = 1213
_LOCK_WAIT: Final = 1205
_LOCK_WAIT_MS: Final = 2_000
"""`innodb_lock_wait_timeout` of the sinks' sessions."""


class _Hunt:
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


class KillQuery(_Hunt):
    """Statements that the server works on are ended, one each time; their connections live. Mutable: counts."""

    def hits(self, links: Sequence[Link]) -> bool:
        """One that is under way."""
        under_way = [(link, flight) for link in links for flight in link.flights if _is_served(link, flight)]
        if not under_way:
            return False
        link, flight = under_way[_index(links, len(under_way))]
        link.answers(flight, _INTERRUPTED)
        link.aim(flight)
        return True

    def evidence(self) -> dict[str, Any]:
        """How many statements were ended."""
        return {"killed": self.done, "codes": {str(_INTERRUPTED): self.done}} if self.done else {}


def _index(links: Sequence[Link], count: int) -> int:
    """One of so many, drawn."""
    return links[0].draw.index(count)


def _is_served(link: Link, flight: Flight) -> bool:
    """Whether the server works on it: a read after it has arrived, a transaction before it has committed."""
    if not flight.is_sound or flight.code is not None:
        return False
    return flight.is_asking(link.hub.now_ms) is is_write(flight)


class KillConnection(_Hunt):
    """Sessions are ended, one each time, whatever they do. Mutable: counts."""

    def hits(self, links: Sequence[Link]) -> bool:
        """One that the server knows."""
        known = [(link, one) for link in links for one in link.connections if not one.fresh]
        if not known:
            return False
        link, connection = known[_index(links, len(known))]
        link.cut_off(connection)
        return True

    def evidence(self) -> dict[str, Any]:
        """How many sessions were ended."""
        found = losses(Counter({str(LOST_CONNECTION): self.done}))
        return {"killed": self.done, **found} if found else {}


class Deadlocks(_Hunt):
    """A sink's transaction loses against another that locks in the opposite order, one each time. Mutable: counts."""

    def __init__(self, *, gap_ms: int, count: int | None) -> None:
        super().__init__(gap_ms=gap_ms, count=count)
        self._lies_in_wait = False

    def hits(self, links: Sequence[Link]) -> bool:
        """One that is under way, or the next one that comes."""
        for link in links:
            for flight in link.flights:
                if is_write(flight) and _is_served(link, flight):
                    link.answers(flight, _DEADLOCK)
                    link.aim(flight)
                    return True
        self._lies_in_wait = True
        return False

    def meets(self, link: Link, flight: Flight) -> None:
        """It is the victim, if somebody lies in wait."""
        if self._lies_in_wait and is_write(flight) and flight.is_sound:
            self._lies_in_wait = False
            self.done += 1
            link.answers(flight, _DEADLOCK)

    def evidence(self) -> dict[str, Any]:
        """How many transactions were the victim."""
        return {"counted": self.done, "codes": {str(_DEADLOCK): self.done}} if self.done else {}


class LockRows:
    """Another transaction holds what is needed: who writes waits, and gives up in time; who reads waits. Counts."""

    def __init__(self, subtasks: int | None = None) -> None:
        self._subtasks = subtasks
        """The fence's rows of so many, from the first on; None: all."""
        self._waiting: dict[Flight, tuple[int, int]] = {}
        self._met = 0
        self._gave_up = 0

    def begins(self, link: Link) -> None:
        """Open transactions wait too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """It waits for the lock."""
        if is_write(flight) and self._subtasks is not None and flight.request >= self._subtasks:
            return
        left_ms = link.holds(flight)
        if left_ms is None:
            return
        self._met += 1
        self._waiting[flight] = left_ms
        if is_write(flight):
            link.hub.at(link.hub.now_ms + _LOCK_WAIT_MS, partial(self._give_up, link, flight))

    def _give_up(self, link: Link, flight: Flight) -> None:
        if self._waiting.pop(flight, None) is not None and flight.held and not flight.over:
            self._gave_up += 1
            flight.held = False
            link.answers(flight, _LOCK_WAIT)
            link.aim(flight)

    def ends(self, link: Link) -> None:
        """Who still waits has it."""
        for flight, left_ms in self._waiting.items():
            if flight.connection.link is link:
                link.goes_on(flight, left_ms)

    def evidence(self) -> dict[str, Any]:
        """How many waited for the lock, and how many in vain."""
        if not self._met:
            return {}
        return {"waited": self._met, "codes": {str(_LOCK_WAIT): self._gave_up} if self._gave_up else {}}


class ReapIdle:
    """Sessions that were idle for longer than a limit are ended; their clients notice later. Mutable: counts."""

    def __init__(self, idle_ms_max: int) -> None:
        self._idle_ms_max = idle_ms_max
        self._reaped = 0

    def begins(self, link: Link) -> None:
        """It holds for sessions that begin now: the others are ended first."""
        link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """On a session that is there no more."""
        since_ms = flight.connection.idle_since_ms
        if since_ms is not None and link.hub.now_ms - since_ms > self._idle_ms_max and flight.doom is None:
            self._reaped += 1
            link.breaks(flight, worked=False)

    def ends(self, link: Link) -> None:
        """The limit is as it was, for sessions that begin now."""
        link.cut()

    def evidence(self) -> dict[str, Any]:
        """How many found their session gone."""
        found = losses(Counter({str(LOST_CONNECTION): self._reaped}))
        return {"reaped": self._reaped, **found} if found else {}
