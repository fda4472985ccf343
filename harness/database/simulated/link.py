"""A simulated link: client connections through a proxy to the database, and the faults that act on them.

Answers to Toxiproxy in front of MySQL. Each statement is a flight: its request, the server's work, its reply;
a new connection's handshake is a flight too. A fault acts on flights under way when it begins and on flights
sent while it lasts, and counts what it changed. Client and session of a connection end separately: a client
that closes while a fault swallows requests leaves its session in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from harness.database.endpoint import QUERY
from harness.database.simulated.hub import Due, Hub
from harness.database.simulated.replies import (
    LOST_CONNECTION,
    REFUSED,
    ConnectRefused,
    SimulatedPacket,
    WireRequest,
    kinds_of,
    packets,
    statement_of,
)
from harness.database.simulated.server import Reply, SimulatedServer, SimulatedSession
from harness.system.choices import Draw
from harness.system.json_types import Json

_NETWORK_MS_MAX = 1
"""Maximum latency of one direction without faults."""
_HANDSHAKE_MS = 2
"""Added to a handshake's latency, for the greeting and its response."""


class SimulatedConnection:
    """One client connection. Mutable: the client's end ends once, the server's session possibly later."""

    __slots__ = (
        "alive",
        "flight",
        "fresh",
        "gone",
        "is_automatic",
        "is_root",
        "link",
        "opens",
        "session",
    )

    def __init__(self, link: SimulatedLink, *, is_automatic: bool, is_root: bool) -> None:
        self.link = link
        self.is_automatic = is_automatic
        """The session begins in autocommit and may execute a user's statements, as asyncmy's does."""
        self.is_root = is_root
        self.flight: Flight | None = None
        """The flight in progress, if any."""
        self.alive = True
        self.fresh = True
        """The handshake is not complete."""
        self.opens: Any = None
        """Makes the session in the server; None: a simulated one."""
        self.gone: Callable[[], None] | None = None
        """Called when the connection was ended, and not by its client; None: it notices at its next statement."""
        self.session: SimulatedSession | None = None
        """The session in the server; None before the handshake and after the session has ended."""


class Alarm(Protocol):
    """Calls back at an instant: the hub, or the event loop of the flight's client."""

    def at(self, instant_ms: int, callback: Callable[[], None], /) -> object:
        """Schedule `callback`; what is scheduled, for `cancel`."""

    def cancel(self, due: Any, /) -> None: ...


def _heard(flight: Flight) -> None:
    """Replaces the `landed` callback of a flight that has ended."""


class Flight(Struct, eq=False):
    """One statement on a connection, and its reply. Mutable: faults move `due_ms`, or set `doom`.

    `sql` is empty for the handshake. `works`: the server will execute the request. `landed(flight)` is called
    when the client receives the reply or an error, unless it abandoned the flight. `code`: the error, if any.
    """

    connection: SimulatedConnection
    alarm: Alarm
    landed: Callable[[Flight], None]
    sql: str = ""
    args: Sequence[Any] = ()
    many: bool = False
    """Whether `args` are the rows of one INSERT."""
    limit_ms: int | None = None
    """A blocking client's timeout for the reply; None: the client's own code sets a timeout."""
    reply: Reply | None = None
    code: int | str | None = None
    message: str = ""
    doom: int | str | None = None
    """The error with which the flight will end, whatever the server replies."""
    works: bool = True
    served: bool = False
    """The server has started or refused the request, or a fault has answered in the server's place."""
    succeeded: bool = False
    """The server executed the statement without an error, whatever the client receives."""
    sent_ms: int = 0
    arrive_ms: int = 0
    due_ms: int | None = None
    """When the client receives the reply or `doom`; None: no reply is in flight."""
    timer: Any = None
    arrival: Due | None = None
    waits: bool = False
    """Its statement waits in the server, whose reply will set `due_ms`."""
    over: bool = False
    held: bool = False
    """The request is held in transit, or by a server that does not read."""
    departed: bool = False
    kept: bool = False
    """A fault holds the reply back: the server's reply does not set `due_ms`."""
    swallowed: bool = False
    """A fault has discarded the request or the reply: `goes_on` does not resume the flight."""
    more_ms: int = 0
    """How long the server works on the statement; part of `due_ms` once it is served."""
    ended_ms: int | None = None
    """When the client had the reply or an error, or gave up."""
    answered: bool = False
    """The client had a reply."""
    passed: int = 0
    """How many bytes of the reply the client gets before the connection breaks."""

    @property
    def is_handshake(self) -> bool:
        """Whether the flight is a new connection's handshake, without a statement."""
        return not self.sql

    @property
    def kinds(self) -> tuple[str, ...]:
        """The message kinds by which a fault selects it."""
        return kinds_of(self.sql)

    @property
    def statement(self) -> WireRequest:
        """The wire form of the flight."""
        return statement_of(self.sql, self.args, many=self.many, row_bytes=self.connection.link.row_bytes)

    @property
    def is_sound(self) -> bool:
        """Whether a reply is in flight and no fault has doomed it."""
        return self.due_ms is not None and self.doom is None

    def late_ms(self, due_ms: int, *, more_ms: int, now_ms: int) -> int:
        """How much later it ends, or has not ended yet, than at `due_ms` and after the server's work.

        `more_ms`: the work that is in `due_ms` already. A wait for a lock is nobody's delay.
        """
        ended_ms = now_ms if self.ended_ms is None else self.ended_ms
        return 0 if self.waits else ended_ms - due_ms - (self.more_ms - more_ms)

    def packets(self) -> Iterator[SimulatedPacket]:
        return packets(self.statement)

    def is_asking(self, now_ms: int) -> bool:
        """Whether the request has not reached the server."""
        if self.held or not self.departed:
            return True
        return self.arrive_ms > now_ms if self.arrival is None else True


class MeetsFlights(Protocol):
    """Acts on a link's flights. If `swallows_requests` is true, the server does not see clients close."""

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Change when or how `flight`, whose request is sent now, will end."""


class LinkAct(MeetsFlights, Protocol):
    """A fault's action on links: begun and ended on each link."""

    def begins(self, link: SimulatedLink) -> None:
        """Start: act on the link's connections and flights of now; `on_message` acts on later flights."""

    def ends(self, link: SimulatedLink) -> None:
        """Heal: resume or lose the flights that the fault holds."""

    def evidence(self) -> Json:
        """What the fault did; empty: no effect."""


class SimulatedLink:
    """One link. Mutable: holds its connections, flights and active faults."""

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
        """Whether the link bypasses the proxy."""
        self.hub = hub
        self.draw = draw
        self.server = server
        self.row_bytes = row_bytes
        """Bytes by which the database pads each row."""
        self.flights: dict[Flight, None] = {}
        self.faults: list[MeetsFlights] = []
        self._connections: dict[SimulatedConnection, None] = {}
        self._stranded: list[SimulatedSession] = []
        """Sessions whose clients have closed their connections without the server noticing."""

    @property
    def connections(self) -> list[SimulatedConnection]:
        """Connections that neither the client nor the server has ended, the oldest first."""
        return list(self._connections)

    # --------------------------------------------------------------------------------------- connections

    def connect(self, *, is_automatic: bool, is_root: bool = False) -> SimulatedConnection:
        """Create a connection; the caller sends its handshake as a flight."""
        connection = SimulatedConnection(self, is_automatic=is_automatic, is_root=is_root)
        self._connections[connection] = None
        return connection

    def close(self, connection: SimulatedConnection) -> None:
        """Close the client's end, and the session too, unless a fault on the link swallows requests."""
        connection.alive = False
        self._connections.pop(connection, None)
        if connection.gone is not None:
            connection.gone()
        session = connection.session
        if session is None:
            return
        if self.faults and any(getattr(fault, "swallows_requests", False) for fault in self.faults):
            self._stranded.append(session)
        else:
            connection.session = None
            session.end()

    # ------------------------------------------------------------------------------------------- flights

    def send(self, flight: Flight, *, blocks: bool = False) -> None:
        """Send the request; without faults the reply is due after both latencies and the server's work.

        `blocks`: the client's actor waits until then, so if nothing else is due meanwhile the flight ends here.
        """
        bits, hub, connection = self.draw.bits, self.hub, flight.connection
        flight.sent_ms = now_ms = hub.now_ms
        arrive_ms = now_ms + bits(1) * _NETWORK_MS_MAX
        if connection.fresh:
            arrive_ms += _HANDSHAKE_MS
        flight.arrive_ms = arrive_ms
        flight.due_ms = arrive_ms + bits(1) * _NETWORK_MS_MAX
        self.flights[flight] = None
        connection.flight = flight
        if blocks and not self.faults and hub.skip_to(arrive_ms):
            flight.departed = True
            hub.in_callback = True
            try:
                self._serve(flight)
            finally:
                hub.in_callback = False
            if flight.over:
                return
            due_ms, limit_ms = flight.due_ms, flight.limit_ms
            if (
                not flight.waits
                and flight.doom is None
                and flight.timer is None
                and (limit_ms is None or due_ms <= now_ms + limit_ms)
                and hub.skip_to(due_ms)
            ):
                connection.fresh = False
                connection.flight = None
                flight.over = True
                del self.flights[flight]
            else:
                self.aim(flight)
            return
        for fault in self.faults:
            fault.on_message(self, flight)
        flight.departed = True
        if flight.works and flight.doom != REFUSED and not flight.held:
            server = self.server
            at_once = server.customers_holder is None and server.tables.customers.never_changes
            if flight.sql == QUERY and connection.session is not None and at_once:
                self._serve(flight)  # before it arrives: the table does not change; saves an event
            else:
                flight.arrival = hub.at(flight.arrive_ms, partial(self._arrive, flight))
        self.aim(flight)

    def arrives(self, flight: Flight) -> None:
        """Schedule the request's arrival in the server at `arrive_ms`."""
        if not flight.served:
            flight.arrival = self.hub.at(flight.arrive_ms, partial(self._arrive, flight))

    def _arrive(self, flight: Flight) -> None:
        flight.arrival = None
        self._serve(flight)
        if not flight.over:
            self.aim(flight)

    def _serve(self, flight: Flight) -> None:
        """The server executes the request; its statement may have to wait for a lock."""
        flight.served = True
        session = flight.connection.session
        if not flight.sql:
            self._greet(flight)
            return
        if session is None or not session.alive:  # the server ended the session meanwhile
            self.doom_at(flight, self.hub.now_ms, LOST_CONNECTION)
            return
        since_ms, due_ms = self.hub.now_ms, flight.due_ms
        if since_ms < flight.arrive_ms:  # noqa: PLR1730 - hot path, as in `Hub.at`
            since_ms = flight.arrive_ms
        back_ms = 0 if due_ms is None or due_ms < since_ms else due_ms - since_ms
        late = partial(self._answered, flight, back_ms)
        reply = session.execute(flight.sql, flight.args, late, many=flight.many)
        if reply is not None:
            flight.reply, flight.code, flight.message = reply, reply.code, reply.message
            flight.succeeded = reply.code is None
            if reply.more_ms and not flight.over and flight.due_ms is not None:
                flight.due_ms += reply.more_ms
                flight.more_ms = reply.more_ms
        elif flight.reply is None:
            flight.waits, flight.due_ms = True, None

    def _answered(self, flight: Flight, back_ms: int, reply: Reply) -> None:
        """The server answers a statement that has waited for a lock, or that a deadlock ended at once."""
        flight.reply, flight.code, flight.message = reply, reply.code, reply.message
        flight.succeeded = reply.code is None
        if flight.waits and not flight.over and flight.doom is None and not flight.kept:
            flight.due_ms = self.hub.now_ms + back_ms + reply.more_ms
            self.aim(flight)

    def _greet(self, flight: Flight) -> None:
        connection = flight.connection
        try:
            session = self.server.open_session(
                is_root=connection.is_root, is_lookups=connection.is_automatic, kind=connection.opens
            )
        except ConnectRefused as refused:
            self.doom_at(flight, max(self.hub.now_ms, flight.arrive_ms), refused.code)
            return
        session.autocommit = connection.is_automatic
        session.on_end = partial(self._ended_by_server, connection)
        session.on_interrupt = partial(self._interrupted, connection)
        connection.session = session

    def _ended_by_server(self, connection: SimulatedConnection, code: int) -> None:
        """The server ended the session, e.g. by KILL; an idle client notices at its next statement."""
        del code
        connection.alive, connection.session = False, None
        self._connections.pop(connection, None)
        if connection.gone is not None:
            connection.gone()

    def _interrupted(self, connection: SimulatedConnection, reply: Reply) -> None:
        """The statement in flight was killed during its sleep in the server: `reply` becomes its reply."""
        flight = connection.flight
        if flight is not None and not flight.over and flight.doom is None and not flight.kept:
            flight.reply, flight.code, flight.message = reply, reply.code, reply.message
            flight.due_ms = self.hub.now_ms
            self.aim(flight)

    def aim(self, flight: Flight) -> None:
        """(Re)set the alarm of `flight` to `due_ms`, or to its client's timeout if that comes first."""
        if flight.timer is not None:
            flight.alarm.cancel(flight.timer)
            flight.timer = None
        due_ms = flight.due_ms
        limit_ms = None if flight.limit_ms is None else flight.sent_ms + flight.limit_ms
        if due_ms is not None and (limit_ms is None or due_ms <= limit_ms):
            flight.timer = flight.alarm.at(due_ms, partial(self._land, flight))
        elif limit_ms is not None:
            code = REFUSED if flight.is_handshake else LOST_CONNECTION
            flight.timer = flight.alarm.at(limit_ms, partial(self.fail, flight, code))

    def holds(self, flight: Flight) -> tuple[int, int] | None:
        """Suspend a flight until `goes_on`; ms left to arrival and reply. None, no effect: not `is_sound`."""
        if flight.due_ms is None or flight.doom is not None:
            return None
        now_ms = self.hub.now_ms
        flight.held = flight.is_asking(now_ms) and not flight.served
        self._forget_arrival(flight)
        left_ms = (max(0, flight.arrive_ms - now_ms), max(0, flight.due_ms - now_ms))
        flight.due_ms = None
        return left_ms

    def goes_on(self, flight: Flight, left_ms: tuple[int, int]) -> None:
        """Resume a held flight with its remaining times, unless it was ended, swallowed or doomed."""
        if flight.over or flight.swallowed or flight.doom is not None:
            return
        arrives_in_ms, due_in_ms = left_ms
        now_ms = self.hub.now_ms
        flight.kept = False
        if flight.served and not flight.is_handshake and flight.reply is None:
            return  # its statement still waits in the server, whose reply will set `due_ms`
        flight.due_ms = now_ms + due_in_ms
        if flight.held:
            flight.held, flight.arrive_ms = False, now_ms + arrives_in_ms
            if flight.works:
                self.arrives(flight)
        self.aim(flight)

    def doom_at(self, flight: Flight, instant_ms: int, code: int | str) -> None:
        """Make the flight end at `instant_ms` with error `code`; takes effect with the next `aim`."""
        flight.due_ms, flight.doom = instant_ms, code

    def delays_request(self, flight: Flight, ms: int) -> None:
        """Move the request's arrival by `ms`, later or (negative) earlier."""
        flight.arrive_ms += ms
        if flight.arrival is not None:
            self._forget_arrival(flight)
            self.arrives(flight)

    def serve_late(self, flight: Flight) -> None:
        """Execute a request whose client has closed: the server reads the request before the close."""
        if not flight.served:
            self._serve(flight)

    def _land(self, flight: Flight) -> None:
        if flight.over:
            return
        if flight.arrival is not None:  # due at the reply's instant, and ordered after it by the draw
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
        flight.answered = True
        self._end(flight)

    def fail(self, flight: Flight, code: int | str) -> None:
        """End the flight with error `code` and close its connection; the client receives the error now."""
        if flight.over:
            return
        flight.code, flight.reply = code, None
        flight.message = "the simulated connection is gone"
        self.close(flight.connection)
        self._end(flight)

    def _end(self, flight: Flight) -> None:
        flight.over = True
        flight.ended_ms = self.hub.now_ms
        flight.timer = None  # breaks a reference cycle, so that the flight is freed at once
        if flight.arrival is not None:
            self._forget_arrival(flight)
        del self.flights[flight]
        flight.connection.flight = None
        landed, flight.landed = flight.landed, _heard  # breaks the cycle through the waiting client
        landed(flight)

    def abandon(self, flight: Flight) -> None:
        """The client has closed or cancelled: no reply; a request in transit arrives now or never (draw)."""
        if flight.over:
            return
        flight.over = True
        flight.ended_ms = self.hub.now_ms
        self.flights.pop(flight, None)
        if flight.timer is not None:
            flight.alarm.cancel(flight.timer)
            flight.timer = None  # breaks a reference cycle, as in `_end`
        session = flight.connection.session
        if flight.arrival is not None:
            self._forget_arrival(flight)
            if self.draw.bits(1):
                self._serve(flight)
        if session is not None and flight.served:
            session.abandon()

    def never_arrives(self, flight: Flight) -> None:
        """Lose the request, if it has not reached the server."""
        self._forget_arrival(flight)
        flight.works = False

    def _forget_arrival(self, flight: Flight) -> None:
        if flight.arrival is not None:
            self.hub.cancel(flight.arrival)
            flight.arrival = None

    def answers(self, flight: Flight, code: int) -> None:
        """Reply with error `code` in the server's place, without effect there; the connection stays open."""
        self.never_arrives(flight)
        flight.served, flight.reply, flight.code = True, None, code
        flight.message = "answered in the server's place"
        flight.due_ms = max(self.hub.now_ms, flight.arrive_ms)

    def breaks(
        self, flight: Flight, *, worked: bool, code: int | str = LOST_CONNECTION, passed: int = 0
    ) -> None:
        """Break the flight's connection: with the reply (`worked`), or before the request can take effect.

        `passed`: how many bytes of the reply come through.
        """
        if worked:
            flight.doom, flight.passed = code, passed
            return
        self.never_arrives(flight)
        self.doom_at(flight, max(self.hub.now_ms, flight.arrive_ms), code)

    def cut(self) -> int:
        """Close every connection; returns their number."""
        live = self.connections
        for flight in self.flights:
            self.never_arrives(flight)
            self.lose(flight, LOST_CONNECTION)
        for connection in live:
            self.close(connection)
        self.hears_of_ends()
        return len(live)

    def lose_all(self) -> None:
        """Lose every flight, without ending its session: the server does that."""
        for flight in self.flights:
            self.never_arrives(flight)
            self.lose(flight, LOST_CONNECTION)

    def lose(self, flight: Flight, code: int | str) -> None:
        """Doom the flight at this instant; its client receives the error by its alarm."""
        self.doom_at(flight, self.hub.now_ms, code)
        self.aim(flight)

    # --------------------------------------------------------------------------------------------- faults

    def begin(self, fault: LinkAct) -> None:
        """Activate `fault` on this link."""
        self.faults.append(fault)
        fault.begins(self)

    def heal(self, fault: LinkAct) -> None:
        """Deactivate `fault`; end stranded sessions if no other fault swallows requests."""
        self.faults.remove(fault)
        fault.ends(self)
        if not any(getattr(one, "swallows_requests", False) for one in self.faults):
            self.hears_of_ends()

    def hears_of_ends(self) -> None:
        """The proxy closes affected connections: the server ends sessions whose clients have closed."""
        stranded, self._stranded = self._stranded, []
        for session in stranded:
            session.end()
