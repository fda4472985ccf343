"""A listener: the port of a link, open or shut, and kept by the link as long as the link exists.

Answers to the `tcp_listener` of Toxiproxy's proxy, whose port any program may take while it is disabled.
While shut, connects are refused, yet the port stays bound, so that opening again cannot fail for its number.
An address is read as Go's `net.Listen` reads it, loopback by default, and never asks a name server.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable
from http import HTTPStatus

from harness.proxy.dial import split_address
from harness.proxy.refusal import Refusal

__all__ = ["LOOPBACK", "OUT_OF_DESCRIPTORS", "Listener", "is_loopback", "listen_address", "same_listen"]

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535


def listen_address(text: str, *, prefix: str = "listen tcp: ") -> str:
    """`host:port` with numbers for both, port 0 for any; a missing host or the empty text means loopback.

    Toxiproxy would listen on every address there; ours does so only where it is asked to by name (`0.0.0.0`).
    """
    if not text:
        return f"{LOOPBACK}:0"
    host, port = _split(text, prefix)
    number = _port(port, prefix)
    return _joined(_host(host, prefix), number)


def same_listen(asked: str, *, now: str) -> bool:
    """Whether a link that listens at `now` (an address of ours) is where it is `asked` to be; port 0 is any port."""
    host, _, port = asked.rpartition(":")
    return asked == now or (port == "0" and host == now.rpartition(":")[0])


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(text: str, prefix: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise _wrong(f"{prefix}address {text}: missing ']' in address")
        if not rest.startswith(":"):
            raise _wrong(f"{prefix}address {text}: missing port in address")
        return host, rest[1:]
    host, colon, port = text.rpartition(":")
    if not colon:
        raise _wrong(f"{prefix}address {text}: missing port in address")
    if ":" in host:
        raise _wrong(f"{prefix}address {text}: too many colons in address")
    return host, port


def _port(text: str, prefix: str) -> int:
    if text.isascii() and text.lstrip("+-").isdigit():
        number = int(text)
        if not 0 <= number <= PORT_MAX:
            raise _wrong(f"{prefix}address {text}: invalid port")
        return number
    if not text:
        return 0
    try:
        return socket.getservbyname(text, "tcp")
    except OSError:
        raise _wrong(f"{prefix}lookup tcp/{text}: unknown port") from None


def _host(text: str, prefix: str) -> str:
    if text in {"", "localhost"}:
        return LOOPBACK
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise _wrong(f"{prefix}lookup {text}: no such host") from None


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wrong(words: str) -> Refusal:
    return Refusal(words, HTTPStatus.INTERNAL_SERVER_ERROR)


_BACKLOG = 4_096
_ACCEPTS_MAX = 256
"""Accepted in one go before others have their turn."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""What an accept fails with for want of the machine's means; the client waits."""
_RECOVERY_S = 0.1

Accepted = Callable[[socket.socket, str], None]
"""Called with a non-blocking socket and the client's address."""


class Listener:
    """Mutable: open or shut. Raises OSError from its making if the address cannot be bound."""

    def __init__(self, address: str, *, loop: asyncio.AbstractEventLoop, accepted: Accepted) -> None:
        self._loop = loop
        self._accepted = accepted
        self._socket = _bound(*split_address(address))
        self.is_open = False

    @property
    def address(self) -> str:
        """Where it listens: the number that a port of 0 became, too."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def open(self) -> None:
        """Accept clients. Raises OSError if somebody else listens there by now."""
        if not self.is_open:
            self._socket.listen(_BACKLOG)
            self._loop.add_reader(self._socket.fileno(), self._accept)
            self.is_open = True

    def shut(self) -> None:
        """Refuse clients; those that nobody accepted yet are reset, as by any closed listener."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._socket.fileno())
            self._socket.shutdown(socket.SHUT_RD)  # Linux: it listens no more, and stays bound

    def close(self) -> None:
        """Give the port back."""
        self.shut()
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_MAX):
            if not self.is_open:  # the last client's coming shut it
                return
            try:
                accepted, peer = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._recover()
                    return
                continue  # that client is gone already
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted(accepted, f"{peer[0]}:{peer[1]}")

    def _recover(self) -> None:
        """Out of descriptors: the clients wait in the kernel's queue instead of ringing without end."""
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(_RECOVERY_S, self._resume)

    def _resume(self) -> None:
        if self.is_open:
            self._loop.add_reader(self._socket.fileno(), self._accept)


def _bound(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    first = _reusable(family)
    try:
        first.bind(address)
        if port:
            return first
        # A port that the kernel chose is given back when listening ends; one that was asked for is not.
        second = _reusable(family)
        second.bind(first.getsockname())
    except OSError:
        first.close()
        raise
    first.close()
    return second


def _reusable(family: socket.AddressFamily) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made
