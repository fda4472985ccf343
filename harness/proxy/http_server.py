"""A small HTTP/1.1 server for the control interface, on the proxy's own loop.

It serves programs of this machine, not the world: bodies are bounded, so is the number of clients, and none of them
can make another wait. Invariant: an answer is whole or the connection is closed; nothing is read from a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from harness.proxy.http_message import HEAD_MAX, Answer, Request, read_request, written
from harness.proxy.listener import OUT_OF_DESCRIPTORS
from harness.proxy.refusal import Refusal

__all__ = ["CLIENTS_MAX", "HttpServer"]

CLIENTS_MAX = 256
"""Clients that are served at once; one more is told to come back."""
WRITE_LIMIT_S = 25.0
"""How long a client may take to read its answer; Toxiproxy's own limit."""

DRAIN_LIMIT_S = 2.0
"""How long a client that was refused may go on sending before it is hung up on."""

Handle = Callable[[Request], Answer]


class HttpServer:
    """Listens and answers. Mutable: it counts its clients."""

    def __init__(self, handle: Handle, *, refuse: Callable[[Refusal], Answer]) -> None:
        self._handle = handle
        self._refuse = refuse
        self._clients: dict[asyncio.Task[None], None] = {}
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; where it does. Raises OSError if that cannot be."""
        asyncio.get_running_loop().set_exception_handler(_tell)
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_MAX)
        address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return address

    async def stop(self) -> None:
        """Stop listening and end every client."""
        if self._server is not None:
            self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients[task] = None
        try:
            await self._converse(reader, writer)
        except (OSError, TimeoutError):
            pass  # it went away, or does not read
        finally:
            del self._clients[task]
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) > CLIENTS_MAX:
            refusal = Refusal(f"more than {CLIENTS_MAX} clients at once", HTTPStatus.SERVICE_UNAVAILABLE)
            await _send(writer, written(self._refuse(refusal), keeps_open=False))
            return
        goes_on = True
        while goes_on:
            try:
                request = await read_request(reader, writer)
            except Refusal as refusal:
                await _send(writer, written(self._refuse(refusal), keeps_open=False))
                await _drain(reader, writer)
                return
            if request is None:
                return
            goes_on = request.keeps_open
            answer = self._handle(request)
            with_body = request.method != "HEAD"
            await _send(writer, written(answer, keeps_open=goes_on, with_body=with_body))


async def _send(writer: asyncio.StreamWriter, raw: bytes) -> None:
    writer.write(raw)
    async with asyncio.timeout(WRITE_LIMIT_S):
        await writer.drain()


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read on for a while: bytes that nobody read would turn the FIN into a RST, and the answer would be lost."""
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_LIMIT_S):
            while await reader.read(HEAD_MAX):
                pass


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Out of descriptors, clients wait until there are some; asyncio would tell of each a hundred times a second."""
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS):
        loop.default_exception_handler(context)
