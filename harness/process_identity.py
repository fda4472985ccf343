"""Who a process is: its pid together with the moment it started, on this boot of this machine.

A pid alone is reused; with its start time it names one process for ever. Invariant: nothing here signals a
process whose start time differs from the one that was written down.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = [
    "Owner",
    "ProcessIdentity",
    "end_process",
    "exists",
    "identify",
    "is_alive",
    "this_owner",
    "this_process",
]

END_LIMIT_S = 5.0
"""How long a process that was sent SIGKILL may take to be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, for ever: `started` is in clock ticks since boot, as the kernel counts it."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that a run belongs to, and where its pid means something."""

    process: ProcessIdentity
    boot: str
    machine: str
    """Host name and pid namespace: a pid of another container says nothing here."""

    def is_foreign(self) -> bool:
        """Whether it ran where we cannot see processes, so that nobody here may call it dead."""
        return self.machine != _machine()

    def is_alive(self) -> bool:
        """Whether it still runs; meaningless (and False) for a foreign one."""
        return not self.is_foreign() and self.boot == _boot() and is_alive(self.process)


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this pid now; None if there is none, or only a zombie."""
    try:
        process = psutil.Process(pid)
        # A process whose first thread has ended is a zombie by its status while others still run.
        if process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1:
            return None
        started = _start_ticks(pid)
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None
    return ProcessIdentity(pid=pid, started=started)


def is_alive(who: ProcessIdentity) -> bool:
    """Whether exactly this process, not one that got its pid later, still runs."""
    return identify(who.pid) == who


def exists(who: ProcessIdentity) -> bool:
    """Whether the system still knows exactly this process, be it as a zombie that waits to be reaped."""
    try:
        return _start_ticks(who.pid) == who.started
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return False


def end_process(who: ProcessIdentity) -> bool:
    """Kill exactly this process and see it gone; False if it was gone already (or is not ours to end)."""
    try:
        process = psutil.Process(who.pid)  # remembers the start time, and compares it again before the signal
        if not is_alive(who):
            return False
        process.kill()
        process.wait(timeout=END_LIMIT_S)
    except psutil.NoSuchProcess:
        return False
    return True


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
    # The command's name stands in brackets and may hold anything, so count from the last bracket on.
    return int(stat.read_text().rpartition(")")[2].split()[19])


def _boot() -> str:
    source = Path("/proc/sys/kernel/random/boot_id")
    return source.read_text().strip() if source.exists() else str(round(psutil.boot_time()))


def _machine() -> str:
    namespace = Path("/proc/self/ns/pid")
    return f"{platform.node()} {namespace.readlink()}" if namespace.exists() else platform.node()
