"""The identity of a process: its pid and its start time, on this boot of this machine.

Pids are reused; pid and start time together name one process uniquely. Invariant: no function here signals a
process whose start time differs from the recorded one.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

END_LIMIT_S = 5.0
"""The longest wait for a process to disappear after SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process; `started` is its start time in clock ticks since boot, from the kernel."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that a run belongs to, with the boot and the machine in which its pid is valid."""

    process: ProcessIdentity
    boot: str
    machine: str
    """Host name and pid namespace, since another container has other pids."""

    def is_foreign(self) -> bool:
        """Whether it runs on another machine or in another container, so its state is unknown here."""
        return self.machine != _machine()

    def is_alive(self) -> bool:
        """Whether it still runs; False for a foreign owner, whose state is unknown."""
        return not self.is_foreign() and self.boot == _boot() and is_alive(self.process)


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process with this pid; None if there is none, or only a zombie."""
    try:
        process = psutil.Process(pid)
        # If only its first thread has ended, a process has status zombie while other threads still run.
        if process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1:
            return None
        started = _start_ticks(pid)
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None
    return ProcessIdentity(pid=pid, started=started)


def owner_of_socket(*, port: int, peer: int) -> ProcessIdentity | None:
    """The process of this machine with a TCP socket from its `port` to the port `peer`; takes 40 ms to 1 s."""
    with suppress(psutil.Error):  # some systems show others' sockets to the administrator only
        for one in psutil.net_connections(kind="tcp"):
            if one.pid and one.laddr and one.raddr and (one.laddr.port, one.raddr.port) == (port, peer):
                return identify(one.pid)
    return None


def has_socket(who: ProcessIdentity, *, port: int, peer: int) -> bool:
    """Whether the process has a TCP socket from its `port` to the port `peer`."""
    with suppress(psutil.Error):
        sockets = psutil.Process(who.pid).net_connections(kind="tcp")
        return any((one.laddr.port, *one.raddr[1:2]) == (port, peer) for one in sockets)
    return False


def is_alive(who: ProcessIdentity) -> bool:
    """Whether this process still runs; a later process with the same pid does not count."""
    return identify(who.pid) == who


def exists(who: ProcessIdentity) -> bool:
    """Whether this process is still in the process table, running or as a zombie."""
    try:
        return _start_ticks(who.pid) == who.started
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return False


def end_process(who: ProcessIdentity) -> bool:
    """Kill this process and wait until it is gone; False if it was gone or its pid is reused."""
    try:
        process = psutil.Process(who.pid)  # psutil compares the start time again before it sends the signal
        if not is_alive(who):
            return False
        process.kill()
        process.wait(timeout=END_LIMIT_S)
    except psutil.NoSuchProcess:
        return False
    return True


def marked_processes(mark: str) -> list[ProcessIdentity]:
    """The live processes, not this one, that were started with `mark` (`NAME=VALUE`) in their environment."""
    name, _, value = mark.partition("=")
    found = []
    for process in psutil.process_iter():
        try:
            has_mark = process.pid != os.getpid() and process.environ().get(name) == value
        except (psutil.Error, OSError):  # it has ended, or is another user's
            continue
        who = identify(process.pid) if has_mark else None
        if who is not None:
            found.append(who)
    return found


def left_in_sessions(leaders: Collection[int]) -> list[ProcessIdentity]:
    """The live processes of sessions whose leaders, given by their pids, have ended and were reaped.

    The system gives a leader's pid to no other process while one of its session lives; so if there is a process with
    that pid, nothing is left of the session.
    """
    over = {pid for pid in leaders if not psutil.pid_exists(pid)}
    found = []
    for pid in psutil.pids() if over else []:
        try:
            is_left = os.getsid(pid) in over
        except OSError:  # it has ended
            continue
        who = identify(pid) if is_left else None
        if who is not None:
            found.append(who)
    return found


def this_owner() -> Owner:
    """The running process as an owner."""
    return Owner(process=this_process(), boot=_boot(), machine=_machine())


def this_process() -> ProcessIdentity:
    """The running process."""
    me = identify(os.getpid())
    assert me is not None, "the running process must be able to see itself"
    return me


def _start_ticks(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists() and platform.system() != "Linux":
        return round(psutil.Process(pid).create_time())
    # The command name is in brackets and may contain anything, so split after the last bracket.
    return int(stat.read_text().rpartition(")")[2].split()[19])


def _boot() -> str:
    source = Path("/proc/sys/kernel/random/boot_id")
    return source.read_text().strip() if source.exists() else str(round(psutil.boot_time()))


def _machine() -> str:
    namespace = Path("/proc/self/ns/pid")
    return f"{platform.node()} {namespace.readlink()}" if namespace.exists() else platform.node()
