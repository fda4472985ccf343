"""A simulated link: connections from a client through a proxy to the database, with the faults that act on it.

Answers to Toxiproxy in front of MySQL. Invariant: a fault acts on what is on its way when it begins and on what is
sent while it lasts, and counts each chunk and connection that it touched: its evidence is what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from harness.choices import Draw
from harness.faults.simulated.act import LinkAct as LinkFault
from harness.faults.simulated.losses import LOST_CONNECTION, REFUSED
from harness.levels.sim.hub import Due, Hub
from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.sim.wire import LOOKUP, Packet, Statement, packets
from reference_impl.virtual_loop import Handle

__all__ = [
    "LOST_CONNECTION",
    "REFUSED",
    "Alarm",
    "Connection",
    "Flight",
    "HubAlarm",
    "Link",
    "LinkFault",
    "LoopAlarm",
]

_NETWORK_MS_MAX = 1
"""One way, undisturbed."""
_CONNECT_LIMIT_MS = 2_000
_QUERY_LIMIT_MS = 10_000


class Connection:
    """One connection of a client. Mutable: dies once."""

    __slots__ = ("alive", "fresh", "idle_since_ms", "link", "number")

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self.number = number
        self.alive = True
        self.fresh = True
        """Not yet greeted by the server."""
        self.idle_since_ms: int | None = None
        """When its last answer came, while nothing is on its way; None: it is in use."""


class Alarm(Protocol):
    """Calls back at an instant, in whoever's time the flight's client lives."""

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Any:
        """What `drop` takes."""

    def drop(self, alarm: Any) -> None:
        """Let it not happen."""


class HubAlarm:
    """Calls back from the hub: for a client that blocks."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Due:
        """See `Alarm`."""
        return self._hub.at(instant_ms, callback)

    def drop(self, alarm: Due) -> None:
        """See `Alarm`."""
        self._hub.cancel(alarm)


class LoopAlarm:
    """Calls back from an attempt's loop: for a client that goes on meanwhile."""

    def __init__(self, loop: SubtaskLoop) -> None:
        self._loop = loop

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Handle:
        """See `Alarm`. The hub may call it while the attempt waits for something later."""
        handle = self._loop.call_at_ms(instant_ms, callback)
        self._loop.look_again()
        return handle

    def drop(self, alarm: Handle) -> None:
        """See `Alarm`."""
        alarm.gone = True


class Flight(Struct, eq=False):
    """One request on a connection, and its answer. Mutable: faults move `due_ms`, or doom it. Each call makes one.

    `work` is done by the server when the request arrives and gives `(value, error code or None, further ms)`;
    `landed(flight)` is called when the answer is there, or what the client takes for one. `code` is an error's.
    """

    connection: Connection
    alarm: Alarm
    landed: Callable[[Flight], None]
    work: Callable[[], tuple[Any, int | None, int]] | None = None
    nonce: int | None = None
    request: Any = None
    value: Any = None
    code: int | str | None = None
    doom: int | str | None = None
    """With which error it will land, whatever the server answers."""
    sent_ms: int = 0
    arrive_ms: int = 0
    due_ms: int | None = None
    """None: no answer is on its way."""
    timer: Any = None
    arrival: Due | None = None
    over: bool = False
    held: bool = False
    """Its request waits on the way, or in front of a server that does not read."""
    departed: bool = False
    says: Sequence[Statement] = LOOKUP
    """What is said on the wire for it."""

    @property
    def is_sound(self) -> bool:
        """Whether an answer is on its way, and no fault has spoilt it."""
        return self.due_ms is not None and self.doom is None

    def packets(self) -> Iterator[Packet]:
        """What it is on the wire, from its first packet to its last."""
        connection = self.connection
        return packets(self.says, fresh=connection.fresh, row_bytes=connection.link.row_bytes)

    def is_asking(self, now_ms: int) -> bool:
        """Whether the server has not got the request yet."""
        if self.held or not self.departed:
            return True
        return self.arrive_ms > now_ms if self.work is None else self.arrival is not None


class Link:
    """Mutable: knows its flights and the faults that act."""

    def __init__(self, name: str, *, hub: Hub, draw: Draw, is_direct: bool = False) -> None:
        self.name = name
        self.is_direct = is_direct
        """Past the proxy."""
        self.hub = hub
        self.draw = draw
        self.flights: dict[Flight, None] = {}
        self.faults: list[LinkFault] = []
        self.made = 0
        """Connections so far."""
        self.row_bytes = 0
        """To which the database pads a row."""
        self._connections: dict[Connection, None] = {}

    @property
    def connections(self) -> list[Connection]:
        """Those that the client has not given up, and that were not cut; the oldest first."""
        return list(self._connections)

    def connect(self) -> Connection:
        """A connection; whether it can be had is seen when it is first used."""
        self.made += 1
        connection = Connection(self, self.made)
        self._connections[connection] = None
        return connection

    def close(self, connection: Connection) -> None:
        """The client gives it up."""
        connection.alive = False
        self._connections.pop(connection, None)

    def send(self, flight: Flight, *, service_ms: int) -> None:
        """Begin: the answer is due after both ways and the service, unless a fault has it otherwise."""
        draw, now_ms = self.draw, self.hub.now_ms
        connection = flight.connection
        ways_ms = 2 * _NETWORK_MS_MAX if connection.fresh else 0
        flight.sent_ms = now_ms
        flight.arrive_ms = now_ms + ways_ms + draw.bits(1) * _NETWORK_MS_MAX
        flight.due_ms = flight.arrive_ms + service_ms + draw.bits(1) * _NETWORK_MS_MAX
        self.flights[flight] = None
        for fault in self.faults:
            fault.meets(self, flight)
        connection.idle_since_ms = None
        self._depart(flight)

    def _depart(self, flight: Flight) -> None:
        """As the faults have left it."""
        flight.departed = True
        if flight.work is not None and flight.doom != REFUSED and not flight.held:
            self.arrives(flight)
        self.aim(flight)

    def arrives(self, flight: Flight) -> None:
        """The server will get it at `arrive_ms`."""
        flight.arrival = self.hub.at(flight.arrive_ms, partial(self._arrive, flight))

    def aim(self, flight: Flight) -> None:
        """(Re)set the alarm of `flight`: when its answer is due, or when its client loses patience."""
        if flight.timer is not None:
            flight.alarm.drop(flight.timer)
        due_ms = flight.due_ms
        limit_ms = flight.sent_ms + (_CONNECT_LIMIT_MS if flight.connection.fresh else _QUERY_LIMIT_MS)
        if due_ms is None or due_ms > limit_ms:
            flight.timer = flight.alarm.set(limit_ms, partial(self.fail, flight, "TimeoutError"))
        else:
            flight.timer = flight.alarm.set(due_ms, partial(self._land, flight))

    def holds(self, flight: Flight) -> tuple[int, int] | None:
        """Let it neither arrive nor be answered until it `goes_on`: in how many ms it would have; None: no need."""
        if flight.due_ms is None or flight.doom is not None:
            return None
        now_ms = self.hub.now_ms
        flight.held = flight.is_asking(now_ms)
        self.never_arrives(flight)
        left_ms = (max(0, flight.arrive_ms - now_ms), max(0, flight.due_ms - now_ms))
        flight.due_ms = None
        return left_ms

    def goes_on(self, flight: Flight, left_ms: tuple[int, int]) -> None:
        """What was held, as if no time had passed; unless it has ended otherwise."""
        if flight.over or flight.doom is not None:
            return
        arrives_in_ms, due_in_ms = left_ms
        now_ms = self.hub.now_ms
        flight.due_ms = now_ms + due_in_ms
        if flight.held:
            flight.held, flight.arrive_ms = False, now_ms + arrives_in_ms
            if flight.work is not None:
                self.arrives(flight)
        self.aim(flight)

    def doom_at(self, flight: Flight, instant_ms: int, code: int | str) -> None:
        """It will land at that instant, with that error."""
        flight.due_ms, flight.doom = instant_ms, code

    def _arrive(self, flight: Flight) -> None:
        """The server does the work; it may take longer than was thought."""
        flight.arrival = None
        assert flight.work is not None, "only a request with work arrives"
        flight.value, flight.code, more_ms = flight.work()
        if more_ms and flight.due_ms is not None and not flight.over:
            flight.due_ms += more_ms
            self.aim(flight)

    def _land(self, flight: Flight) -> None:
        if flight.over:
            return
        if flight.arrival is not None:  # of one instant with its answer, and drawn to come behind it
            self.hub.cancel(flight.arrival)
            self._arrive(flight)
            if flight.due_ms is not None and flight.due_ms > self.hub.now_ms:
                return
        if flight.doom is not None:
            self.fail(flight, flight.doom)
            return
        connection = flight.connection
        connection.fresh, connection.idle_since_ms = False, self.hub.now_ms
        self._end(flight)

    def fail(self, flight: Flight, code: int | str) -> None:
        """Its connection is lost, or never was; the client hears of it now."""
        if flight.over:
            return
        flight.code = code
        self.close(flight.connection)
        self._end(flight)

    def _end(self, flight: Flight) -> None:
        flight.over = True
        flight.timer = None  # it holds the flight, which so goes at once, and not as garbage of a cycle
        del self.flights[flight]
        flight.landed(flight)

    def abandon(self, flight: Flight) -> None:
        """The client is gone, or wants no answer; what has not arrived may arrive in this moment, or never."""
        if flight.over:
            return
        flight.over = True
        self.flights.pop(flight, None)
        flight.alarm.drop(flight.timer)
        flight.timer = None  # as at its end
        if flight.arrival is not None:
            self.hub.cancel(flight.arrival)
            if self.draw.bits(1):
                self._arrive(flight)

    def never_arrives(self, flight: Flight) -> None:
        """The request itself is lost."""
        if flight.arrival is not None:
            self.hub.cancel(flight.arrival)
            flight.arrival = None

    def answers(self, flight: Flight, code: int) -> None:
        """With an error, and without having done anything; the connection lives on."""
        self.never_arrives(flight)
        flight.work, flight.code = None, code
        flight.due_ms = max(self.hub.now_ms, flight.arrive_ms)

    def breaks(self, flight: Flight, *, worked: bool, code: int | str = LOST_CONNECTION) -> None:
        """Its connection ends on the way: with its answer, or before its request can take effect."""
        if worked:
            flight.doom = code
            return
        self.never_arrives(flight)
        flight.work = None
        self.doom_at(flight, max(self.hub.now_ms, flight.arrive_ms), code)

    def cut(self) -> int:
        """End every connection; how many there were."""
        live = self.connections
        for flight in self.flights:
            self.never_arrives(flight)
            self.lose(flight, LOST_CONNECTION)
        for connection in live:
            self.close(connection)
        return len(live)

    def cut_off(self, connection: Connection) -> None:
        """End this one; whatever is on its way over it is lost."""
        for flight in [flight for flight in self.flights if flight.connection is connection]:
            self.never_arrives(flight)
            self.lose(flight, LOST_CONNECTION)
        self.close(connection)

    def lose(self, flight: Flight, code: int | str) -> None:
        """Its connection ends at this instant; its client hears of it in its own time."""
        self.doom_at(flight, self.hub.now_ms, code)
        self.aim(flight)

    def begin(self, fault: LinkFault) -> None:
        """`fault` acts."""
        self.faults.append(fault)
        fault.begins(self)

    def heal(self, fault: LinkFault) -> None:
        """`fault` acts no more."""
        self.faults.remove(fault)
        fault.ends(self)
