"""A proxy under test: a process with a control interface, and the few things a test asks it for.

Invariant: the process is gone when the block ends, and no answer is waited for longer than its limit.
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

from harness.clock import Deadline, wait_until

__all__ = ["ASK_LIMIT_S", "Link", "Reply", "Subject", "own_proxy", "toxiproxy"]

ASK_LIMIT_S = 5.0
START_LIMIT_S = 20.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What was answered."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


class Subject:
    """A running proxy. Mutable: it has been asked for things, and it may die."""

    def __init__(self, name: str, *, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        """`own` or `toxiproxy`."""
        self.port = port
        self.process = process
        self._numbers = count(1)

    @property
    def is_own(self) -> bool:
        """Whether it is ours."""
        return self.name == "own"

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
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
        """One request on a connection of its own; text and bytes are sent as they are, the rest as JSON.

        Raises TimeoutError if it does not answer in time.
        """
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=limit_s)
        with closing(connection):
            payload = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
            connection.request(method, path, payload, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode()
            return Reply(status=answer.status, text=text, headers=dict(answer.getheaders()))

    def link(self, upstream: tuple[str, int], **more: Any) -> Link:
        """A new link to `upstream`, under a name of its own."""
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
        """Its address in the control interface."""
        return f"/proxies/{quote(self.name, safe='')}"

    @property
    def shown(self) -> Any:
        """As the control interface shows it."""
        return self.subject.ask("GET", self.path).json

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.shown["listen"].rpartition(":")
        return host, int(port)

    def set(self, **fields: Any) -> Reply:
        """Change it."""
        return self.subject.ask("PATCH", self.path, fields)

    def poison(
        self,
        type_: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        stream: str = "downstream",
        **more: Any,
    ) -> str:
        """Add a toxic; its name."""
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
    """Ours, as a process."""
    command = [sys.executable, "-m", "harness.proxy", "--port", "{port}", *options]
    with _running("own", command) as subject:
        yield subject


@contextmanager
def toxiproxy(program: Path, *options: str) -> Iterator[Subject]:
    """The real one."""
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
