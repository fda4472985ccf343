"""The proxy as a service: one event loop, the links and the control interface, until SIGTERM or SIGINT.

Invariant: when `serve` returns, for whatever reason, nothing listens and every connection is closed.
"""

from __future__ import annotations

import asyncio
import hmac
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, unquote

from harness.proxy.http_server import DIGITS_MAX, HttpResponse, HttpServer, Request
from harness.proxy.json_body import Refusal, json_text
from harness.proxy.link import Link, metrics_text
from harness.proxy.listener import LOOPBACK, is_loopback, joined_address
from harness.proxy.proxy_parts import ProxyParts, raise_descriptor_limit
from harness.proxy.registry import (
    Registry,
    read_connection,
    read_cut,
    read_link,
    read_link_change,
    read_links,
    read_settings,
    read_toxic,
    read_toxic_change,
)
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Toxic
from harness.system.errors import UsageError, WorldError
from harness.system.json_types import JsonView
from harness.system.versions import VERSION
from reference_impl.mailbox.loops import real_loop

CONTROL_PORT = 8474
"""Toxiproxy's default port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The options of a proxy process."""

    host: str = LOOPBACK
    port: int = CONTROL_PORT
    """0: any free port."""
    seed: int = 0
    """Seed of every random decision."""
    token: str | None = None
    """Clients of the control interface must send this token; None: no token is needed."""
    log: Path | None = None
    """File to append every log entry to, one JSON object a line."""
    config: Path | None = None
    """File with links to create at the start: the body of a `POST /populate`."""
    beyond_loopback: bool = False
    """Whether `host` may be an address that other machines can reach."""


def serve(service: Service, *, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `say` gets the address. Raises UsageError or WorldError if it cannot start."""
    if not (service.beyond_loopback or is_loopback(service.host)):
        message = (
            f"--host {service.host} is not on loopback: any machine that reaches it could control the proxy"
        )
        raise UsageError(message, fix="leave --host out, or add --beyond-loopback (and --token)")
    raise_descriptor_limit()
    with ExitStack() as stack:
        log = stack.enter_context(closing(opened(service.log, complain=_complain))) if service.log else None
        loop = stack.enter_context(real_loop())
        parts = ProxyParts(loop, seed=service.seed, log_file=log)
        stack.callback(parts.close)
        registry = Registry(parts)
        stack.callback(registry.close)
        _populate(registry, service.config)
        api = Api(registry, version=VERSION, token=service.token)
        server = HttpServer(api.handle, refuse=refused)
        loop.run_until_complete(_until_told(server, service, say=say))


async def _until_told(server: HttpServer, service: Service, *, say: Callable[[str], None]) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        host, port = await server.start(service.host, service.port)
    except OSError as error:
        raise WorldError(
            f"the proxy cannot listen on {joined_address(service.host, service.port)}: {error.strerror or error}",
            fix="stop the program that listens there, or choose another --port (0: any free one)",
        ) from error
    say(f"listening on {joined_address(host, port)}, seed {service.seed}")
    try:
        await told.wait()
    finally:
        await server.stop()


def _complain(sentence: str) -> None:
    """Write to standard error, which may lie on the same full disk."""
    with suppress(OSError):
        sys.stderr.write(f"floodmark proxy: {sentence}\n")
        sys.stderr.flush()


def _populate(registry: Registry, config: Path | None) -> None:
    if config is None:
        return
    try:
        done = registry.populate(read_links(config.read_bytes()))
    except OSError as error:
        raise UsageError(f"{config} cannot be read: {error.strerror}", fix="name another --config") from error
    except Refusal as refusal:
        raise UsageError(
            f"{config}: {refusal.words}", fix="write a JSON list like the body of a `POST /populate`"
        ) from None
    if done.refusal is not None:
        raise WorldError(f"{config}: {done.refusal.words}", fix="free the port, or change the file")


LINES_MAX = 100_000
"""Entries that wait for the disk; further ones are lost."""
CLOSE_LIMIT_S = 5.0
"""How long the end of the process waits for the entries that still wait."""


class RawFile(Protocol):
    """An unbuffered file; a buffered one would keep what it could not write and fail again for it."""

    def write(self, data: bytes, /) -> int | None:
        """Returns how many bytes were written."""

    def close(self) -> None: ...


def opened(path: Path, *, complain: Callable[[str], None]) -> EventFile:
    """Append to that file. Raises UsageError if it cannot be opened."""
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        message = f"the log file {path} cannot be written: {error.strerror}"
        raise UsageError(message, fix="name another file with --log") from error
    return EventFile(file, name=str(path), complain=complain)


class EventFile:
    """Mutable: owns a thread and counts what is lost; `close` ends it.

    `complain` gets a sentence at the first failure and one with the number of lost entries at the end; it is called on
    the file's thread or on the closing one.

    Invariant: `write` neither waits nor raises, whatever the disk does.
    """

    def __init__(self, file: RawFile, *, name: str, complain: Callable[[str], None]) -> None:
        self.lost = 0
        self._file = file
        self._name = name
        self._complain = complain
        self._torn = False
        """Whether the last entry was written in part."""
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES_MAX)
        self._thread = threading.Thread(target=self._append_all, name="proxy log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Append a line, which ends with a newline, some time later."""
        try:
            self._lines.put_nowait(line.encode())
        except queue.Full:
            self._lose("the disk is too slow")

    def close(self) -> None:
        """Write what waits, for a limited time, and close the file; a disk that hangs does not hold the process."""
        try:
            self._lines.put(None, timeout=CLOSE_LIMIT_S)
        except queue.Full:
            pass
        else:
            self._thread.join(CLOSE_LIMIT_S)
        waiting = self._lines.qsize() if self._thread.is_alive() else 0
        if self.lost or waiting:
            self._complain(f"{self.lost + waiting} log entries are missing in {self._name}")

    def _append_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._append(line)
            except OSError as error:
                self._lose(error.strerror or str(error))
        self._file.close()

    def _append(self, line: bytes) -> None:
        left = b"\n" + line if self._torn else line
        while left:
            written = self._file.write(left) or 0
            self._torn = written < len(left)
            left = left[written:]

    def _lose(self, why: str) -> None:
        self.lost += 1
        if self.lost == 1:
            self._complain(f"log entries are lost, for {self._name} cannot be written now: {why}")


COMPATIBLE_WITH = "2.12.0"
"""The version of Toxiproxy whose interface this is."""

_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoutedRequest:
    """A request whose path matched an entry of the table."""

    names: tuple[str, ...]
    """The values of `{p}` and `{t}` in the path, unquoted."""
    query: Mapping[str, Sequence[str]]
    body: bytes


_Handler = Callable[[_RoutedRequest], HttpResponse]


class Api:
    """Answers requests; `handle` turns every `Refusal` into an answer. Its only state is the registry.

    Toxiproxy's paths, statuses and bodies, and a few of our own.
    A request whose User-Agent is a browser's is refused, as Toxiproxy does, so that no web page can control a proxy.
    """

    def __init__(self, registry: Registry, *, version: str, token: str | None = None) -> None:
        self._registry = registry
        self._version = version
        self._token = token
        self._handlers: Mapping[tuple[str, ...], Mapping[str, _Handler]] = {
            ("version",): {"GET": self._tell_version},
            ("floodmark",): {"GET": self._tell_about, "PUT": self._set},
            ("metrics",): {"GET": self._tell_metrics},
            ("populate",): {"POST": self._populate},
            ("reset",): {"POST": self._reset},
            ("proxies",): {"GET": self._list, "POST": self._make},
            ("proxies", "*"): {
                "GET": self._show,
                "POST": self._change,
                "PATCH": self._change,
                "DELETE": self._remove,
            },
            ("proxies", "*", "toxics"): {"GET": self._list_toxics, "POST": self._add_toxic},
            ("proxies", "*", "toxics", "*"): {
                "GET": self._show_toxic,
                "POST": self._change_toxic,
                "PATCH": self._change_toxic,
                "DELETE": self._remove_toxic,
            },
            ("proxies", "*", "toxics", "*", "release"): {"POST": self._release},
            ("proxies", "*", "deeds"): {"GET": self._tell_log},
            ("proxies", "*", "connections"): {"GET": self._tell_connections},
            ("proxies", "*", "cut"): {"POST": self._cut},
        }

    def handle(self, request: Request) -> HttpResponse:
        path, _, query = request.target.partition("?")
        words = path.removeprefix("/").split("/")
        handlers = self._handlers.get(
            tuple("*" if number in {1, 3} else word for number, word in enumerate(words))
        )
        if handlers is None or not all(words):
            return refused(Refusal("there is no such path", HTTPStatus.NOT_FOUND))
        if request.method not in handlers:
            return refused(Refusal("not a method of this path", HTTPStatus.METHOD_NOT_ALLOWED))
        if request.headers.get("user-agent", "").startswith("Mozilla/"):
            return refused(Refusal("a browser may not control this proxy", HTTPStatus.FORBIDDEN))
        names = tuple(unquote(word) for word in words[1::2])
        call = _RoutedRequest(names=names, query=parse_qs(query), body=request.body)
        try:
            self._check_token(request)
            return handlers[request.method](call)
        except Refusal as refusal:
            return refused(refusal)

    def _check_token(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if self._token is not None and not hmac.compare_digest(
            given.encode("latin-1", "replace"), f"Bearer {self._token}".encode("latin-1", "replace")
        ):
            words = "this proxy was started with a token: send it as `Authorization: Bearer TOKEN`"
            raise Refusal(words, HTTPStatus.UNAUTHORIZED)

    def _tell_version(self, _call: _RoutedRequest) -> HttpResponse:
        version = f"{COMPATIBLE_WITH}-floodmark.{self._version}"
        return _json({"version": version})

    def _tell_about(self, _call: _RoutedRequest) -> HttpResponse:
        own = [kind.name for kind in TOXIC_KINDS.values() if kind.own]
        about = {
            "own": True,
            "packets": True,
            "version": self._version,
            "seed": self._registry.seed,
            "identify": self._registry.identifies,
            "toxics": list(TOXIC_KINDS),
            "own_toxics": own,
        }
        return _json(about)

    def _set(self, call: _RoutedRequest) -> HttpResponse:
        asked = read_settings(call.body)
        if asked.seed is not None:
            self._registry.reseed(asked.seed)
        if asked.identify is not None:
            self._registry.identify(on=asked.identify)
        return self._tell_about(call)

    def _tell_metrics(self, _call: _RoutedRequest) -> HttpResponse:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return HttpResponse(status=HTTPStatus.OK, headers=headers, body=metrics_text(self._registry).encode())

    def _list(self, _call: _RoutedRequest) -> HttpResponse:
        return _json({link.name: _link_shown(link) for link in self._registry})

    def _make(self, call: _RoutedRequest) -> HttpResponse:
        return _json(_link_shown(self._registry.make(read_link(call.body))), HTTPStatus.CREATED)

    def _show(self, call: _RoutedRequest) -> HttpResponse:
        return _json(_link_shown(self._registry.link(call.names[0])))

    def _change(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.link(call.names[0])
        return _json(_link_shown(self._registry.change(call.names[0], read_link_change(call.body))))

    def _remove(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.remove(call.names[0])
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _list_toxics(self, call: _RoutedRequest) -> HttpResponse:
        return _json([_toxic_shown(toxic) for toxic in self._registry.link(call.names[0]).toxics])

    def _add_toxic(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.link(call.names[0])
        return _json(_toxic_shown(self._registry.add_toxic(call.names[0], read_toxic(call.body))))

    def _show_toxic(self, call: _RoutedRequest) -> HttpResponse:
        return _json(_toxic_shown(self._registry.toxic(*call.names)))

    def _change_toxic(self, call: _RoutedRequest) -> HttpResponse:
        link, toxic = call.names
        self._registry.toxic(link, toxic)
        return _json(_toxic_shown(self._registry.change_toxic(link, toxic, read_toxic_change(call.body))))

    def _remove_toxic(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.remove_toxic(*call.names)
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _populate(self, call: _RoutedRequest) -> HttpResponse:
        """A refusal still lists the links that were made before it; Toxiproxy writes `null` for none."""
        try:
            done = self._registry.populate(read_links(call.body))
        except Refusal as refusal:
            return _json({**_refusal_shown(refusal), "proxies": None}, refusal.status)
        shown = [_link_shown(link) for link in done.links] or None
        if done.refusal is not None:
            return _json({**_refusal_shown(done.refusal), "proxies": shown}, done.refusal.status)
        return _json({"proxies": shown}, HTTPStatus.CREATED)

    def _reset(self, _call: _RoutedRequest) -> HttpResponse:
        self._registry.reset()
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _tell_log(self, call: _RoutedRequest) -> HttpResponse:
        link = self._registry.link(call.names[0])
        (after,) = call.query.get("after", ["0"])[-1:]
        if not (after.isascii() and after.isdigit() and len(after) <= DIGITS_MAX):
            words = (
                f"`after` must be the number of a log entry: a whole number of at most {DIGITS_MAX} digits"
            )
            raise Refusal(words, HTTPStatus.BAD_REQUEST)
        return _json(link.log_after(int(after)).as_json())

    def _tell_connections(self, call: _RoutedRequest) -> HttpResponse:
        return _json({"connections": self._registry.link(call.names[0]).connections()})

    def _cut(self, call: _RoutedRequest) -> HttpResponse:
        link = self._registry.link(call.names[0])
        how, connection = read_cut(call.body)
        return _json({"connections": link.cut(how, connection=connection)})

    def _release(self, call: _RoutedRequest) -> HttpResponse:
        link, toxic = call.names[:2]
        return _json({"connections": self._registry.release(link, toxic, read_connection(call.body))})


def refused(refusal: Refusal) -> HttpResponse:
    """Its text and status as JSON."""
    return _json(_refusal_shown(refusal), refusal.status)


def _refusal_shown(refusal: Refusal) -> JsonView:
    return {"error": refusal.words, "status": refusal.status.value}


def _json(value: object, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status=status, headers=_JSON, body=json_text(value).encode())


def _link_shown(link: Link) -> JsonView:
    shown = {
        "name": link.name,
        "listen": link.listen,
        "upstream": link.upstream,
        "enabled": link.enabled,
        "toxics": [_toxic_shown(toxic) for toxic in link.toxics],
    }
    return {**shown, "mysql": True} if link.mysql else shown


def _toxic_shown(toxic: Toxic) -> JsonView:
    return {
        "attributes": dict(toxic.attributes),
        "name": toxic.name,
        "type": toxic.type,
        "stream": toxic.stream,
        "toxicity": toxic.toxicity,
    }
