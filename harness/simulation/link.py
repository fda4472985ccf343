"""A simulated link: connections from a client through a proxy to the database, with the faults that act on it.

Answers to Toxiproxy in front of MySQL. Each statement is a flight: a request there, the server's work, an answer back;
a new connection's handshake is a flight too. A fault acts on what is on its way when it begins and on what is sent
while it lasts, and counts what it touched. A connection has two ends, which die apart: a client that hangs up on a dead
link leaves its session in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from harness.choices import Draw
from harness.database.endpoint import QUERY
from harness.simulation.hub import Due, Hub
from harness.simulation.replies import LOST_CONNECTION, REFUSED, ConnectRefused
from harness.simulation.server import Reply, SimulatedServer, SimulatedSession
from harness.simulation.wire import SimulatedPacket, Statement, packets, statement_of

__all__ = ["Flight", "HubAlarm", "LinkAct", "SimulatedConnection", "SimulatedLink"]


_NETWORK_MS_MAX = 1
"""One way, undisturbed."""
_HANDSHAKE_MS = 2
"""The greeting and its answer, besides the way of the last packet."""


class SimulatedConnection:
    """One connection of a client. Mutable: its client's end dies once, its server's end maybe later."""

    __slots__ = (
        "alive",
        "flight",
        "fresh",
        "is_automatic",
        "is_root",
        "link",
        "session",
    )

    def __init__(self, link: SimulatedLink, *, is_automatic: bool, is_root: bool) -> None:
        self.link = link
        self.is_automatic = is_automatic
        """Whether its session begins in autocommit: asyncmy's does, and may run a user's statements."""
        self.is_root = is_root
        self.flight: Flight | None = None
        """What is on its way over it."""
        self.alive = True
        self.fresh = True
        """Not yet greeted by the server."""
        self.session: SimulatedSession | None = None
        """The server's end; None: before the handshake, or once it has ended."""


class Alarm(Protocol):
    """Calls back at an instant, in the time of the flight's client."""

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Any:
        """What `drop` takes."""

    def drop(self, alarm: Any) -> None:
        """Let it not happen."""


class HubAlarm:
    """Calls back from the hub: for a client that blocks."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Due:
        return self._hub.at(instant_ms, callback)

    def drop(self, alarm: Due) -> None:
        self._hub.cancel(alarm)


def _heard(flight: Flight) -> None:
    """It has landed: there is nobody left to tell."""


class Flight(Struct, eq=False):
    """One statement on a connection, and its answer. Mutable: faults move `due_ms`, or doom it.

    `sql` is empty for the handshake. `works` says whether the server will execute it; `landed(flight)` is called when
    the answer is there, or what the client takes for one. `code` is an error's.
    """

    connection: SimulatedConnection
    alarm: Alarm
    landed: Callable[[Flight], None]
    sql: str = ""
    args: Sequence[Any] = ()
    many: bool = False
    """Whether `args` are the rows of one INSERT."""
    limit_ms: int | None = None
    """How long a client that blocks waits for the answer; None: its own code has a limit."""
    reply: Reply | None = None
    code: int | str | None = None
    message: str = ""
    doom: int | str | None = None
    """With which error it will land, whatever the server answers."""
    works: bool = True
    served: bool = False
    """Whether the server has executed it, or refused to."""
    succeeded: bool = False
    """Whether it took effect there, whatever its client hears of it."""
    sent_ms: int = 0
    arrive_ms: int = 0
    due_ms: int | None = None
    """None: no answer is on its way."""
    back_ms: int = 0
    """While the server makes it wait: how long its answer takes then."""
    timer: Any = None
    arrival: Due | None = None
    over: bool = False
    held: bool = False
    """Its request waits on the way, or in front of a server that does not read."""
    departed: bool = False
    kept: bool = False
    """A fault keeps its answer back: what the server says meanwhile does not set when it is due."""
    swallowed: bool = False
    """Something on the way has swallowed the request or the answer; what held it before cannot let it go on."""

    @property
    def is_handshake(self) -> bool:
        """Whether it makes a connection and asks for nothing."""
        return not self.sql

    @property
    def statement(self) -> Statement:
        """What is said on the wire for it."""
        return statement_of(self.sql, self.args, many=self.many, row_bytes=self.connection.link.row_bytes)

    @property
    def is_sound(self) -> bool:
        """Whether an answer is on its way, and no fault has spoilt it."""
        return self.due_ms is not None and self.doom is None

    def packets(self) -> Iterator[SimulatedPacket]:
        """What it is on the wire, from its first packet to its last."""
        return packets(self.statement)

    def is_asking(self, now_ms: int) -> bool:
        """Whether the server has not got the request yet."""
        if self.held or not self.departed:
            return True
        return self.arrive_ms > now_ms if self.arrival is None else True


class MeetsFlights(Protocol):
    """What acts on a link while it lasts. With a true `swallows_requests` the server does not hear who hangs up."""

    def meets(self, link: SimulatedLink, flight: Flight) -> None:
        """A request is sent: change when, or how, it ends."""


class LinkAct(MeetsFlights, Protocol):
    """A fault's act on links: begun and ended on each of them."""

    def begins(self, link: SimulatedLink) -> None:
        """It acts from now on, and on what is on its way."""

    def ends(self, link: SimulatedLink) -> None:
        """It is healed."""

    def evidence(self) -> dict[str, Any]:
        """What it did; empty: nothing."""


class SimulatedLink:
    """Mutable: knows its flights and the faults that act."""

    def __init__(
        self,
        name: str,
        *,
        hub: Hub,
        draw: Draw,
        server: SimulatedServer,
        is_direct: bool = False,
        row_bytes: int = 0,
    ) -> None:
        self.name = name
        self.is_direct = is_direct
        """Past the proxy."""
        self.hub = hub
        self.draw = draw
        self.server = server
        self.row_bytes = row_bytes
        """To which the database pads a row."""
        self.flights: dict[Flight, None] = {}
        self.faults: list[MeetsFlights] = []
        self._connections: dict[SimulatedConnection, None] = {}
        self._stranded: list[SimulatedSession] = []
        """Sessions of the server whose clients have hung up without its hearing of it."""

    @property
    def connections(self) -> list[SimulatedConnection]:
        """Those that the client has not given up, and that were not cut; the oldest first."""
        return list(self._connections)

    # --------------------------------------------------------------------------------------- connections

    def connect(self, *, is_automatic: bool, is_root: bool = False) -> SimulatedConnection:
        """A connection whose handshake is to be sent."""
        connection = SimulatedConnection(self, is_automatic=is_automatic, is_root=is_root)
        self._connections[connection] = None
        return connection

    def close(self, connection: SimulatedConnection) -> None:
        """The client gives it up; the server hears of it, unless something on the link swallows that."""
        connection.alive = False
        self._connections.pop(connection, None)
        session = connection.session
        if session is None:
            return
        if any(getattr(fault, "swallows_requests", False) for fault in self.faults):
            self._stranded.append(session)
        else:
            connection.session = None
            session.end()

    # ------------------------------------------------------------------------------------------- flights

    def send(self, flight: Flight) -> None:
        """Begin: the answer is due after both ways and the server's work, unless a fault has it otherwise."""
        self._leave(flight)
        for fault in self.faults:
            fault.meets(self, flight)
        self._depart(flight)

    def round_trip(self, flight: Flight) -> None:
        """`send`, for a client that blocks; all of it at once, without events, if nobody else is due until its end."""
        self._leave(flight)
        hub = self.hub
        if self.faults or not hub.skip_to(flight.arrive_ms):
            for fault in self.faults:
                fault.meets(self, flight)
            self._depart(flight)
            return
        flight.departed = True
        hub.in_callback = True
        try:
            self._serve(flight)
        finally:
            hub.in_callback = False
        if flight.over:
            return
        if self._comes_back_at_once(flight):
            flight.connection.fresh = False
            self._end(flight)
        else:
            self.aim(flight)

    def _comes_back_at_once(self, flight: Flight) -> bool:
        """Whether nothing has happened to its answer, and nothing can; the clock stands at its landing then."""
        due_ms, limit_ms = flight.due_ms, flight.limit_ms
        if self.faults or due_ms is None or flight.doom is not None or flight.timer is not None:
            return False
        is_patient = limit_ms is None or due_ms <= flight.sent_ms + limit_ms
        return is_patient and self.hub.skip_to(due_ms)

    def _leave(self, flight: Flight) -> None:
        """It is on its way, and nothing has happened to it yet."""
        bits, now_ms = self.draw.bits, self.hub.now_ms
        flight.sent_ms = now_ms
        way_ms = bits(1) * _NETWORK_MS_MAX
        if flight.connection.fresh:
            way_ms += _HANDSHAKE_MS
        flight.arrive_ms = arrive_ms = now_ms + way_ms
        flight.due_ms = arrive_ms + bits(1) * _NETWORK_MS_MAX
        self.flights[flight] = None
        flight.connection.flight = flight

    def _depart(self, flight: Flight) -> None:
        """As the faults have left it."""
        flight.departed = True
        if flight.works and flight.doom != REFUSED and not flight.held:
            session = flight.connection.session
            if flight.sql == QUERY and session is not None and self.server.looks_up_at_once:
                self._serve(flight)  # at once: the table never changes, and it is one event less
            else:
                self.arrives(flight)
        self.aim(flight)

    def arrives(self, flight: Flight) -> None:
        """The server will get it at `arrive_ms`."""
        if not flight.served:
            flight.arrival = self.hub.at(flight.arrive_ms, partial(self._arrive, flight))

    def _arrive(self, flight: Flight) -> None:
        flight.arrival = None
        self._serve(flight)
        if not flight.over:
            self.aim(flight)

    def _serve(self, flight: Flight) -> None:
        """The server executes it, or lets it wait for a lock."""
        flight.served = True
        connection = flight.connection
        if flight.is_handshake:
            self._greet(flight)
            return
        session = connection.session
        if session is None or not session.alive:  # the server ended it meanwhile
            self.doom_at(flight, self.hub.now_ms, LOST_CONNECTION)
            return
        back_ms = (
            0 if flight.due_ms is None else max(0, flight.due_ms - max(flight.arrive_ms, self.hub.now_ms))
        )
        waits = True

        def done(reply: Reply) -> None:
            nonlocal waits
            flight.reply, flight.code, flight.message = reply, reply.code, reply.message
            flight.succeeded = reply.code is None
            if not waits or reply.more_ms:
                self._answer(flight, reply, back_ms, later=not waits)
            waits = False

        if flight.many:
            session.execute_many(flight.sql, flight.args, done)
        else:
            session.execute(flight.sql, flight.args, done)
        if waits:
            waits = False
            flight.due_ms = None

    def _greet(self, flight: Flight) -> None:
        connection = flight.connection
        try:
            session = self.server.open_session(is_root=connection.is_root, is_lookups=connection.is_automatic)
        except ConnectRefused as refused:
            self.doom_at(flight, max(self.hub.now_ms, flight.arrive_ms), refused.code)
            return
        session.autocommit = connection.is_automatic
        session.on_end = partial(self._ended_by_server, connection)
        session.on_interrupt = partial(self._interrupted, connection)
        connection.session = session

    def _ended_by_server(self, connection: SimulatedConnection, code: int) -> None:
        """KILL, a restart, silence: the client finds out when it uses the connection next."""
        del code
        connection.alive, connection.session = False, None
        self._connections.pop(connection, None)

    def _interrupted(self, connection: SimulatedConnection, reply: Reply) -> None:
        """Its statement sleeps in the server, and is killed: this is its answer."""
        flight = connection.flight
        if flight is not None and not flight.over and flight.doom is None and not flight.kept:
            flight.reply, flight.code, flight.message = reply, reply.code, reply.message
            flight.due_ms = self.hub.now_ms
            self.aim(flight)

    def _answer(self, flight: Flight, reply: Reply, back_ms: int, *, later: bool) -> None:
        """It took the server a while."""
        if flight.over:
            return
        if later:
            if flight.doom is None and not flight.kept:
                flight.due_ms = self.hub.now_ms + back_ms + reply.more_ms
                self.aim(flight)
        elif flight.due_ms is not None:
            flight.due_ms += reply.more_ms

    def aim(self, flight: Flight) -> None:
        """(Re)set the alarm of `flight`: when its answer is due, or when its client loses patience."""
        if flight.timer is not None:
            flight.alarm.drop(flight.timer)
            flight.timer = None
        due_ms = flight.due_ms
        limit_ms = None if flight.limit_ms is None else flight.sent_ms + flight.limit_ms
        if due_ms is not None and (limit_ms is None or due_ms <= limit_ms):
            flight.timer = flight.alarm.set(due_ms, partial(self._land, flight))
        elif limit_ms is not None:
            code = REFUSED if flight.is_handshake else LOST_CONNECTION
            flight.timer = flight.alarm.set(limit_ms, partial(self.fail, flight, code))

    def holds(self, flight: Flight) -> tuple[int, int] | None:
        """Let it neither arrive nor be answered until it `goes_on`: in how many ms it would have; None: no need."""
        if flight.due_ms is None or flight.doom is not None:
            return None
        now_ms = self.hub.now_ms
        flight.held = flight.is_asking(now_ms) and not flight.served
        self._forget_arrival(flight)
        left_ms = (max(0, flight.arrive_ms - now_ms), max(0, flight.due_ms - now_ms))
        flight.due_ms = None
        return left_ms

    def goes_on(self, flight: Flight, left_ms: tuple[int, int]) -> None:
        """What was held, as if no time had passed; unless it has ended otherwise."""
        if flight.over or flight.swallowed or flight.doom is not None:
            return
        arrives_in_ms, due_in_ms = left_ms
        now_ms = self.hub.now_ms
        flight.kept = False
        if flight.served and not flight.is_handshake and flight.reply is None:
            return  # it still waits in the server, which will answer
        flight.due_ms = now_ms + due_in_ms
        if flight.held:
            flight.held, flight.arrive_ms = False, now_ms + arrives_in_ms
            if flight.works:
                self.arrives(flight)
        self.aim(flight)

    def doom_at(self, flight: Flight, instant_ms: int, code: int | str) -> None:
        """It will land at that instant, with that error."""
        flight.due_ms, flight.doom = instant_ms, code

    def delays_request(self, flight: Flight, ms: int) -> None:
        """It arrives so much later, or earlier."""
        flight.arrive_ms += ms
        if flight.arrival is not None:
            self._forget_arrival(flight)
            self.arrives(flight)

    def serve_late(self, flight: Flight) -> None:
        """The server executes it though its client has hung up: it hears of that only afterwards."""
        if not flight.served:
            self._serve(flight)

    def _land(self, flight: Flight) -> None:
        if flight.over:
            return
        if flight.arrival is not None:  # of one instant with its answer, and drawn to come behind it
            self.hub.cancel(flight.arrival)
            flight.arrival = None
            self._serve(flight)
            if flight.due_ms is None or flight.due_ms > self.hub.now_ms:
                self.aim(flight)
                return
        if flight.doom is not None:
            self.fail(flight, flight.doom)
            return
        flight.connection.fresh = False
        self._end(flight)

    def fail(self, flight: Flight, code: int | str) -> None:
        """Its connection is lost, or never was; the client hears of it now."""
        if flight.over:
            return
        flight.code, flight.reply = code, None
        flight.message = "the simulated connection is gone"
        self.close(flight.connection)
        self._end(flight)

    def _end(self, flight: Flight) -> None:
        flight.over = True
        flight.timer = None  # it holds the flight, which so goes at once, and not as garbage of a cycle
        self._forget_arrival(flight)
        del self.flights[flight]
        flight.connection.flight = None
        landed, flight.landed = flight.landed, _heard  # it holds who waits, who will hold the flight
        landed(flight)

    def abandon(self, flight: Flight) -> None:
        """The client is gone, or wants no answer; what has not arrived may arrive in this moment, or never."""
        if flight.over:
            return
        flight.over = True
        self.flights.pop(flight, None)
        if flight.timer is not None:
            flight.alarm.drop(flight.timer)
            flight.timer = None  # as at its end
        session = flight.connection.session
        if flight.arrival is not None:
            self._forget_arrival(flight)
            if self.draw.bits(1):
                self._serve(flight)
        if session is not None and flight.served:
            session.abandon()

    def never_arrives(self, flight: Flight) -> None:
        """The request itself is lost."""
        self._forget_arrival(flight)
        flight.works = False

    def _forget_arrival(self, flight: Flight) -> None:
        if flight.arrival is not None:
            self.hub.cancel(flight.arrival)
            flight.arrival = None

    def answers(self, flight: Flight, code: int) -> None:
        """With an error, and without having done anything; the connection lives on."""
        self.never_arrives(flight)
        flight.served, flight.reply, flight.code = True, None, code
        flight.message = "answered in the server's place"
        flight.due_ms = max(self.hub.now_ms, flight.arrive_ms)

    def breaks(self, flight: Flight, *, worked: bool, code: int | str = LOST_CONNECTION) -> None:
        """Its connection ends on the way: with its answer, or before its request can take effect."""
        if worked:
            flight.doom = code
            return
        self.never_arrives(flight)
        self.doom_at(flight, max(self.hub.now_ms, flight.arrive_ms), code)

    def cut(self) -> int:
        """End every connection; how many there were."""
        live = self.connections
        for flight in self.flights:
            self.never_arrives(flight)
            self.lose(flight, LOST_CONNECTION)
        for connection in live:
            self.close(connection)
        self.hears_of_ends()
        return len(live)

    def lose_all(self) -> None:
        """Whatever is on its way is lost; the sessions are for the server to end."""
        for flight in self.flights:
            self.never_arrives(flight)
            self.lose(flight, LOST_CONNECTION)

    def lose(self, flight: Flight, code: int | str) -> None:
        """Its connection ends at this instant; its client hears of it in its own time."""
        self.doom_at(flight, self.hub.now_ms, code)
        self.aim(flight)

    # --------------------------------------------------------------------------------------------- faults

    def begin(self, fault: LinkAct) -> None:
        """`fault` acts."""
        self.faults.append(fault)
        fault.begins(self)

    def heal(self, fault: LinkAct) -> None:
        """`fault` acts no more."""
        self.faults.remove(fault)
        fault.ends(self)
        if not any(getattr(one, "swallows_requests", False) for one in self.faults):
            self.hears_of_ends()

    def hears_of_ends(self) -> None:
        """The proxy closes what had a hole: the server learns which of its clients are gone."""
        stranded, self._stranded = self._stranded, []
        for session in stranded:
            session.end()
