"""A dial: one attempt to connect to an upstream, without blocking other connections.

Answers to the `net.Dial` in Toxiproxy's accept loop, where a slow dial delays every later client. Invariant:
calls `done` exactly once, with a connected socket or with None, unless it was abandoned first.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

from harness.proxy.peer import RESET
from harness.proxy.proxy_parts import OUT, ProxyParts

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`. Raises ValueError for anything else."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError(f"address {address}: missing port in address")
    return host.removeprefix("[").removesuffix("]"), int(port)


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
            self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
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
