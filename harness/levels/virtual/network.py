"""A network in virtual time: sockets, the pump and the event loop by which our own proxy works on it unchanged.

Answers to the kernel's TCP on loopback. Invariants: bytes arrive in the order in which they were sent, a FIN behind
them; a reset overtakes what has not arrived; what is due at one instant is ordered by the hub's seed alone.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Any, Final

from harness.database.simulated.hub import Due, Hub
from harness.proxy.listener import joined_address
from harness.proxy.proxy_parts import IN, OUT

_HOST: Final = "127.0.0.1"
_FIRST_PORT: Final = 40_000
_HUNG_UP: Final = 0x10
"""EPOLLHUP."""
_FAILED: Final = 0x08
"""EPOLLERR."""


class Network:
    """The loopback network of one run. Mutable: knows who listens, and numbers ports."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._listening: dict[int, Callable[[Socket], None]] = {}
        self._newest_port = _FIRST_PORT

    def next_port(self) -> int:
        self._newest_port += 1
        return self._newest_port

    def listen(self, port: int, accepted: Callable[[Socket], None]) -> None:
        """From now on `accepted` gets the server's end of each connection to `port`."""
        self._listening[port] = accepted

    def shut(self, port: int) -> None:
        """Nobody listens there any more."""
        self._listening.pop(port, None)

    def connect(self, port: int, *, lag: Callable[[], int] | None = None) -> Socket | None:
        """The client's end of a new connection; None: nobody listens. `lag`: how many ms each packet takes; None: 0."""
        accepted = self._listening.get(port)
        if accepted is None:
            return None
        client = Socket(self, port=self.next_port())
        server = Socket(self, port=port)
        client.join(server)
        client.lag = server.lag = lag
        self.hub.at(self.hub.now_ms, lambda: None if server.is_closed else accepted(server))
        return client

    def socket(self, *_: object) -> Socket:
        """A socket that is not connected, as of `socket.socket`."""
        return Socket(self, port=self.next_port())


class Socket:
    """One end of a connection, like a non-blocking `socket.socket`. Mutable."""

    _descriptors = 1_000_000

    def __init__(self, network: Network, *, port: int) -> None:
        Socket._descriptors += 1
        self._descriptor = Socket._descriptors
        self._network = network
        self.port = port
        self.other: Socket | None = None
        self._inbox: deque[bytes] = deque()
        self._has_fin = False
        """The other end has sent its FIN, and all before it is in the inbox."""
        self._error = 0
        self._is_shut = False
        self._lingers = True
        self.is_closed = False
        self.lag: Callable[[], int] | None = None
        self._line: deque[Callable[[Socket], None]] = deque()
        """What is on its way to the other end."""
        self._line_ms = 0
        """When the last of it arrives."""
        self.heard: Callable[[], None] = lambda: None
        """Called when something has arrived: bytes, a FIN or a reset."""

    def join(self, other: Socket) -> None:
        """Both are connected."""
        self.other, other.other = other, self

    def connect(self, address: tuple[str, int]) -> None:
        """Connects now; raises BlockingIOError, as a socket whose connect is under way."""
        made = self._network.connect(address[1])
        if made is None:
            self._error = errno.ECONNREFUSED
        else:
            assert made.other is not None, "it was just joined"
            self.port = made.port
            self.join(made.other)
        self._soon(self.heard_of)
        raise BlockingIOError(errno.EINPROGRESS, "under way")

    def heard_of(self) -> None:
        self.heard()

    def _soon(self, callback: Callable[[], None]) -> None:
        hub = self._network.hub
        hub.at(hub.now_ms, callback)

    # ------------------------------------------------------------------------------ what a socket does

    @property
    def is_readable(self) -> bool:
        return bool(self._inbox) or self._has_fin or bool(self._error)

    @property
    def events(self) -> int:
        """What epoll would report."""
        found = (IN if self.is_readable else 0) | OUT
        if self._error:
            return found | _FAILED | _HUNG_UP
        return found | _HUNG_UP if self._has_fin and self._is_shut else found

    def recv(self, size: int) -> bytes:
        """Raises BlockingIOError if there is nothing, and OSError after a reset."""
        if self._inbox:
            data = self._inbox.popleft()
            if len(data) > size:
                self._inbox.appendleft(data[size:])
            return data[:size]
        self._raise()
        if self._has_fin:
            return b""
        raise BlockingIOError(errno.EAGAIN, "nothing is there")

    def send(self, data: bytes) -> int:
        """Takes all. Raises OSError if the other end has gone."""
        self._raise()
        if self._is_shut or self.is_closed:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self._to_other(lambda other: other.arrive(bytes(data)))
        return len(data)

    def _raise(self) -> None:
        if self._error:
            number, self._error = self._error, 0
            raise OSError(number, os.strerror(number))

    def _to_other(self, deed: Callable[[Socket], None]) -> None:
        """Behind what is on the way."""
        other, hub = self.other, self._network.hub
        if other is None:
            return
        if self.lag is None:
            deed(other)
            return
        self._line.append(deed)
        self._line_ms = max(self._line_ms, hub.now_ms + self.lag())
        hub.at(self._line_ms, lambda: self._line.popleft()(other))

    def arrive(self, data: bytes) -> None:
        """Bytes of the other end."""
        if self.is_closed:
            if self.other is not None:
                self.other.be_reset()
            return
        self._inbox.append(data)
        self._soon(self.heard_of)

    def be_finished(self) -> None:
        """A FIN of the other end."""
        if not self.is_closed:
            self._has_fin = True
            self._soon(self.heard_of)

    def be_reset(self) -> None:
        """A RST of the other end."""
        if not self.is_closed:
            self._error = errno.ECONNRESET
            self._inbox.clear()
            self._soon(self.heard_of)

    def shutdown(self, how: int) -> None:
        """Sends the FIN. Raises OSError if it is not connected any more."""
        del how
        self._raise()
        if not self._is_shut and self.other is not None:
            self._is_shut = True
            self._to_other(Socket.be_finished)

    def close(self) -> None:
        """With a FIN, or with a RST if bytes are unread or SO_LINGER is 0."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self._lingers or self._inbox:
            self._to_other(Socket.be_reset)
        elif not self._is_shut:
            self._to_other(Socket.be_finished)
        self._is_shut = True

    def setsockopt(self, level: int, option: int, value: object) -> None:
        """SO_LINGER alone matters: whoever sets it wants a RST."""
        del value
        if level == socket.SOL_SOCKET and option == socket.SO_LINGER:
            self._lingers = False

    def getsockopt(self, level: int, option: int) -> int:
        """SO_ERROR, which is forgotten then."""
        number = self._error if (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR) else 0
        self._error = 0 if number else self._error
        return number

    def fileno(self) -> int:
        return self._descriptor

    def getsockname(self) -> tuple[str, int]:
        return (_HOST, self.port)

    def getpeername(self) -> tuple[str, int]:
        return (_HOST, 0 if self.other is None else self.other.port)

    @property
    def is_refused(self) -> bool:
        """Whether its connect found nobody."""
        return self._error == errno.ECONNREFUSED


class VirtualPump:
    """The proxy's `Pump` for sockets of a virtual network. Mutable."""

    def __init__(self, hub: Hub, sockets: dict[int, Socket]) -> None:
        self._hub = hub
        self._sockets = sockets
        self._wanted: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._due: set[int] = set()

    def watch(self, descriptor: int, events: int, ready: Callable[[int], None]) -> None:
        self._wanted[descriptor] = (events, ready)
        self._sockets[descriptor].heard = lambda: self._poke(descriptor)
        self._poke(descriptor)

    def change(self, descriptor: int, events: int) -> None:
        self._wanted[descriptor] = (events, self._wanted[descriptor][1])
        self._poke(descriptor)

    def forget(self, descriptor: int) -> None:
        del self._wanted[descriptor]

    def close(self) -> None:
        self._wanted.clear()

    def _found(self, descriptor: int) -> int:
        wanted, _ = self._wanted[descriptor]
        return self._sockets[descriptor].events & (wanted | _FAILED | _HUNG_UP)

    def _poke(self, descriptor: int) -> None:
        """It is served at this instant if it is ready."""
        if descriptor in self._wanted and descriptor not in self._due and self._found(descriptor):
            self._due.add(descriptor)

            def serve() -> None:
                self._due.discard(descriptor)
                if descriptor in self._wanted and (events := self._found(descriptor)):
                    self._wanted[descriptor][1](events)
                    self._poke(descriptor)

            self._hub.at(self._hub.now_ms, serve)


class VirtualListener:
    """The proxy's `Listener` in a virtual network. Mutable."""

    def __init__(
        self,
        address: str,
        *,
        network: Network,
        sockets: dict[int, Socket],
        accepted: Callable[[Any, str], None],
    ) -> None:
        self.port = int(address.rpartition(":")[2]) or network.next_port()
        self._network = network
        self._sockets = sockets
        self._accepted = accepted
        self.is_open = False

    @property
    def address(self) -> str:
        return joined_address(_HOST, self.port)

    def open(self) -> None:
        def accept(server: Socket) -> None:
            self._sockets[server.fileno()] = server
            self._accepted(server, joined_address(*server.getpeername()))

        self.is_open = True
        self._network.listen(self.port, accept)

    def shut(self) -> None:
        self.is_open = False
        self._network.shut(self.port)

    close = shut


class _Timer:
    """What `call_later` returns."""

    def __init__(self, hub: Hub, due: Due) -> None:
        self._hub, self._due = hub, due

    def cancel(self) -> None:
        self._hub.cancel(self._due)


class HubLoop:
    """What the proxy asks of its event loop, on a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def time(self) -> float:
        return self._hub.now_ms / 1000

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> _Timer:
        due_ms = self._hub.now_ms + (max(1, ceil(round(1000 * seconds, 6))) if seconds > 0 else 0)

        def call() -> None:
            callback(*args)

        return _Timer(self._hub, self._hub.at(due_ms, call))

    def call_soon(self, callback: Callable[..., object], *args: object) -> _Timer:
        return self.call_later(0.0, callback, *args)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False
