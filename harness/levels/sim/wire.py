"""A user's own client at level sim: its bytes become flights on a simulated link, and their outcomes bytes.

Answers to a socket, asyncio's transport, and `socket.create_connection`. Invariant: nothing that the client opens
leaves the simulation: what is not the run's database is refused, with the line that asked for it.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import Alarm, Flight, SimulatedConnection, SimulatedLink
from harness.database.simulated.replies import LOST_CONNECTION, REFUSED, WireRequest, statement_of
from harness.levels.sim import subtask_loop
from harness.levels.sim.bridge import Bridge
from harness.levels.sim.bridged_session import BridgedSession, Command, CommandReader, Entry, NotFollowed
from harness.levels.sim.drivers import AT
from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.system.errors import SutError

_LOST: Final = frozenset({LOST_CONNECTION, REFUSED})


class WireFlight(Flight, eq=False):
    """A command of a user's client. Mutable, as a flight is."""

    command: Command | None = None
    """None: the handshake."""
    known: tuple[int, ...] = ()
    """Bytes of each packet of the latest reply to an equal statement."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `Flight`; the proxy's own."""
        return super().kinds if self.command is None else self.command.exchange.kinds()

    @property
    def statement(self) -> WireRequest:
        """See `Flight`; what is not `known` of the reply is what the statement's text tells."""
        if self.command is None:
            return super().statement
        row_bytes = self.connection.link.row_bytes
        answers = self.known or statement_of(self.sql, (), many=False, row_bytes=row_bytes).answers
        return WireRequest(len(self.command.data), answers)


class _Client:
    """The client's end of one connection. Mutable."""

    def __init__(
        self,
        dialer: Dialer,
        *,
        alarm: Alarm,
        deliver: Callable[[bytes], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        """`deliver` gets the server's bytes; `lost` is called once, by whoever ends the connection."""
        self._dialer = dialer
        self._alarm = alarm
        self._deliver = deliver
        self._lost = lost
        self._reader = CommandReader()
        self._connection: SimulatedConnection = dialer.link.connect(is_automatic=True)
        self._connection.opens = partial(BridgedSession, bridge=dialer.bridge)
        self._connection.gone = self._gone
        self._flight: WireFlight | None = None
        self._unsent: deque[Command] = deque()
        """Commands that the server reads when it has answered the one before."""
        self.is_over = False

    def greet(self) -> bool:
        """Connect; whether it is refused."""
        flight = self._flight = WireFlight(self._connection, self._alarm, self._landed)
        self._dialer.link.send(flight)
        return flight.doom == REFUSED

    def write(self, data: bytes) -> None:
        """Bytes of the client."""
        try:
            for one in self._reader.read(data):
                if self.is_over:
                    return
                self._take(one)
        except NotFollowed as error:
            self._dialer.end_run(f"level sim cannot follow the packets of the lookup's client: {error}")

    def _take(self, one: Entry | Command | None) -> None:
        if one is None:
            self.close()
        elif isinstance(one, Entry):
            session = self._connection.session
            assert isinstance(session, BridgedSession), "a client is greeted before it logs in"
            session.log_in(one.login)
            self._deliver(self._reader.welcome(one))
        elif self._flight is None and not self._unsent:
            self._send(one)
        else:
            self._unsent.append(one)

    def _send(self, command: Command) -> None:
        exchange = command.exchange
        sql = exchange.statement() or f"<{exchange.kinds()[0]}>"
        flight = self._flight = WireFlight(
            self._connection,
            self._alarm,
            self._landed,
            sql=sql,
            args=(command,),
            command=command,
            known=self._dialer.bridge.sizes.get(exchange.text, ()),
        )
        self._dialer.link.send(flight)

    def _landed(self, flight: Flight) -> None:
        assert isinstance(flight, WireFlight), "a user's client sends its own flights"
        self._flight = None
        if self.is_over:
            return
        command, reply, session = flight.command, flight.reply, self._connection.session
        if flight.code is not None:
            self._dialer.bridge.met_error(flight.code)
        if reply is not None and reply.rows:
            self._deliver(reply.rows[0][0])
        elif flight.code is None:
            if session is not None:  # else the server has ended it while the greeting was under way
                self._deliver(self._reader.ours(self._dialer.bridge.greeting(session.number)))
        elif flight.code not in _LOST:
            self._deliver(self._reader.failure(command, flight.code, flight.message))
        elif command is not None and flight.passed:
            self._deliver(command.reply[: flight.passed])
        if not self._connection.alive:
            self._end()
        elif self._unsent:
            self._send(self._unsent.popleft())

    def _gone(self) -> None:
        """The connection was ended while the client waited for nothing."""
        if self._flight is None:
            self._end()

    def _end(self) -> None:
        """A proxy or a server that goes closes the connection or resets it: both are drawn."""
        if not self.is_over:
            self.is_over = True
            is_reset = self._dialer.link.draw.bits(1)
            self._lost(
                ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) if is_reset else None
            )

    def close(self) -> None:
        """The client closes; a statement in flight is executed now or never."""
        if self.is_over:
            return
        self.is_over = True
        self._unsent.clear()
        if self._flight is not None:
            self._dialer.link.abandon(self._flight)
        self._connection.gone = None
        self._dialer.link.close(self._connection)
        self._lost(None)

    def vanish(self) -> None:
        """The client's process has ended."""
        self._lost = lambda _: None
        self.close()


class WireClient(Protocol):
    """The client's end of a connection, below its socket."""

    def greet(self) -> bool:
        """Connect; whether it is refused."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


MakesClient = Callable[[Callable[[bytes], None], Callable[[Exception | None], None]], WireClient]
"""(gets the server's bytes; called once, when the other end has gone: its error, or None for a FIN) -> the client."""


class Waiter(Protocol):
    """What blocks the code that calls a blocking socket."""

    @property
    def now_ms(self) -> int: ...

    def wait(self, until_ms: int | None) -> None:
        """Until then, or until `wake`."""

    def wake(self) -> None: ...


class _NoSocket:
    """The socket that clients set options of; it has no descriptor, so they write to the transport."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def fileno(self) -> int:
        return -1

    def setsockopt(self, *_: object) -> None:
        """Nothing of a simulated link depends on it."""

    def getsockopt(self, *_: object) -> int:
        return 0

    def getsockname(self) -> tuple[str, int]:
        return (AT.host, 0)

    def getpeername(self) -> tuple[str, int]:
        return (AT.host, AT.port)


class WireTransport(asyncio.Transport):
    """asyncio's end of a connection. Mutable."""

    def __init__(self, loop: asyncio.AbstractEventLoop, made: MakesClient) -> None:
        super().__init__({"socket": _NoSocket(), "peername": (AT.host, AT.port), "sockname": (AT.host, 0)})
        self._loop = loop
        self.client = made(self._received, lambda why: self._soon(self._lose, why))
        self.lost: asyncio.Future[None] = loop.create_future()
        self._protocol: Any = None
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        self._kept: deque[bytes] = deque()
        """What came while reading was paused."""

    def _soon(self, callback: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection is made."""
        self._protocol = protocol
        protocol.connection_made(self)

    def _received(self, data: bytes) -> None:
        self._kept.append(data)
        self._soon(self._hand_over)

    def _hand_over(self) -> None:
        while self._kept and not self._is_paused and not self._is_lost:
            data = self._kept.popleft()
            if not isinstance(self._protocol, asyncio.BufferedProtocol):
                self._protocol.data_received(data)
                continue
            while data:
                buffer: Any = self._protocol.get_buffer(len(data))
                size = min(len(buffer), len(data))
                buffer[:size] = data[:size]
                self._protocol.buffer_updated(size)
                data = data[size:]

    def _lose(self, why: Exception | None) -> None:
        if self._is_lost:
            return
        if not self.lost.done():
            self.lost.set_result(None)
        if self._protocol is None:
            return
        self._hand_over()
        self._is_lost = True
        if why is None and not self._is_closing:
            self._protocol.eof_received()
        self._is_closing = True
        self._protocol.connection_lost(why)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self.client.write(bytes(data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.client.close()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._soon(self._hand_over)

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol


class BlockingSocket(_NoSocket):
    """The end of a client that blocks the loop's thread, and so its whole attempt. Mutable."""

    def __init__(self, waiter: Waiter, made: MakesClient, *, limit_s: float | None) -> None:
        """Raises ConnectionRefusedError."""
        self._waiter = waiter
        self._limit_s = limit_s
        self._data = b""
        self._is_over = False
        self._why: Exception | None = None
        self.client = made(self._received, self._lose)
        if self.client.greet():
            self._wait(lambda: self._is_over)
            raise connection_refused()

    def _received(self, data: bytes) -> None:
        self._data += data
        self._waiter.wake()

    def _lose(self, why: Exception | None) -> None:
        self._is_over, self._why = True, why
        self._waiter.wake()

    def _wait(self, until: Callable[[], object]) -> None:
        """Raises TimeoutError behind the socket's limit."""
        waiter = self._waiter
        due_ms = None if self._limit_s is None else waiter.now_ms + max(1, round(1000 * self._limit_s))
        while not until():
            if due_ms is not None and waiter.now_ms >= due_ms:
                raise TimeoutError("timed out")
            waiter.wait(due_ms)

    def recv(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        self._wait(lambda: self._data or self._is_over)
        if not self._data and self._why is not None:
            raise self._why
        data, self._data = self._data[:size], self._data[size:]
        return data

    def sendall(self, data: bytes) -> None:
        if self._is_over:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self.client.write(bytes(data))

    def settimeout(self, limit_s: float | None) -> None:
        self._limit_s = limit_s

    def gettimeout(self) -> float | None:
        return self._limit_s

    def makefile(self, mode: str = "rb", *_: object, **__: object) -> io.BufferedReader:
        """A file for reading."""
        assert mode == "rb", "a client of MySQL reads bytes"
        return io.BufferedReader(_Received(self))

    def shutdown(self, how: int) -> None:
        """`close` ends both directions."""

    def close(self) -> None:
        self.client.close()


class _Received(io.RawIOBase):
    """What a blocking socket receives, as a file."""

    def __init__(self, of: BlockingSocket) -> None:
        self._of = of

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._of.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _OfActor:
    """Suspends an attempt."""

    def __init__(self, actor: Actor, loop: SubtaskLoop) -> None:
        self._actor, self._loop = actor, loop

    @property
    def now_ms(self) -> int:
        return self._actor.hub.now_ms

    def wait(self, until_ms: int | None) -> None:
        self._actor.wait(until_ms)
        while self._actor.paused:
            self._actor.wait(None)
        self._loop.catch_up()

    def wake(self) -> None:
        self._actor.wake()


def connection_refused() -> ConnectionRefusedError:
    return ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


class Wire:
    """How the lookups of one run reach its real server. Mutable: knows the attempts that live."""

    def __init__(
        self,
        bridge: Bridge,
        hub: Hub,
        *,
        refuse: Callable[[SutError], None],
        met: Callable[[int | str], None],
    ) -> None:
        self._bridge = bridge
        bridge.met_error = met
        self._hub = hub
        self._refuse = refuse
        self._dialers: dict[Actor, Dialer] = {}

    @contextmanager
    def dialing(self, loop: SubtaskLoop, actor: Actor, link: SimulatedLink) -> Iterator[None]:
        """An attempt may connect while the block lasts; then its connections are closed, as by a process that ends."""
        dialer = self._dialers[actor] = Dialer(link, self._bridge, loop=loop, refuse=self._refuse)
        loop.dial, loop.leaves = dialer.connect, dialer.refuse
        try:
            yield
        finally:
            del self._dialers[actor]
            dialer.hang_up()

    def of_attempt(self) -> tuple[Actor, Dialer] | None:
        """The attempt whose code runs now; None: it is the harness's."""
        actor = self._hub.current
        dialer = None if actor is None else self._dialers.get(actor)
        return None if actor is None or dialer is None else (actor, dialer)

    def raise_failure(self) -> None:
        """Raises the WorldError of the server, if there was one."""
        if self._bridge.failure is not None:
            raise self._bridge.failure

    def threats(self) -> Iterator[str]:
        """What the lookup asked for that is not virtual, in a sentence."""
        if counted := self._bridge.not_virtual:
            met = ", ".join(f"{name} ({times})" for name, times in sorted(counted.items()))
            yield f"not virtual, so another run of this seed may differ: {met}"


class Dialer:
    """Opens the connections of one attempt's lookup, in place of the network. Mutable: knows those it has opened."""

    def __init__(
        self, link: SimulatedLink, bridge: Bridge, *, loop: SubtaskLoop, refuse: Callable[[SutError], None]
    ) -> None:
        self.link = link
        self.bridge = bridge
        self.loop = loop
        self._refuse = refuse
        self._clients: list[_Client] = []

    async def connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: object, port: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """See `loop.create_connection`."""
        self._refuse_elsewhere(host, port)
        transport, protocol = WireTransport(self.loop, self._made(self.loop)), protocol_factory()
        is_refused = transport.client.greet()
        try:
            await (transport.lost if is_refused else asyncio.sleep(0))
        except BaseException:
            transport.close()
            raise
        if is_refused:
            raise connection_refused()
        transport.begin(protocol)
        return transport, protocol

    def blocking(
        self, address: tuple[object, object], limit_s: float | None, *, actor: Actor
    ) -> BlockingSocket:
        """See `socket.create_connection`."""
        self._refuse_elsewhere(*address)
        return BlockingSocket(_OfActor(actor, self.loop), self._made(actor.hub), limit_s=limit_s)

    def _made(self, alarm: Alarm) -> MakesClient:
        def made(deliver: Callable[[bytes], None], lost: Callable[[Exception | None], None]) -> WireClient:
            client = _Client(self, alarm=alarm, deliver=deliver, lost=lost)
            self._clients.append(client)
            return client

        return made

    def hang_up(self) -> None:
        """Close what is open, as the machine does for a process that ends; nobody hears of it."""
        for client in self._clients:
            client.vanish()

    def _refuse_elsewhere(self, host: object, port: object) -> None:
        if (host, port) != (AT.host, AT.port):
            self.refuse(f"connects to {host}:{port}")

    def refuse(self, what: str) -> NoReturn:
        """End the run: the lookup leaves the simulation."""
        self.end_run(
            f"the lookup {what}, and level sim reaches nothing but the run's database ({_line_of_user()})"
        )

    def end_run(self, message: str) -> NoReturn:
        """End the run at level sim. Raises SutError; if the lookup swallows it, the run ends all the same."""
        error = SutError(message, fix="run it with --level live")
        self._refuse(error)
        raise error


_INSTALLED: Final = (
    "site-packages",
    "dist-packages",
    str(Path(asyncio.__file__).parent),
    str(Path(__file__)),
    subtask_loop.__file__,
    socket.__file__,
)


def _line_of_user() -> str:
    """The innermost line outside of installed packages and of this one."""
    frame = sys._getframe()  # noqa: SLF001 - the public way reads all source lines
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _INSTALLED):
        frame = frame.f_back
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"


@contextmanager
def no_real_sockets(wire: Wire) -> Iterator[None]:
    """While the block lasts, no code of an attempt reaches the network; for a process that is the run's alone.

    A process that an attempt starts and waits for is let be: mysql.connector asks `lsb_release` when it connects.
    """

    def create_connection(address: Any, timeout: Any = None, *args: Any, **options: Any) -> Any:
        found = wire.of_attempt()
        if found is None:
            return really_create(address, timeout, *args, **options)
        actor, dialer = found
        return dialer.blocking(address, timeout if isinstance(timeout, int | float) else None, actor=actor)

    def connect(sock: socket.socket, address: Any) -> None:
        found = wire.of_attempt()
        if found is not None:
            found[1].refuse(f"connects a socket to {address}")
        really_connect(sock, address)

    sockets: Any = socket
    really_create, really_connect = sockets.create_connection, sockets.socket.connect
    sockets.create_connection, sockets.socket.connect = create_connection, connect
    try:
        yield
    finally:
        sockets.create_connection, sockets.socket.connect = really_create, really_connect
