"""A peer: the socket of a client or a server, read into one direction and written to by the other.

Answers to one half of Toxiproxy's `ToxicLink`. Invariant: what cannot be sent is kept only until the next wake-up of
its source, which is not read meanwhile; a FIN leaves as a FIN, a reset as a reset, and no linger is left behind.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Protocol

from harness.proxy.workshop import IN, NOTHING, OUT, Pump

__all__ = ["READ_MAX", "RESET", "Inflow", "Peer", "PeerWatcher"]

READ_MAX = 65_536
"""Bytes read at once."""

_DRAIN_MAX = 64
"""Reads of what came too late, before a close: unread bytes would turn its FIN into a reset."""
RESET = struct.pack("ii", 1, 0)
"""A linger of 0 s: closing the socket sends a RST."""


class Inflow(Protocol):
    """The direction that a peer is read into."""

    def feed(self, chunk: bytes) -> None:
        """Bytes that the peer sent."""

    def finished(self) -> None:
        """The peer will send no more."""


class PeerWatcher(Protocol):
    """Who must know what becomes of a peer."""

    def congested(self, peer: Peer) -> None:
        """It takes less than it is sent, or takes all again."""

    def lost(self, peer: Peer) -> None:
        """It reset the connection."""

    def told_all(self, peer: Peer) -> None:
        """It was sent the FIN of the direction that leads to it."""

    def gone(self, peer: Peer) -> None:
        """Its socket is closed."""


class Peer:
    """One socket of a connection; mutable, and the last receiver of the direction that leads to it."""

    __slots__ = (
        "_blocked",
        "_broken",
        "_closing",
        "_descriptor",
        "_eof_due",
        "_events",
        "_feed",
        "_heard_all",
        "_into",
        "_pending",
        "_pump",
        "_recv",
        "_send",
        "_socket",
        "_watched",
        "_watcher",
        "closed",
        "sent",
        "shut",
        "unsent",
    )

    def __init__(self, connected: socket.socket, *, pump: Pump, into: Inflow, watcher: PeerWatcher) -> None:
        self._socket = connected
        self._recv = connected.recv
        self._send = connected.send
        self._descriptor = connected.fileno()
        self._pump = pump
        self._into = into
        self._feed = into.feed
        self._watcher = watcher
        self._pending: deque[bytes] = deque()
        self._blocked = False  # something is pending, or nothing may be sent any more
        self._broken = False  # sending failed: the peer has reset
        self._closing = False
        self._eof_due = False
        self._heard_all = False
        self.shut = False
        """Whether it was sent a FIN."""
        self.closed = False
        self.unsent = 0
        """Bytes that wait for the socket to take them."""
        self.sent = 0
        """Bytes that it was given."""
        self._events = NOTHING
        self._watched = True
        pump.watch(self._descriptor, NOTHING, self.ready)

    # ------------------------------------------------------------------------------- being read

    def read(self, *, on: bool) -> None:
        """Read what it sends, or leave it in the kernel until further notice."""
        if not self._heard_all and not self._closing:
            self._want(self._events | IN if on else self._events & ~IN)

    def ready(self, events: int) -> None:
        """The pump's news about the socket."""
        if events == IN == self._events:  # nearly always
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
        elif self._broken:  # the failed send took the error away; without it this would look like a FIN
            self._lost()
        else:
            self._heard_all = True
            self._want(self._events & ~IN)
            self._into.finished()
            self._settle()

    def _hung_up(self) -> None:
        """A reset, or the end of both ways, while it is not read."""
        if self._broken or self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lost()
        elif self._heard_all and self.shut:
            self._close()
        else:  # its FIN waits behind bytes that may not be read yet; the pump would ring without end
            self._watched = False
            self._pump.forget(self._descriptor)

    def _lost(self) -> None:
        self._close()
        self._watcher.lost(self)

    # ---------------------------------------------------------------------------- being written

    def data(self, chunk: bytes) -> None:
        """Send, or keep what the socket does not take."""
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
        """A FIN, after what is pending."""
        self._eof_due = True
        if not self._pending:
            self._shut_now()

    def reset(self) -> None:
        """A RST, now."""
        if not self.closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._close()

    def close(self, *, deliver: bool) -> None:
        """A FIN and the end: after what is pending (`deliver`), or now."""
        if self.closed:
            return
        self._closing = True
        if deliver and self._pending:
            self._want(self._events & ~IN)
        else:
            self._close_gently()

    def _queue(self, chunk: bytes) -> None:
        if self.closed or self._closing or self._broken or self.shut or self._eof_due:
            return  # nobody is there to take it
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
        """Sending failed. What it sent before its reset is still read; then the reset is passed on."""
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
        except OSError:  # it is no longer connected: its reading side will say so
            self._broken = True
        self._settle()
        self._watcher.told_all(self)

    # ---------------------------------------------------------------------------------- its end

    def _settle(self) -> None:
        if self._heard_all and self.shut and not self.closed:
            self._close()

    def _close_gently(self) -> None:
        """With a FIN even if it sent something that nobody read."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            for _ in range(_DRAIN_MAX):
                if not self._recv(READ_MAX):
                    break
        except OSError:  # nothing more there, or the peer is gone already
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
