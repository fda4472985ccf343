"""A relay that writes down what a client and a server say to each other, and what a dialogue makes of it."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.proxy.mysql.commands import CommandExchange
from harness.proxy.mysql.dialogue import Dialogue
from harness.world.world import Address

_READ_BYTES = 65_536
_END_S = 10.0


@dataclass(slots=True)
class Recording:
    """One connection's bytes: (whether from the client, bytes), in the order in which they came."""

    port: int
    chunks: list[tuple[bool, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One exchange as a dialogue understood it."""

    exchange: CommandExchange
    ended: bool


@contextmanager
def listen_in(server: Address) -> Iterator[Recording]:
    """A port before `server` that takes one connection, which must end with the block, and records it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        recording = Recording(listener.getsockname()[1])
        relay = threading.Thread(target=_relay, args=(listener, server, recording), daemon=True)
        relay.start()
        yield recording
        relay.join(_END_S)
        assert not relay.is_alive(), "the client has not closed its connection"


def _relay(listener: socket.socket, server: Address, recording: Recording) -> None:
    listener.settimeout(_END_S)
    client, _ = listener.accept()
    upstream = socket.create_connection((server.host, server.port), timeout=_END_S)
    with client, upstream, selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, upstream)
        ready.register(upstream, selectors.EVENT_READ, client)
        while True:
            for key, _ in ready.select(_END_S):
                source = key.fileobj
                assert isinstance(source, socket.socket)
                chunk = source.recv(_READ_BYTES)
                if not chunk:
                    return
                recording.chunks.append((source is client, chunk))
                key.data.sendall(chunk)


def understood(
    chunks: Sequence[tuple[bool, bytes]], *, size: int = _READ_BYTES
) -> tuple[list[Heard], Dialogue]:
    """The exchanges of a recorded conversation, whose bytes are given in pieces of at most `size`."""
    dialogue = Dialogue()
    exchanges: dict[int, CommandExchange] = {}
    ended: set[int] = set()
    for from_client, chunk in chunks:
        tracker = dialogue.requests if from_client else dialogue.replies
        for at in range(0, len(chunk), size):
            for part in tracker.parts(chunk[at : at + size]):
                if part.packet is None:
                    continue
                exchange = part.packet.message
                assert isinstance(exchange, CommandExchange)
                exchanges.setdefault(id(exchange), exchange)
                if not from_client and part.packet.last and part.ends:
                    ended.add(id(exchange))
    return [Heard(exchange=each, ended=key in ended) for key, each in exchanges.items()], dialogue
