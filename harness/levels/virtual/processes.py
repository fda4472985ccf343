"""The processes of a job in virtual time: forked children that are given time and network by this process, in turn.

Answers to `harness.levels.job.processes`. Invariants: a child runs only while this process waits for it, so nothing
depends on which of them the machine runs first; a killed child is reaped before anything else happens, and its
connections end at that instant, as the kernel ends them.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.database.simulated.hub import Actor, Hub
from harness.faults.real.sites import LiveStart
from harness.levels.job.processes import JobStarts
from harness.levels.virtual.inside import READ_MAX, SIZE, live, own_modules, received
from harness.levels.virtual.network import Network, Socket
from harness.system.clock import monotonic_us
from harness.system.errors import SutError, WorldError
from harness.system.process_identity import ProcessIdentity

_BUSY_S: Final = 60
"""How long a job may compute between two waits, in real time."""
_FIRST_PID: Final = 1001


@dataclass(slots=True, kw_only=True)
class JobMachine:
    """Where the processes of a run live. Mutable: knows them."""

    hub: Hub
    network: Network
    lag: Callable[[], int] | None
    """How many ms a packet takes between the job and the proxy; drawn."""
    startup: Callable[[], int]
    """How many ms an interpreter takes until it runs the job; drawn."""
    seed: int
    modules: set[str] = field(default_factory=set)
    """What the job has imported of what is installed."""
    escaped: SutError | None = None
    """What left virtual time; the run is then no evidence."""
    processes: list[JobProcess] = field(default_factory=list)

    def start(
        self, command: Sequence[str], *, output: Path, cwd: Path, environment: Mapping[str, str]
    ) -> JobProcess:
        """See `Child`."""
        made = JobProcess(self, command, output=output, cwd=cwd, environment=environment)
        self.processes.append(made)
        return made

    def of_port(self, port: int) -> JobProcess | None:
        """The process that opened the connection from this port."""
        return next((one for one in self.processes if port in one.ports), None)


class JobProcess:
    """One start: a `Child` in virtual time. Mutable."""

    def __init__(
        self,
        machine: JobMachine,
        command: Sequence[str],
        *,
        output: Path,
        cwd: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.log = output
        self.code: int | None = None
        """The exit code, negative for a signal; None: it has not ended."""
        self.ports: set[int] = set()
        self._machine = machine
        self._ends: dict[int, Socket] = {}
        self._news: list[tuple[int, str, object]] = []
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _BUSY_S, 0))
        seed, own = machine.seed + len(machine.processes), own_modules(len(sys.modules))
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            live(theirs, command, folder=cwd, environment=environment, log=output, seed=seed, own=own)
        theirs.close()
        self._pipe = ours
        self.main = ProcessIdentity(pid=_FIRST_PID + len(machine.processes), started=0)
        """Not the machine's: a history is the same in each run."""
        hub = machine.hub
        self._actor: Actor = hub.spawn(
            self._serve,
            name=f"start {len(machine.processes) + 1}",
            ended=lambda _: None,
            at_ms=hub.now_ms + machine.startup(),
        )
        self._actor.is_daemon = True

    # ------------------------------------------------------------------------------------ as a `Child`

    @property
    def alive(self) -> bool:
        return self.code is None

    def kill(self) -> None:
        """SIGKILL, and what the kernel does then, at this instant."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self._be_reaped()

    def signal(self, number: signal.Signals) -> None:
        """The child takes it in its next turn, which is now."""
        if self.code is None and number != signal.SIGCONT:
            self._tell(0, "signal", int(number))

    def wait(self, limit_s: float) -> int | None:
        del limit_s
        return self.code

    def last_lines(self, count: int) -> list[str]:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text.rstrip().splitlines()[-count:]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        self._actor.pause()
        try:
            yield
        finally:
            self._actor.resume()

    # --------------------------------------------------------------------------------------- its turns

    def _serve(self, actor: Actor) -> None:
        hub = self._machine.hub
        if not self.alive:  # killed while it started
            return
        while (asked := self._read()) is not None:
            what, argument, ops = asked
            for op in ops:
                self._do(*op)
                if self.code is not None:
                    return
            answer: object = None
            match what:
                case "connect":
                    answer = self._connect(*argument)
                case "exit":
                    self._machine.modules.update(argument[1])
                case "escape":
                    self._machine.escaped = SutError(argument, fix="run it with --level job")
                    self.kill()
                    return
                case _:
                    while not self._news and (argument is None or hub.now_ms < argument):
                        actor.wait(argument)
                        if self.code is not None:
                            return
            self._answer(answer)
            if self.code is not None:
                return
        self._be_reaped()

    def _read(self) -> tuple[str, Any, list[tuple[Any, ...]]] | None:
        """What the child asks; None: it has ended. Raises WorldError if it computes for too long."""
        try:
            data = received(self._pipe.recv)
        except BlockingIOError:
            message = f"the job computed for {_BUSY_S} s without waiting for anything"
            raise WorldError(message, fix="run it with --level job") from None
        except OSError:
            return None
        return None if data is None else pickle.loads(data)  # noqa: S301 - our own child

    def _answer(self, answer: object) -> None:
        news, self._news = self._news, []
        data = pickle.dumps((1000 * self._machine.hub.now_ms, answer, news), protocol=5)
        with suppress(OSError):  # it has died: the next read says so
            self._pipe.sendall(SIZE.pack(len(data)) + data)

    def _tell(self, number: int, kind: str, value: object) -> None:
        self._news.append((number, kind, value))
        self._actor.wake()

    def _be_reaped(self) -> None:
        if self.code is None:
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
            self._pipe.close()
            for end in list(self._ends.values()):
                end.close()
            self._ends.clear()
            self._actor.wake()

    # ------------------------------------------------------------------------------------- its sockets

    def _connect(self, number: int, port: int) -> bool:
        end = self._machine.network.connect(port, lag=self._machine.lag)
        if end is None:
            return False
        self.ports.add(end.getsockname()[1])
        self._ends[number] = end
        end.heard = lambda: self._hear(number, end)
        return True

    def _hear(self, number: int, end: Socket) -> None:
        while number in self._ends:
            try:
                data = end.recv(READ_MAX)
            except BlockingIOError:
                return
            except OSError:
                self._tell(number, "reset", b"")
                self._drop(number)
                return
            if not data:
                self._tell(number, "fin", b"")
                self._drop(number)
                return
            self._tell(number, "data", data)

    def _drop(self, number: int) -> None:
        self._ends.pop(number).close()

    def _do(self, what: str, number: int, data: bytes = b"") -> None:
        end = self._ends.get(number)
        if end is None:
            return
        if what == "send":
            with suppress(OSError):
                end.send(data)
        else:
            self._drop(number)


@dataclass(slots=True, kw_only=True)
class VirtualStarts(JobStarts):
    """`JobStarts` whose processes are in virtual time. Mutable."""

    machine: JobMachine

    def made(self, log: Path, environment: Mapping[str, str]) -> Any:
        return self.machine.start(self.command, output=log, cwd=self.folder, environment=environment)

    def identified(self, child: Any) -> ProcessIdentity:
        main: ProcessIdentity = child.main
        return main

    def family(self, start: LiveStart) -> Sequence[ProcessIdentity]:
        return [start.main]

    def everyone(self) -> list[ProcessIdentity]:
        return []

    def orphans(self) -> list[ProcessIdentity]:
        return []

    def start_of(self, pid: int) -> int | None:
        return next((n for n, one in enumerate(self.machine.processes, start=1) if one.main.pid == pid), None)

    def is_alive(self, process: ProcessIdentity) -> bool:
        return any(one.main == process and one.code is None for one in self.machine.processes)

    def owner(self, link: str, port: int) -> ProcessIdentity | None:
        del link
        found = self.machine.of_port(port)
        return None if found is None or found.code is not None else found.main

    @contextmanager
    def standing_still(self) -> Iterator[int]:
        living = [one for one in self.machine.processes if one.code is None]
        if not living:
            yield monotonic_us()
            return
        with living[-1].standing_still():
            yield monotonic_us()

    @contextmanager
    def suspended(self, process: ProcessIdentity, found: Callable[..., None]) -> Iterator[None]:
        (one,) = [one for one in self.machine.processes if one.main == process]
        with one.standing_still():
            found(what="stopped", pid=process.pid, started=process.started, state="T", at_us=monotonic_us())
            try:
                yield
            finally:
                found(what="resumed", pid=process.pid, started=process.started, at_us=monotonic_us())

    def ports(self, family: Sequence[ProcessIdentity]) -> set[int]:
        return {port for one in self.machine.processes if one.main in family for port in one.ports}

    def kill(self, process: ProcessIdentity, *, fault: str) -> bool:
        for number, one in enumerate(self.machine.processes, start=1):
            if one.main == process and one.code is None:
                self.expect_death(LiveStart(number=number, main=process), fault=fault)
                one.kill()
                return True
        return False
