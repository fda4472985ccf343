"""A peer, the socket of a client or a server; and a dial, one attempt to connect to an upstream.

Answers to one half of Toxiproxy's `ToxicLink`. Invariants: while bytes wait for the socket, the direction does not read
their source; a FIN is forwarded as a FIN, a reset as a reset; no SO_LINGER option stays set.

Answers to the `net.Dial` in Toxiproxy's accept loop, where a slow dial delays every later client. Invariant:
calls `done` exactly once, with a connected socket or with None, unless it was abandoned first.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from harness.proxy.listener import split_address
from harness.proxy.proxy_parts import IN, NOTHING, OUT, ProxyParts, Pump

READ_MAX = 65_536
"""Bytes of one read."""

_DRAIN_MAX = 64
"""Reads before a close: closing a socket with unread bytes would send RST instead of FIN."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with 0 s: closing the socket sends a RST."""


class Inflow(Protocol):
    """The direction that a peer's bytes go into."""

    def feed(self, chunk: bytes) -> None:
        """Bytes that the peer sent."""

    def finished(self) -> None:
        """The peer sent its FIN."""


class PeerWatcher(Protocol):
    """Is called when a peer's state changes."""

    def congested(self, peer: Peer) -> None:
        """The peer's socket is full, or takes bytes again."""

    def lost(self, peer: Peer) -> None:
        """The peer reset the connection."""

    def told_all(self, peer: Peer) -> None:
        """The direction that leads to the peer has ended, and the peer was sent its FIN."""

    def gone(self, peer: Peer) -> None:
        """The peer's socket is closed."""


class Peer:
    """One socket of a connection. Mutable. It is the last `Receiver` of the direction that leads to it."""

    __slots__ = (
        "_blocked", "_broken", "_closing", "_descriptor", "_eof_due", "_events", "_feed", "_into", "_pending",
        "_pump", "_recv", "_send", "_socket", "_source_ended", "_watched", "_watcher", "closed", "port", "sent",
        "shut", "unsent",
    )  # fmt: skip

    def __init__(self, connected: socket.socket, *, pump: Pump, into: Inflow, watcher: PeerWatcher) -> None:
        self._socket = connected
        self._recv = connected.recv
        self._send = connected.send
        self._descriptor = connected.fileno()
        self.port: int = connected.getsockname()[1]
        """Our own port of this socket."""
        self._pump = pump
        self._into = into
        self._feed = into.feed
        self._watcher = watcher
        self._pending: deque[bytes] = deque()
        self._blocked = False  # bytes are pending, or nothing may be sent any more
        self._broken = False  # a send failed: the peer has reset the connection
        self._closing = False
        self._eof_due = False
        self._source_ended = False
        self.shut = False
        """Whether a FIN was sent."""
        self.closed = False
        self.unsent = 0
        """Bytes queued until the socket takes them."""
        self.sent = 0
        """Bytes written to the socket."""
        self._events = NOTHING
        self._watched = True
        pump.watch(self._descriptor, NOTHING, self.ready)

    def read(self, *, on: bool) -> None:
        """Start or stop reading; unread bytes stay in the kernel."""
        if not self._source_ended and not self._closing:
            self._want(self._events | IN if on else self._events & ~IN)

    def ready(self, events: int) -> None:
        """The pump's callback with the socket's events."""
        if events == IN == self._events:  # the common case
            self._receive()
            return
        if events & OUT and self._pending:
            self._flush()
        if events & ~OUT and not self.closed:
            if self._events & IN:
                self._receive()
            else:
                self._hung_up()

    def _receive(self) -> None:
        try:
            chunk = self._recv(READ_MAX)
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        if chunk:
            self._feed(chunk)
        elif self._broken:  # the failed send consumed the socket's error; a read alone would look like a FIN
            self._lost()
        else:
            self._source_ended = True
            self._want(self._events & ~IN)
            self._into.finished()
            self._settle()

    def _hung_up(self) -> None:
        """The socket reports a reset, or both directions ended, while it is not read."""
        if self._broken or self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lost()
        elif self._source_ended and self.shut:
            self._close()
        else:  # its FIN is behind bytes that are not read yet; epoll would report the socket again and again
            self._watched = False
            self._pump.forget(self._descriptor)

    def _lost(self) -> None:
        self._close()
        self._watcher.lost(self)

    def data(self, chunk: bytes) -> None:
        """Send, or queue what the socket does not take."""
        if self._blocked:
            self._queue(chunk)
            return
        try:
            taken = self._send(chunk)
        except BlockingIOError:
            taken = 0
        except OSError:
            self._break()
            return
        self.sent += taken
        if taken < len(chunk):
            self._queue(chunk[taken:])

    def eof(self) -> None:
        """Send a FIN after what is pending."""
        self._eof_due = True
        if not self._pending:
            self._shut_now()

    def reset(self) -> None:
        """Send a RST now."""
        if not self.closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._close()

    def close(self, *, deliver: bool) -> None:
        """Close with a FIN: after what is pending (`deliver`), or now."""
        if self.closed:
            return
        self._closing = True
        if deliver and self._pending:
            self._want(self._events & ~IN)
        else:
            self._close_gently()

    def _queue(self, chunk: bytes) -> None:
        if self.closed or self._closing or self._broken or self.shut or self._eof_due:
            return  # the connection is ending: the bytes are lost
        self._pending.append(chunk)
        self.unsent += len(chunk)
        if not self._blocked:
            self._blocked = True
            self._want(self._events | OUT)
            self._watcher.congested(self)

    def _flush(self) -> None:
        pending = self._pending
        try:
            while pending:
                taken = self._send(pending[0])
                self.sent += taken
                self.unsent -= taken
                if taken < len(pending[0]):
                    pending[0] = pending[0][taken:]
                    return
                pending.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._break()
            return
        self._want(self._events & ~OUT)
        self._blocked = False
        if self._closing:
            self._close_gently()
        elif self._eof_due:
            self._shut_now()
        else:
            self._watcher.congested(self)

    def _break(self) -> None:
        """A send failed.

        Reading goes on: the peer may have sent bytes before its reset; then the reset is forwarded.
        """
        self._broken = True
        self._blocked = True
        self._forget_pending()
        if self._closing:
            self._close()
        else:
            self._want(self._events & ~OUT)
            self._watcher.congested(self)

    def _forget_pending(self) -> None:
        self.unsent = 0
        self._pending.clear()

    def _shut_now(self) -> None:
        self._blocked = True
        if self.shut or self.closed:
            return
        self.shut = True
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:  # not connected any more: the next read reports it
            self._broken = True
        self._settle()
        self._watcher.told_all(self)

    def _settle(self) -> None:
        if self._source_ended and self.shut and not self.closed:
            self._close()

    def _close_gently(self) -> None:
        """Close with a FIN even if the peer sent bytes that were not read."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            for _ in range(_DRAIN_MAX):
                if not self._recv(READ_MAX):
                    break
        except OSError:  # nothing left to read, or the peer has gone
            pass
        self._close()

    def _close(self) -> None:
        self.closed = True
        self._blocked = True
        self._forget_pending()
        if self._watched:
            self._watched = False
            self._pump.forget(self._descriptor)
        self._socket.close()
        self._watcher.gone(self)

    def _want(self, events: int) -> None:
        if self.closed or (events == self._events and self._watched):
            return
        self._events = events
        if self._watched:
            self._pump.change(self._descriptor, events)
        elif events:
            self._watched = True
            self._pump.watch(self._descriptor, events, self.ready)


_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class Dial:
    """Tries the addresses of the upstream in order until one connects. Mutable."""

    def __init__(
        self, upstream: str, *, parts: ProxyParts, done: Callable[[socket.socket | None], None]
    ) -> None:
        self._upstream = upstream
        self._parts = parts
        self._done = done
        self._left: list[_Address] = []
        self._socket: socket.socket | None = None
        self._abandoned = False
        self.was_reset = False
        """Whether the last address that answered reset the connection (ECONNRESET)."""

    def begin(self) -> None:
        """Start dialling; a host name is resolved in the loop's thread pool."""
        try:
            host, port = split_address(self._upstream)
            family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
        except ValueError:
            self._look_up()
            return
        self._left = [(family, (host, port))]
        self._next()

    def abandon(self, *, reset: bool) -> None:
        """Stop dialling without calling `done`.

        A socket that exists is closed with a RST (`reset`) or a FIN.
        """
        self._abandoned = True
        if self._socket is not None:
            self._parts.pump.forget(self._socket.fileno())
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._close()

    def _look_up(self) -> None:
        try:
            host, port = split_address(self._upstream)
        except ValueError:
            self._parts.loop.call_soon(self._end, None)
            return
        asking = self._parts.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        asyncio.ensure_future(asking, loop=self._parts.loop).add_done_callback(self._looked_up)

    def _looked_up(self, found: asyncio.Future[list[Any]]) -> None:
        if found.cancelled() or self._abandoned:
            return
        if found.exception() is None:
            self._left = [(family, address) for family, _, _, _, address in found.result()]
        self._next()

    def _next(self) -> None:
        while self._left:
            family, address = self._left.pop(0)
            if self._connecting(family, address):
                return
        self._parts.loop.call_soon(self._end, None)

    def _connecting(self, family: socket.AddressFamily, address: tuple[object, ...]) -> bool:
        """Start a connect; returns whether it is under way."""
        try:
            self._socket = self._parts.socket(family)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.connect(address)
        except BlockingIOError:
            pass
        except OSError:
            self._close()
            return False
        assert self._socket is not None
        self._parts.pump.watch(self._socket.fileno(), OUT, self._answered)
        return True

    def _answered(self, events: int) -> None:
        del events
        assert self._socket is not None
        connected = self._socket
        self._parts.pump.forget(connected.fileno())
        error = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self.was_reset = error == errno.ECONNRESET
            self._close()
            self._next()
            return
        self._socket = None
        self._end(connected)

    def _end(self, connected: socket.socket | None) -> None:
        if not self._abandoned:
            self._done(connected)

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
