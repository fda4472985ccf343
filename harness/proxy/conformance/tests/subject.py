"""A proxy under test: its process, and the calls that tests make to its control interface.

Invariant: the process is killed when the block ends, and every call has a time limit.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.system.clock import Deadline, wait_until

ASK_LIMIT_S = 60.0
START_LIMIT_S = 60.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the control interface."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


def assert_refused(reply: Reply, status: int) -> None:
    """Whether it is refused with this status, and with a text and the status again as JSON."""
    assert (reply.status, reply.json["status"]) == (status, status)
    assert reply.json["error"]


class Subject:
    """A running proxy. Mutable: calls change it, and it may die."""

    def __init__(self, name: str, *, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        """`own` or `toxiproxy`."""
        self.port = port
        self.process = process
        self._numbers = count(1)

    @property
    def is_own(self) -> bool:
        return self.name == "own"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        limit_s: float = ASK_LIMIT_S,
    ) -> Reply:
        """Send one request on a new connection; text and bytes are sent as they are, anything else as JSON."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=limit_s)
        with closing(connection):
            payload = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
            connection.request(method, path, payload, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode()
            return Reply(status=answer.status, text=text, headers=dict(answer.getheaders()))

    def link(self, upstream: tuple[str, int], **more: Any) -> Link:
        """A new link to `upstream` with a generated name."""
        name = f"link {next(self._numbers)}"
        body = {"name": name, "listen": f"{LOOPBACK}:0", "upstream": f"{upstream[0]}:{upstream[1]}", **more}
        reply = self.ask("POST", "/proxies", body)
        assert reply.status == http.client.CREATED, reply.text
        return Link(subject=self, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of a subject."""

    subject: Subject
    name: str

    @property
    def path(self) -> str:
        """Its path in the control interface."""
        return f"/proxies/{quote(self.name, safe='')}"

    @property
    def shown(self) -> Any:
        """What the control interface shows for it."""
        return self.subject.ask("GET", self.path).json

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.shown["listen"].rpartition(":")
        return host, int(port)

    def set(self, **fields: Any) -> Reply:
        return self.subject.ask("PATCH", self.path, fields)

    def poison(
        self,
        type_: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        stream: str = "downstream",
        **more: Any,
    ) -> str:
        """Add a toxic; returns its name."""
        body = {"type": type_, "stream": stream, "attributes": dict(attributes or {}), **more}
        reply = self.subject.ask("POST", f"{self.path}/toxics", body)
        assert reply.status == http.client.OK, reply.text
        return str(reply.json["name"])

    def change(self, toxic: str, attributes: Mapping[str, Any]) -> Reply:
        """Change a toxic's attributes."""
        return self.subject.ask("PATCH", f"{self.path}/toxics/{toxic}", {"attributes": dict(attributes)})

    def cure(self, toxic: str, *, limit_s: float = ASK_LIMIT_S) -> Reply:
        """Remove a toxic."""
        return self.subject.ask("DELETE", f"{self.path}/toxics/{toxic}", limit_s=limit_s)


@contextmanager
def own_proxy(*options: str) -> Iterator[Subject]:
    """Our proxy as a process, for the duration of the block."""
    command = [sys.executable, "-m", "harness.proxy", "--port", "{port}", *options]
    with _running("own", command) as subject:
        yield subject


@contextmanager
def toxiproxy(program: Path, *options: str) -> Iterator[Subject]:
    """Toxiproxy as a process, for the duration of the block."""
    with _running("toxiproxy", [str(program), "-host", LOOPBACK, "-port", "{port}", *options]) as subject:
        yield subject


@contextmanager
def _running(name: str, command: Sequence[str]) -> Iterator[Subject]:
    port = _free_port()
    process = subprocess.Popen(
        [word.format(port=port) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    subject = Subject(name, port=port, process=process)
    try:
        assert wait_until(lambda: _answers(subject), deadline=Deadline(START_LIMIT_S))
        yield subject
    finally:
        process.kill()
        process.wait()


def _answers(subject: Subject) -> bool:
    assert subject.alive, f"{subject.name} ended with status {subject.process.returncode}"
    try:
        return subject.ask("GET", "/version").status == http.client.OK
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
