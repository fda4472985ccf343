"""A stand for the proxy's engine: one link on a loop of its own thread, between sockets that the test holds."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TypeVar

import pytest

from harness.proxy.link import Link
from harness.proxy.link_log import LinkEvent
from harness.proxy.proxy_parts import ProxyParts, raise_descriptor_limit
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Stream, Toxic
from harness.system.clock import Deadline, wait_until
from reference_impl.mailbox.loops import real_loop

Answer = TypeVar("Answer")
_LIMIT_S = 60.0


class Stand:
    """Drives a link from another thread; mutable."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, link: Link, upstream: socket.socket, parts: ProxyParts
    ) -> None:
        self.loop = loop
        self.parts = parts
        self.link = link
        self.upstream = upstream
        self.errors: list[object] = []
        self.sockets = ExitStack()

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.link.listen.rpartition(":")
        return host, int(port)

    def call(self, act: Callable[[], Answer]) -> Answer:
        """What `act` answers on the proxy's loop."""

        async def acting() -> Answer:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self.loop).result(_LIMIT_S)

    def client(self) -> socket.socket:
        """A client's connection to the link."""
        return self.held(socket.create_connection(self.address, timeout=_LIMIT_S))

    def served(self) -> socket.socket:
        """The server's end of the next connection that the proxy dialled."""
        return self.held(self.upstream.accept()[0])

    def pair(self) -> tuple[socket.socket, socket.socket]:
        client = self.client()
        return client, self.served()

    def ends(self, stream: Stream) -> tuple[socket.socket, socket.socket]:
        """A new connection's ends: who sends in that direction, who hears it; the proxy is done dialling."""
        client, server = self.pair()
        self.until(lambda: self.link.connections()[-1]["state"] == "live")
        return (client, server) if stream is Stream.UPSTREAM else (server, client)

    def held(self, connected: socket.socket) -> socket.socket:
        connected.settimeout(_LIMIT_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.sockets.enter_context(connected)

    def add(
        self,
        kind: str,
        *,
        name: str = "it",
        stream: Stream = Stream.DOWNSTREAM,
        toxicity: float = 1.0,
        **attributes: int | str,
    ) -> None:
        toxic = Toxic(
            name=name,
            type=kind,
            stream=str(stream),
            direction=stream,
            toxicity=toxicity,
            attributes={**TOXIC_KINDS[kind].attributes, **attributes},
        )
        self.call(lambda: self.link.add_toxic(toxic))

    def update(self, name: str = "it", *, toxicity: float | None = None, **attributes: int | str) -> None:
        def update() -> None:
            before = next(toxic for toxic in self.link.toxics if toxic.name == name)
            self.link.update_toxic(name, attributes={**before.attributes, **attributes}, toxicity=toxicity)

        self.call(update)

    def remove(self, name: str = "it") -> None:
        self.call(lambda: self.link.remove_toxic(name))

    def log(self, did: str) -> list[LinkEvent]:
        page = self.call(lambda: self.link.log_after(0))
        return [event for event in page.events if event.did == did]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds on the proxy's loop."""
        assert wait_until(lambda: self.call(condition), deadline=Deadline(_LIMIT_S), every_s=0.002)

    def until_received(self, stream: Stream, count: int) -> None:
        """Wait until the proxy has read so many bytes of all connections."""
        self.until(lambda: self.link.traffic()[stream][0] >= count)

    @staticmethod
    def abort(connected: socket.socket) -> None:
        """Close it by a RST."""
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connected.close()

    @staticmethod
    def ending(connected: socket.socket) -> str:
        """How the peer's bytes end: `fin`, `rst`; what came before is passed over."""
        try:
            while connected.recv(65_536):
                pass
        except ConnectionResetError:
            return "rst"
        return "fin"

    @staticmethod
    def read(connected: socket.socket, count: int) -> bytes:
        """So many bytes, or those before the end."""
        got = b""
        while len(got) < count:
            chunk = connected.recv(count - len(got))
            if not chunk:
                break
            got += chunk
        return got

    @staticmethod
    def flood(sender: socket.socket, *, most: int = 64 << 20) -> int:
        """Send until nothing more is taken for a while, or `most`; how much was."""
        sent = 0
        sender.settimeout(0.05)
        with suppress(TimeoutError):
            while sent < most:
                sent += sender.send(bytes(65_536))
        sender.settimeout(_LIMIT_S)
        return sent

    @staticmethod
    def silent(connected: socket.socket, *, for_s: float = 0.03) -> bool:
        """Whether nothing comes, neither bytes nor an end."""
        connected.settimeout(for_s)
        try:
            connected.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            connected.settimeout(_LIMIT_S)
        return False


@pytest.fixture
def stand() -> Iterator[Stand]:
    """A started link, seed 7."""
    raise_descriptor_limit()
    ready: list[Stand] = []
    begun = threading.Event()

    def serve() -> None:
        with real_loop() as loop, socket.create_server(("127.0.0.1", 0), backlog=4_096) as upstream:
            upstream.settimeout(_LIMIT_S)
            parts = ProxyParts(loop, seed=7)
            host, port = upstream.getsockname()
            link = Link(name="db", listen="127.0.0.1:0", upstream=f"{host}:{port}", parts=parts)
            link.start()
            made = Stand(loop, link, upstream, parts)
            loop.set_exception_handler(lambda _, context: made.errors.append(context))
            ready.append(made)
            loop.call_soon(begun.set)
            loop.run_forever()
            link.close()
            parts.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert begun.wait(_LIMIT_S)
    made = ready[0]
    try:
        with made.sockets:
            yield made
    finally:
        made.loop.call_soon_threadsafe(made.loop.stop)
        thread.join(_LIMIT_S)
        with suppress(OSError):
            made.upstream.close()
    assert not thread.is_alive()
    assert not made.errors, made.errors
