"""The proxy as a service: one event loop, the links and the control interface, until SIGTERM or SIGINT.

Invariant: when `serve` returns, for whatever reason, nothing listens and every connection is closed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.proxy.api import Api, refused
from harness.proxy.asked import read_links
from harness.proxy.event_file import opened
from harness.proxy.http_server import HttpServer
from harness.proxy.listener import LOOPBACK, is_loopback, joined_address
from harness.proxy.refusal import Refusal
from harness.proxy.registry import Registry
from harness.proxy.workshop import Workshop, raise_descriptor_limit
from harness.system.errors import UsageError, WorldError
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
        workshop = Workshop(loop, seed=service.seed, deeds_file=log)
        stack.callback(workshop.close)
        registry = Registry(workshop)
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
    """To standard error, which may lie on the same full disk."""
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
