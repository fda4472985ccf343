"""The two ends of a link as plain sockets: a server that a test controls, and a client's connection through the link.

Invariant: every wait has a limit, and the end of a connection is known to be FIN or RST.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from harness.system.clock import Deadline, monotonic_us

WAIT_S = 60.0
"""Limit for anything that should happen at once, even on a loaded machine."""
LOOPBACK = "127.0.0.1"
NO_LINGER = struct.pack("ii", 1, 0)


class End(StrEnum):
    """How a connection ended."""

    FIN = "FIN"
    RST = "RST"


class Server:
    """A listening socket; the test decides what to do with each connection."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        listening.settimeout(WAIT_S)
        self.address: tuple[str, int] = listening.getsockname()

    def accept(self, limit_s: float = WAIT_S) -> socket.socket:
        """The next connection. Raises TimeoutError if none comes."""
        self._listening.settimeout(limit_s)
        accepted, _ = self._listening.accept()
        accepted.settimeout(WAIT_S)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both ends of a connection through a link."""

    client: socket.socket
    server: socket.socket


@contextmanager
def upstream(port: int = 0, *, backlog: int = 256) -> Iterator[Server]:
    """A server for the duration of the block."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(backlog)
        yield Server(listening)


@contextmanager
def connected(address: tuple[str, int], server: Server) -> Iterator[Pair]:
    """A connection through the link that listens at `address`, for the duration of the block."""
    with socket.create_connection(address, timeout=WAIT_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with server.accept() as accepted:
            yield Pair(client=client, server=accepted)


def receive(end: socket.socket, count: int, *, limit_s: float = WAIT_S) -> bytes:
    """`count` bytes, or what arrived before the connection ended or the limit was reached."""
    got = bytearray()
    deadline = Deadline(limit_s)
    with suppress(TimeoutError, ConnectionError):
        while len(got) < count:
            end.settimeout(max(0.001, deadline.left_s))
            chunk = end.recv(min(65_536, count - len(got)))
            if not chunk:
                break
            got += chunk
    end.settimeout(WAIT_S)
    return bytes(got)


def end_of(end: socket.socket, *, limit_s: float = WAIT_S) -> tuple[bytes, End | None]:
    """The remaining bytes and how the connection ended; None if it did not end within the limit."""
    got = bytearray()
    deadline = Deadline(limit_s)
    try:
        while True:
            end.settimeout(max(0.001, deadline.left_s))
            chunk = end.recv(65_536)
            if not chunk:
                return bytes(got), End.FIN
            got += chunk
    except TimeoutError:
        return bytes(got), None
    except ConnectionError:
        return bytes(got), End.RST
    finally:
        end.settimeout(WAIT_S)


def quiet(end: socket.socket, *, for_s: float) -> bool:
    """Whether nothing arrives and the connection does not end within `for_s`."""
    return end_of(end, limit_s=for_s) == (b"", None)


def reset_on_close(end: socket.socket) -> None:
    """Make the socket's close send a RST."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)


def ms_since(begun_us: int) -> float:
    """Milliseconds since `begun_us` on the machine's monotonic clock."""
    return (monotonic_us() - begun_us) / 1000
