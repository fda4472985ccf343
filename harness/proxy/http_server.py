"""A small HTTP/1.1 server for the control interface, on the proxy's own loop.

It serves programs of this machine: sizes, times and the number of clients are bounded, and no client can make
another one wait. Whatever the bytes, reading ends in a request or a refusal; an answer is sent whole, or the
connection is closed; no file is ever served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from harness.proxy.json_body import Refusal
from harness.proxy.listener import OUT_OF_DESCRIPTORS
from harness.system.json_types import Json

HEAD_MAX = 64 * 1024
"""Bytes of a request's first line and headers."""
BODY_MAX = 1024 * 1024
DIGITS_MAX = 18
"""Digits of a whole number in a header or a query; it then fits into 64 bits."""
READ_LIMIT_S = 10.0
"""How long a request may take from its first byte to its last."""
IDLE_LIMIT_S = 60.0
"""How long a connection may wait between two requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One complete request."""

    method: str
    target: str
    """Path and query as sent, still percent-encoded."""
    headers: Mapping[str, str]
    """The headers by name in lower case."""
    body: bytes
    keeps_open: bool
    """Whether the connection stays open for another request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """One answer."""

    status: HTTPStatus
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """The next request; None if the client disconnected or sent none in time. Raises `Refusal` for a malformed one."""
    try:
        async with asyncio.timeout(IDLE_LIMIT_S):
            first = await reader.read(1)
    except TimeoutError:
        return None
    if not first:
        return None
    try:
        async with asyncio.timeout(READ_LIMIT_S):
            method, target, headers, keeps_open = _read_head(await _read_lines(reader, first))
            if headers.get("expect", "").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await _read_body(reader, headers)
    except TimeoutError:
        raise Refusal(
            f"the request did not arrive completely within {READ_LIMIT_S:g} s", HTTPStatus.REQUEST_TIMEOUT
        ) from None
    except asyncio.LimitOverrunError:
        message = f"the request's headers are larger than {HEAD_MAX} bytes"
        raise Refusal(message, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
    except asyncio.IncompleteReadError:
        return None
    return Request(method=method, target=target, headers=headers, body=body, keeps_open=keeps_open)


async def _read_lines(reader: asyncio.StreamReader, begun: bytes) -> list[str]:
    """The first line and the header lines; empty lines before them are skipped. A line ends with CR LF, no less."""
    lines: list[str] = []
    size = 0
    while True:
        line = begun + (await reader.readuntil(b"\n") if begun != b"\n" else b"")
        begun = b""
        size += len(line)
        if size > HEAD_MAX:
            raise asyncio.LimitOverrunError("the head is too large", size)
        if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
            raise Refusal("a line of the head does not end with CR LF", HTTPStatus.BAD_REQUEST)
        if line != b"\r\n":
            lines.append(line[:-2].decode("latin-1"))
        elif lines:
            return lines


def _read_head(said_lines: list[str]) -> tuple[str, str, dict[str, str], bool]:
    """Method, target, headers by name in lower case, and whether the connection stays open."""
    first, *lines = said_lines
    words = first.split(" ")
    if len(words) != len(("GET", "/", "HTTP/1.1")) or not words[2].startswith("HTTP/1."):
        raise Refusal("the first line is no request line of HTTP/1.1", HTTPStatus.BAD_REQUEST)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Refusal("a header line has no name or no colon", HTTPStatus.BAD_REQUEST)
        if name.lower() == "content-length" and "content-length" in headers:
            raise Refusal("the Content-Length is there twice", HTTPStatus.BAD_REQUEST)
        headers[name.lower()] = value.strip()
    said = [option.strip() for option in headers.get("connection", "").lower().split(",")]
    return words[0], words[1], headers, "close" not in said and words[2] != "HTTP/1.0"


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise Refusal("send the body whole, with its Content-Length", HTTPStatus.LENGTH_REQUIRED)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) <= DIGITS_MAX):
        raise Refusal(
            f"the Content-Length is not a number of at most {DIGITS_MAX} digits", HTTPStatus.BAD_REQUEST
        )
    if int(length) > BODY_MAX:
        message = f"the request's body is larger than {BODY_MAX} bytes"
        raise Refusal(message, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return await reader.readexactly(int(length))


def written(answer: HttpResponse, *, keeps_open: bool, with_body: bool = True) -> bytes:
    """The answer's bytes; `with_body` is false for the answer to a HEAD."""
    headers = dict(answer.headers)
    if answer.status != HTTPStatus.NO_CONTENT:
        headers["Content-Length"] = str(len(answer.body))
    if not keeps_open:
        headers["Connection"] = "close"
    head = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (head + "\r\n").encode("latin-1") + (answer.body if with_body else b"")


CLIENTS_MAX = 256
"""Clients served at once. One more takes the place of the one that has sent nothing whole for the longest; it gets 503
if all are being answered."""
WRITE_LIMIT_S = 25.0
"""How long a client may take to read its answer, as in Toxiproxy."""

DRAIN_LIMIT_S = 2.0
"""How long the rest of a refused request is read and thrown away before the connection is closed."""

Handle = Callable[[Request], HttpResponse]


class HttpServer:
    """Listens and answers. Mutable: it counts its clients."""

    def __init__(self, handle: Handle, *, refuse: Callable[[Refusal], HttpResponse]) -> None:
        self._handle = handle
        self._refuse = refuse
        self._clients: dict[asyncio.Task[None], None] = {}
        self._silent: dict[asyncio.StreamWriter, None] = {}
        """Clients whose request has not come, or not completely; the longest wait is first."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Start to listen; returns host and port. Raises OSError if the address cannot be bound."""
        asyncio.get_running_loop().set_exception_handler(_tell)
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_MAX)
        address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return address

    async def stop(self) -> None:
        """Stop listening and disconnect every client."""
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
            pass  # the client closed the connection, or does not read
        finally:
            del self._clients[task]
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) > CLIENTS_MAX and not self._hang_up_on_a_silent_one():
            refusal = Refusal(f"more than {CLIENTS_MAX} clients at once", HTTPStatus.SERVICE_UNAVAILABLE)
            await _send(writer, written(self._refuse(refusal), keeps_open=False))
            return
        goes_on = True
        while goes_on:
            self._silent[writer] = None
            try:
                request = await read_request(reader, writer)
            except Refusal as refusal:
                await _send(writer, written(self._refuse(refusal), keeps_open=False))
                await _drain(reader, writer)
                return
            finally:
                self._silent.pop(writer, None)
            if request is None:
                return
            goes_on = request.keeps_open
            answer = self._handle(request)
            with_body = request.method != "HEAD"
            await _send(writer, written(answer, keeps_open=goes_on, with_body=with_body))

    def _hang_up_on_a_silent_one(self) -> bool:
        """Make room for a client; returns whether there was a silent one. Its reading ends as if it had hung up."""
        for writer in self._silent:
            del self._silent[writer]
            writer.close()
            return True
        return False


async def _send(writer: asyncio.StreamWriter, raw: bytes) -> None:
    writer.write(raw)
    async with asyncio.timeout(WRITE_LIMIT_S):
        await writer.drain()


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read and throw away.

    Unread bytes would make the kernel send RST instead of FIN, and the answer could be lost.
    """
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_LIMIT_S):
            while await reader.read(HEAD_MAX):
                pass


def _tell(loop: asyncio.AbstractEventLoop, context: Json) -> None:
    """Hides accept errors for lack of descriptors.

    asyncio would report them a hundred times a second; the client waits.
    """
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS):
        loop.default_exception_handler(context)
