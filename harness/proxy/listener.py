"""A listener: the port of a link, open or shut, bound for as long as the link exists.

Answers to the `tcp_listener` of Toxiproxy's proxy, whose port any program can take while the proxy is disabled. While
shut, connects are refused but the port stays bound, so opening it again cannot fail because another program took it.
The default of an address is loopback, and no address needs a name server.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import re
import socket
from collections.abc import Callable
from http import HTTPStatus

from harness.proxy.json_body import Refusal

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535


def listen_address(text: str) -> str:
    """`host:port` with a numeric host and port; port 0 means any port, a missing host or an empty text means loopback.

    Toxiproxy listens on every address when the host is missing; ours does so only for an explicit `0.0.0.0`.
    """
    if not text:
        return f"{LOOPBACK}:0"
    host, port = _split(text)
    number = _port(port)
    return joined_address(_host(host), number)


def same_listen(asked: str, *, now: str) -> bool:
    """Whether a link that listens at `now` already satisfies the address `asked`; port 0 matches any port."""
    return asked == now or (is_any_port(asked) and asked.rpartition(":")[0] == now.rpartition(":")[0])


def is_any_port(address: str) -> bool:
    """Whether the address leaves the choice of its port to the system."""
    return address.endswith(":0")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise _wrong(f"address {text}: missing ']' in address")
        if not rest.startswith(":"):
            raise _wrong(f"address {text}: missing port in address")
        return host, rest[1:]
    host, colon, port = text.rpartition(":")
    if not colon:
        raise _wrong(f"address {text}: missing port in address")
    if ":" in host:
        raise _wrong(f"address {text}: too many colons in address")
    return host, port


def _port(text: str) -> int:
    written = re.fullmatch(r"([+-]?)0*([0-9]+)", text)
    if written is not None:
        sign, digits = written.groups()
        if len(digits) > len(str(PORT_MAX)) or int(digits) > PORT_MAX or (sign == "-" and digits != "0"):
            raise _wrong(f"address {text}: invalid port")
        return int(digits)
    if not text:
        return 0
    try:
        return socket.getservbyname(text, "tcp")
    except OSError:
        raise _wrong(f"lookup tcp/{text}: unknown port") from None


def _host(text: str) -> str:
    if text in {"", "localhost"}:
        return LOOPBACK
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise _wrong(f"lookup {text}: no such host") from None


def joined_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wrong(words: str) -> Refusal:
    return Refusal(words, HTTPStatus.INTERNAL_SERVER_ERROR)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`. Raises ValueError for anything else."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError(f"address {address}: missing port in address")
    return host.removeprefix("[").removesuffix("]"), int(port)


_BACKLOG = 4_096
_ACCEPTS_MAX = 256
"""Connections accepted in one callback, before other sockets are served."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of an accept for lack of descriptors or memory; the client stays in the kernel's queue."""
_RECOVERY_S = 0.1

Accepted = Callable[[socket.socket, str], None]
"""Called with a non-blocking socket and the client's address."""


class Listener:
    """A bound socket, open or shut. Mutable. The constructor raises OSError if the address cannot be bound."""

    def __init__(self, address: str, *, loop: asyncio.AbstractEventLoop, accepted: Accepted) -> None:
        self._loop = loop
        self._accepted = accepted
        self._socket = _bound(*split_address(address))
        self.is_open = False

    @property
    def address(self) -> str:
        """The bound address, with the real port where port 0 was asked for."""
        return joined_address(*self._socket.getsockname()[:2])

    def open(self) -> None:
        """Accept clients. Raises OSError if another socket listens there."""
        if not self.is_open:
            self._socket.listen(_BACKLOG)
            self._loop.add_reader(self._socket.fileno(), self._accept)
            self.is_open = True

    def shut(self) -> None:
        """Refuse clients. Connections not yet accepted are reset, as when any listener closes."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._socket.fileno())
            self._socket.shutdown(socket.SHUT_RD)  # Linux: the socket stops listening and stays bound

    def close(self) -> None:
        """Release the port."""
        self.shut()
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_MAX):
            if not self.is_open:  # the callback for the last client shut the listener
                return
            try:
                accepted, peer = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if (
                    error.errno in OUT_OF_DESCRIPTORS
                ):  # the waiting clients would make the socket ready all the time
                    self._loop.remove_reader(self._socket.fileno())
                    self._loop.call_later(_RECOVERY_S, self._resume)
                    return
                continue  # that client has disconnected
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted(accepted, joined_address(*peer[:2]))

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
        # Linux unbinds a port that it chose itself when listening ends; a port bound by number stays bound.
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
