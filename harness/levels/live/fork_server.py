"""The fork server of level `live`: one process that has imported what an attempt needs, and forks a worker for each.

Importing takes most of the time of a short attempt, and a run has one or more attempts of each subtask. Answers to
`pyspark.daemon`; `multiprocessing`'s fork server would import the main module of the user's program in each worker, and
puts the current folder first on the path. Invariants: the server runs no code of a user and has one thread; it ends
when its socket closes, thus when the harness has died; a worker gets the environment and the current folder of the
harness at its start. Its exit code is told once, by the server, which reaps it.

    harness -> server   a letter, with the two descriptors of a worker: its standard input and its log
    server -> harness   its pid with a descriptor of the process (pidfd); later its pid and exit code
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from harness.system.child import PYTHON, Child
from harness.system.clock import Deadline
from harness.system.errors import HarnessError

_MESSAGE: Final = 64
"""The most bytes of a message."""
_ANSWER_S: Final = 60.0
"""How long the server may take to import and to fork; a machine under load needs several seconds."""
_END_S: Final = 5.0
_KILLED: Final = -int(signal.SIGKILL)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker takes over from the harness, since the server was started earlier."""

    environment: dict[str, str]
    folder: str


class ForkedProcess:
    """A worker, as `Child` shows a process; it is none, since its parent is the server. Thread-safe.

    `pipe` is its standard input.
    """

    def __init__(self, server: ForkServer, *, pid: int, descriptor: int, pipe: IO[bytes]) -> None:
        self.pid = pid
        self.pipe = pipe
        self.descriptor = descriptor
        self.is_lost = False
        """Whether it was killed because its server had ended by itself."""
        self._server = server
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None: it has not ended."""
        self._server.hear()
        return self._code

    @property
    def is_reaped(self) -> bool:
        """Whether its end was already taken in."""
        return self._code is not None

    def wait(self, limit_s: float) -> int | None:
        """The exit code; None: it has not ended after `limit_s`."""
        deadline = Deadline(limit_s)
        while self.code is None and not deadline.passed:
            self._server.hear(within_s=deadline.left_s)
        return self._code

    def kill(self) -> None:
        """Send SIGKILL; nothing if it has ended."""
        self._server.kill(self)

    def ended(self, code: int) -> None:
        """The server has reaped it, or is gone."""
        self._code = code
        os.close(self.descriptor)
        with suppress(BrokenPipeError):  # it ended before it read its orders
            self.pipe.close()


class ForkServer:
    """Starts workers; its process starts with the first one, and again if the interpreter's settings have changed."""

    def __init__(self, *, note_process: Callable[[int], None] = lambda pid: None) -> None:
        self._note_process = note_process
        self._lock = threading.RLock()
        self._process: Child | None = None
        self._socket: socket.socket | None = None
        self._settings: dict[str, str] = {}
        self._alive: dict[int, ForkedProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def fork(self, log: IO[bytes]) -> ForkedProcess:
        """A new worker in a session of its own, whose output goes to `log`; it waits for its orders in its pipe."""
        with self._lock:
            connection = self._connected()
            read, write = os.pipe()
            try:
                pid, descriptor = self._forked(connection, [read, log.fileno()])
            except BaseException:
                os.close(write)
                raise
            finally:
                os.close(read)
            process = ForkedProcess(self, pid=pid, descriptor=descriptor, pipe=os.fdopen(write, "wb"))
            self._alive[pid] = process
            return process

    def _connected(self) -> socket.socket:
        """The socket of a server with the interpreter's present settings."""
        environment = surroundings().environment
        settings = {name: environment[name] for name in environment if name.startswith(("PYTHON", "LD_"))}
        if self._socket is not None and settings != self._settings and not self._alive:
            self.close()
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [*PYTHON, __name__, str(theirs.fileno())]
                self._process = Child(command, errors=None, pass_fds=[theirs.fileno()])
            self._note_process(self._process.pid)
            self._socket, self._settings = ours, settings
        return self._socket

    def _forked(self, connection: socket.socket, descriptors: Sequence[int]) -> tuple[int, int]:
        """The pid and the descriptor of a new worker; what the server tells of others meanwhile is taken in."""
        try:
            socket.send_fds(connection, [b"f"], descriptors)
            connection.settimeout(_ANSWER_S)
            while message := socket.recv_fds(connection, _MESSAGE, 1):
                if message[1]:
                    return int(message[0]), message[1][0]
                if not message[0]:
                    break
                self._take(message[0])
        except TimeoutError as error:
            self.close()
            raise HarnessError(f"the fork server of level live did not answer in {_ANSWER_S:g} s") from error
        except OSError as error:
            self.close()
            raise HarnessError(f"the fork server of level live has ended by itself: {error}") from error
        self.close()
        raise HarnessError("the fork server of level live has ended by itself")

    def hear(self, within_s: float = 0.0) -> None:
        """Take in which workers have ended, waiting for the first for at most `within_s` seconds."""
        connection = self._socket
        if within_s > 0 and connection is not None:
            with suppress(ValueError):  # closed meanwhile
                select.select([connection], [], [], within_s)
        with self._lock, suppress(BlockingIOError):
            while self._socket is not None:
                self._socket.settimeout(0.0)
                message = self._socket.recv(_MESSAGE)
                if message:
                    self._take(message)
                else:
                    for process in self._alive.values():
                        process.is_lost = True
                    self.close()

    def kill(self, process: ForkedProcess) -> None:
        """Send SIGKILL; nothing if it has ended. Locked, since its descriptor is closed when its end is taken in."""
        with self._lock:
            if not process.is_reaped:
                with suppress(ProcessLookupError):  # it ended, and the server has not told yet
                    signal.pidfd_send_signal(process.descriptor, signal.SIGKILL)

    def _take(self, message: bytes) -> None:
        pid, code = map(int, message.split())
        self._alive.pop(pid).ended(code)

    def close(self) -> None:
        """End the server, and kill workers that are left, since nobody would reap them; also after it was killed."""
        with self._lock:
            for process in self._alive.values():
                process.kill()
                process.ended(_KILLED)
            self._alive.clear()
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if self._process is not None:
                self._process.end(grace_s=_END_S)
                self._process = None


def surroundings() -> Surroundings:
    """Those of this process."""
    return Surroundings(
        environment=dict(os.environ),  # noqa: TID251 - handed on unread, as `subprocess` would
        folder=str(Path.cwd()),
    )


# ------------------------------------------------------------------------------------- in the server's process


def _serve(connection: socket.socket, work: Callable[[], object]) -> None:
    """Fork a worker for each letter until the harness closes the socket."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        ready = {key.fileobj for key, _ in selector.select()}
        if woken in ready:
            os.read(woken, 1 << 12)
            _reap(connection)
        if connection in ready:
            letter, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
            if not letter:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                selector.close()
                connection.close()
                os.close(woken)
                os.close(wakes)
                # A session of its own, with the standard input and output that the harness has sent.
                os.setsid()
                pipe, log = descriptors
                for given, standard in ((pipe, 0), (log, 1), (log, 2)):
                    os.dup2(given, standard)
                os.close(pipe)
                os.close(log)
                work()
            descriptor = os.pidfd_open(pid)
            socket.send_fds(connection, [b"%d" % pid], [descriptor])
            for left in (descriptor, *descriptors):
                os.close(left)


def _reap(connection: socket.socket) -> None:
    """Tell the harness each worker that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        connection.send(b"%d %d" % (pid, os.waitstatus_to_exitcode(status)))


def main() -> None:
    """Import what every attempt needs, then serve."""
    import gc  # noqa: PLC0415 - the harness's side needs none of these

    from harness.levels.live import worker  # noqa: PLC0415

    worker.import_all()
    connection = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # a collection in a worker would copy the pages of all these objects

    def work() -> None:
        taken = msgspec.json.decode(sys.stdin.buffer.readline(), type=Surroundings)
        environment = os.environ  # noqa: TID251 - set for the user's code, as `subprocess` would
        environment.clear()
        environment.update(taken.environment)
        os.chdir(taken.folder)
        worker.end(worker.main())

    server = os.getpid()
    try:
        _serve(connection, work)
    except (BrokenPipeError, ConnectionResetError):  # the harness has died
        if os.getpid() != server:
            raise  # an error of the attempt, which ends with it


if __name__ == "__main__":
    main()
