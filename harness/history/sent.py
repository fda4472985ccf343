"""Events that are sent: attempts on other hosts write their files there, and send each line to the harness as well.

The harness appends what it gets to the files of the run's folder, as if the attempts ran beside it; so everything that
follows, merges and judges those files stays as it is. Answers to a log shipper. Invariants: a line is handed to the
kernel before its effect, and an attempt that announces a commit, or its own death, goes on only when the harness has
written all lines so far; an attempt without a harness fails. A line that is lost leaves a gap in the numbers.
"""

from __future__ import annotations

import hmac
import re
import socket
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import msgspec

from harness.history.notes import Acted, CommitBegun, Dies, Line, Stops
from harness.history.recorder import Recorder

_WAIT_S = 30.0
"""How long the harness may take to confirm; it writes to a file."""
_LAST_LINES_S = 5.0
"""How long the collector waits for connections to end that had ended attempts at their other end."""
_ASKS = b"?\n"
_CONFIRMS = b"!"
_NAME = re.compile(r"subtask-\d{3}-attempt-\d{4}\.jsonl")
_CONFIRMED = CommitBegun | Dies | Acted | Stops
"""The notes after which an attempt does what cannot be taken back."""


class SentTo(msgspec.Struct, frozen=True, kw_only=True):
    """Where lines are sent to."""

    host: str
    port: int
    secret: str


class _First(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a connection."""

    secret: str
    file: str


class SentRecorder(Recorder):
    """A recorder whose lines also go to the harness. Mutable.

    `mark` gets each event or note, before anybody else does.
    """

    def __init__(
        self,
        path: Path,
        *,
        to: SentTo,
        mark: Callable[[Line], None] = lambda line: None,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path)
        self._mark = mark
        try:
            self._socket = socket.create_connection((to.host, to.port), timeout=_WAIT_S)
        except OSError:
            super().close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.sendall(msgspec.json.encode(_First(secret=to.secret, file=path.name)) + b"\n")
            self._confirm()  # else another attempt of this number could write meanwhile
        except OSError:
            self._hang_up()
            raise

    def _append(self, line: Line) -> None:
        self._mark(line)
        super()._append(line)
        if isinstance(line, _CONFIRMED):
            self._confirm()

    def _write(self, number: int, line: bytes) -> None:
        super()._write(number, line)
        self._socket.sendall(line + b"\n")

    def _confirm(self) -> None:
        """Waits until the harness has written every line so far. Raises OSError if it is gone."""
        self._socket.sendall(_ASKS)
        if self._socket.recv(1) != _CONFIRMS:
            raise ConnectionAbortedError("the harness does not take the events of this attempt")

    def close(self) -> None:
        try:
            self._confirm()
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        self._socket.close()
        super().close()


class _Receiving(socketserver.StreamRequestHandler):
    """One connection: the lines of one attempt."""

    server: _Server

    def handle(self) -> None:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = self._first()
        if first is None:
            return
        with (self.server.folder / first.file).open("xb", buffering=0) as file:
            for line in self.rfile:
                if line == _ASKS:
                    self.wfile.write(_CONFIRMS)
                else:
                    file.write(line)

    def _first(self) -> _First | None:
        try:
            first = msgspec.json.decode(self.rfile.readline(), type=_First)
        except msgspec.MsgspecError:
            return None
        is_ours = hmac.compare_digest(first.secret, self.server.secret) and _NAME.fullmatch(first.file)
        return first if is_ours else None


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, *, folder: Path, secret: str) -> None:
        self.folder = folder
        self.secret = secret
        self._live: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__((host, 0), _Receiving)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._live.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        super().close_request(request)
        with self._changed:
            self._live.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: object, client_address: object) -> None:
        """A host that is lost resets its connections; what is missing then shows in the numbers of the lines."""

    def drain(self, limit_s: float) -> None:
        """Waits until every connection has ended, and ends those that have not."""
        with self._changed:
            self._changed.wait_for(lambda: not self._live, timeout=limit_s)
            for request in self._live:
                request.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._live, timeout=limit_s)


class Collector:
    """Writes into `folder` what attempts send, while the block lasts. Mutable: it serves in a thread of its own."""

    def __init__(self, folder: Path, *, host: str, secret: str) -> None:
        self._server = _Server(host, folder=folder, secret=secret)
        address = self._server.server_address
        self.to = SentTo(host=host, port=int(address[1]), secret=secret)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.drain(_LAST_LINES_S)
        self._server.server_close()
        self._thread.join()
