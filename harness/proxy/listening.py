"""Where a link may listen: an address as text, understood as Go's `net.Listen` understands it, loopback by default.

Invariant: reading an address never asks a name server, so no control call waits for one.
"""

from __future__ import annotations

import ipaddress
import socket
from http import HTTPStatus

from harness.proxy.refusal import Refusal

__all__ = ["LOOPBACK", "is_loopback", "listen_address", "same_listen"]

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
