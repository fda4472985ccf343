"""The processes of a job: started, restarted, found, stopped and killed.

Answers to a supervisor (systemd, Kubernetes) that starts a program again after each exit. Invariants: every process of
a run has the run's mark in its environment, so that it is found when its parent has died; a process is signalled by pid
and start time; after `end_all` none of them is left, or its error names those that are.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from harness.faults.real.sites import LiveStart, SourceBroker
from harness.faults.real.suspension import resume, suspended
from harness.levels.job.environment import MARK
from harness.levels.job.sources import JobSource
from harness.system.child import Child
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import OutlivesSigkill, WorldError
from harness.system.process_identity import (
    ProcessIdentity,
    end_process,
    has_socket,
    identify,
    is_alive,
    marked_processes,
)
from harness.world.standalone_cluster import find_executors
from harness.world.world import Address

_OWN_SIGNALS: Final = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP"})
"""Signals by which a process ends through a mistake of its own code."""
_LAST_LINES: Final = 12
_END_S: Final = 10
"""How long a killed process may take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExitSeen:
    """The main process of a start was reaped."""

    start: int
    code: int
    """Its exit code, or the negative number of the signal that ended it."""
    by: str | None
    lived_s: float

    def fields(self) -> dict[str, int | str]:
        """The fields of an `exit` event."""
        told: dict[str, int | str] = {"start": self.start}
        told |= {"code": self.code} if self.code >= 0 else {"signal": -self.code}
        return told if self.by is None else {**told, "by": self.by}

    @property
    def how(self) -> str:
        """`exited with code 3`, `was ended by SIGKILL (kill)`."""
        how = f"exited with code {self.code}" if self.code >= 0 else f"was ended by {_name_of(-self.code)}"
        return how + ("" if self.by is None else f" ({self.by})")

    @property
    def text(self) -> str:
        """`start 2 exited with code 3`."""
        return f"start {self.start} {self.how}"


@dataclass(slots=True, kw_only=True)
class _Started:
    """One start. Mutable."""

    number: int
    child: Child
    main: ProcessIdentity | None
    began_us: int
    blamed: str | None = None
    """Who will have been the cause of its exit."""
    exited: bool = False


@dataclass(slots=True, kw_only=True)
class JobStarts:
    """Implements `JobProcesses` for the runs of a job. Mutable; every method may be called from any thread.

    `begins` is called before a start, and gives its environment; `exits` is called once for each exit.
    """

    command: Sequence[str]
    folder: Path
    """The working folder."""
    logs: Path
    run_id: str
    links: Mapping[str, Address]
    begins: Callable[[int], Mapping[str, str]]
    commits: Callable[[], int]
    source: JobSource
    wakes: Callable[[], None] = lambda: None
    """Called before a start that stood still goes on beside a newer one."""
    note_process: Callable[[int], None] = lambda pid: None
    state_folder: Path = Path()
    """Where the job keeps its state."""
    frozen: Sequence[int] = ()
    """The numbers of the starts that stand still, and so open no session."""
    failed_us: list[int] = field(default_factory=list)
    """See `JobProcesses`."""
    _started: list[_Started] = field(default_factory=list)
    _start_of_pid: dict[int, int] = field(default_factory=dict)
    """The start to which each process belongs that was asked about; some have ended since."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def count(self) -> int:
        """How many starts there were."""
        return len(self._started)

    def start(self) -> LiveStart:
        """Starts the job once more. Raises WorldError if the command cannot be started."""
        with self._lock:
            number = len(self._started) + 1
            environment = self.begins(number)
            log = self.logs / f"start-{number}.log"
            log.touch()  # what it raises is no mistake of the command
            try:
                child = self.made(log, environment)
            except OSError as error:
                message = f"the job's command cannot be started: {error.strerror or error}"
                raise WorldError(message, fix="correct `command` in the job file") from error
            self.note_process(child.pid)
            self._start_of_pid[child.pid] = number
            main = self.identified(child)
            self._started.append(_Started(number=number, child=child, main=main, began_us=monotonic_us()))
            gone = ProcessIdentity(pid=child.pid, started=0)
            return LiveStart(number=number, main=main or gone)

    def made(self, log: Path, environment: Mapping[str, str]) -> Child:
        """The process of a start. Raises OSError."""
        return Child(self.command, output=log, cwd=self.folder, environment=environment)

    def identified(self, child: Child) -> ProcessIdentity | None:
        return identify(child.pid)

    def poll(self) -> list[JobExitSeen]:
        """The exits since the last call, in the order of the starts."""
        with self._lock:
            return [
                self._exit(one, code)
                for one in self._started
                if not one.exited and (code := one.child.code) is not None
            ]

    def _exit(self, one: _Started, code: int) -> JobExitSeen:
        one.exited = True
        by = one.blamed if code != 0 or one.blamed == "harness" else None
        if by is None and code < 0 and _name_of(-code) not in _OWN_SIGNALS:
            by = "outside"
        if by is None and code != 0:
            self.failed_us.append(monotonic_us())
        return JobExitSeen(start=one.number, code=code, by=by, lived_s=(monotonic_us() - one.began_us) / 1e6)

    # ------------------------------------------------------------------------------------ for faults

    def newest(self) -> LiveStart | None:
        with self._lock:
            one = self._started[-1] if self._started else None
            if one is None or one.main is None or not one.child.alive:
                return None
            return LiveStart(number=one.number, main=one.main)

    def family(self, start: LiveStart) -> Sequence[ProcessIdentity]:
        found: dict[ProcessIdentity, None] = {start.main: None} if is_alive(start.main) else {}
        with suppress(psutil.Error):
            children = psutil.Process(start.main.pid).children(recursive=True) if found else []
            found |= {who: None for child in children if (who := identify(child.pid)) is not None}
        for who in self.everyone():
            if self._start_of(who) == start.number:
                found[who] = None
        return list(found)

    @property
    def living(self) -> list[int]:
        """The numbers of the starts whose main process lives."""
        with self._lock:
            return [one.number for one in self._started if one.child.alive]

    def start_of(self, pid: int) -> int | None:
        """The start that the process belongs to; None: to none, or it had ended before it was asked for."""
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            for one in (process, *process.parents()) if pid not in self._start_of_pid else ():
                who = identify(one.pid)
                if who is not None and (number := self._start_of(who)) is not None:
                    self._start_of_pid[pid] = number
                    break
        return self._start_of_pid.get(pid)

    def owner(self, link: str, port: int) -> ProcessIdentity | None:
        peer = self.links[link].port
        own = (who for found in (self.everyone, self.executors) for who in found())
        return next((who for who in own if has_socket(who, port=port, peer=peer)), None)

    @contextmanager
    def standing_still(self) -> Iterator[int]:
        start, stopped = self.newest(), list[ProcessIdentity]()
        try:
            if start is not None:
                stopped.append(start.main)
                with suppress(ProcessLookupError):
                    os.killpg(start.main.pid, signal.SIGSTOP)  # at once: it takes 50 ms to find the others
            since_us = monotonic_us()
            for who in self.family(start) if start is not None else ():
                stopped.append(who)
                with suppress(psutil.Error, ProcessLookupError):
                    if os.getpgid(who.pid) != stopped[0].pid:
                        psutil.Process(who.pid).suspend()
                        since_us = monotonic_us()
            yield since_us
        finally:
            for who in stopped:
                resume(who)

    def executors(self) -> Sequence[ProcessIdentity]:
        start = self.newest()
        if start is None:
            return []
        return find_executors(self.family(start))

    def broker(self) -> SourceBroker | None:
        return self.source.broker

    def kill(self, process: ProcessIdentity, *, fault: str) -> bool:
        with self._lock:
            if not is_alive(process):
                return False
            for one in self._started:
                if not one.exited and (one.main == process or self._start_of(process) == one.number):
                    one.blamed = fault
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
                return True
        return False

    def is_alive(self, process: ProcessIdentity) -> bool:
        return is_alive(process)

    def expect_death(self, start: LiveStart, *, fault: str) -> None:
        with self._lock:
            self._started[start.number - 1].blamed = fault

    def suspended(self, process: ProcessIdentity, found: Callable[..., None]) -> AbstractContextManager[None]:
        return suspended(process, found)

    def ports(self, family: Sequence[ProcessIdentity]) -> set[int]:
        ports: set[int] = set()
        for one in family:
            with suppress(psutil.Error):
                for connection in psutil.Process(one.pid).net_connections(kind="tcp"):
                    ports.add(connection.laddr.port)
        return ports

    @contextmanager
    def start_beside(self, *, fault: str) -> Iterator[LiveStart]:
        with self._lock:
            for one in self._started:
                one.blamed = fault if not one.exited else one.blamed
            self.frozen = self.living
            second = self.start()
        try:
            yield second
        finally:
            self.frozen = []
            self.wakes()

    def wait_for_exit(self, start: LiveStart, *, limit_s: float) -> bool:
        one = self._started[start.number - 1]
        return wait_until(lambda: one.exited, deadline=Deadline(limit_s))

    def seen_commits(self) -> int:
        return self.commits()

    # ---------------------------------------------------------------------------------- stop and end

    def everyone(self) -> list[ProcessIdentity]:
        """Every process of the run's job that lives."""
        mains = [one.main for one in self._started if one.main is not None and is_alive(one.main)]
        return list(dict.fromkeys([*mains, *marked_processes(f"{MARK}={self.run_id}")]))

    def orphans(self) -> list[ProcessIdentity]:
        """The processes whose start has ended."""
        with self._lock:
            over = {one.number for one in self._started if not one.child.alive}
        return [who for who in self.everyone() if self._start_of(who) in over]

    def stop(self, *, number: signal.Signals, grace_s: float) -> bool:
        """Asks every live start to end, then kills; returns whether all ended when asked."""
        with self._lock:
            alive = [one for one in self._started if one.child.alive]
            for one in alive:
                one.blamed = "harness"
                with suppress(ProcessLookupError):
                    one.child.signal(number)
                    one.child.signal(signal.SIGCONT)  # a stopped one would not see it
        obeyed = wait_until(lambda: not any(one.child.alive for one in alive), deadline=Deadline(grace_s))
        self.end_all()
        return obeyed

    def end(self, processes: Iterable[ProcessIdentity]) -> None:
        """Kills these, as far as they can be killed."""
        _end(processes)

    def end_all(self) -> None:
        """Kills every process of the job that is left. Raises OutlivesSigkill, once all are killed, if one goes on."""
        with self._lock:
            for one in self._started:
                if one.child.alive:
                    one.blamed = one.blamed or "harness"
                    one.child.kill()
        deadline = Deadline(_END_S)
        for one in self._started:  # first, since another call that waits for one takes its exit code
            one.child.wait(deadline.left_s)
        left = _end(self.everyone())
        if left:
            raise OutlivesSigkill("of the job these processes have not ended", [who.pid for who in left])

    def last_words(self) -> str:
        """The last lines that the newest start with any output printed."""
        for one in reversed(self._started):
            if lines := one.child.last_lines(_LAST_LINES):
                told = "\n    ".join(lines)
                return f"the last lines of its output ({one.child.log.name}):\n    {told}"
        return "it printed nothing"

    def _start_of(self, who: ProcessIdentity) -> int | None:
        for one in self._started:
            if one.main == who:
                return one.number
        with suppress(psutil.Error, OSError, ValueError):
            environment = psutil.Process(who.pid).environ()
            if environment.get(MARK) == self.run_id:
                return int(environment["FLOODMARK_JOB_START"])
        return None


def _end(processes: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """Kills these; returns those that have not ended, or may not be killed."""
    left = []
    for who in processes:
        with suppress(psutil.Error):
            end_process(who)
        if is_alive(who):  # an orphan that has ended may stay in the process table until it is reaped
            left.append(who)
    return left


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
