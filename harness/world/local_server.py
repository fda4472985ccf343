"""The database server of the local world as a process that faults can kill, stop, pause and start.

Invariants: every start uses the same command, port and data folder; sockets of the previous process are removed first;
a server that ended without a fault is an error that quotes the end of its log.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil

from harness.faults.real.server_control import ServerState
from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import identify
from harness.world.mysql_server import MysqlServer
from harness.world.server import lacking
from harness.world.server_place import ServerPlace

SHUT_DOWN_LIMIT_S = 30.0
STOP_LIMIT_S = 5.0
"""How long SIGSTOP and SIGCONT may take to reach every thread; threads get them one by one."""


class LocalMachine:
    """A `harness.world.server.Machine` over a child process. Mutable: the process is replaced."""

    def __init__(
        self,
        server: MysqlServer,
        *,
        place: ServerPlace,
    ) -> None:
        self._process = server.process
        self._again = server.again
        self._socket = server.socket
        self._ballast = place.ballast
        self._clock = place.clock
        self._ended_by_us = False

    def kill(self) -> None:
        """SIGKILL, which works on a stopped process too."""
        self._ended_by_us = True
        self._process.stop()

    def shut_down(self) -> None:
        """SIGTERM, then SIGKILL if it does not end in time."""
        self._ended_by_us = True
        self._process.stop(grace_s=SHUT_DOWN_LIMIT_S)

    def start(self) -> None:
        """Run the same command again."""
        for stale in (self._socket, self._socket.with_name(f"{self._socket.name}.lock")):
            stale.unlink(missing_ok=True)
        self._process = self._again()
        self._ended_by_us = False

    def pause(self) -> None:
        """SIGSTOP; returns when every thread has stopped."""
        self._signal(signal.SIGSTOP, paused=True)

    def resume(self) -> None:
        """SIGCONT; returns when no thread is stopped."""
        self._signal(signal.SIGCONT, paused=False)

    def _signal(self, number: signal.Signals, *, paused: bool) -> None:
        pid = self._process.pid
        os.kill(pid, number)
        wait_until(
            lambda: _is_stopped(pid) == paused or not self._process.alive, deadline=Deadline(STOP_LIMIT_S)
        )
        if self._process.alive and _is_stopped(pid) != paused:
            raise WorldError(
                f"{self._process.name} (process {pid}) did not react to {number.name} within {STOP_LIMIT_S:g} s",
                fix="free the machine's processor, then try again",
            )

    def look(self) -> ServerState:
        """The process and whether it is stopped. Raises WorldError if it ended without a fault."""
        before, process = self._ended_by_us, self._process
        who = identify(process.pid) if process.alive else None
        if who is not None:
            start = f"{who.pid}-{who.started}"
            return ServerState(start=start, paused=_is_stopped(who.pid), pid=who.pid, uptime_s=None)
        # A fault in another thread may have ended or restarted it in between.
        if not before and not self._ended_by_us and process is self._process:
            raise WorldError(
                f"{process.name} ended, and no fault of this run ended it{process.last_words()}",
                fix="its log says why; run it again with --keep always to have it whole",
            )
        return ServerState(start=None, paused=False, pid=None, uptime_s=None)

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait for `condition`. If the process ends, raises WorldError with the end of its log."""
        self._process.wait_for(condition, what=what, limit_s=limit_s)

    def fill_disk(self) -> int:
        """Fill the free space with a ballast file."""
        if self._ballast is None:
            raise lacking("a small disk")
        return self._ballast.fill()

    def free_disk(self) -> None:
        """Remove the ballast file."""
        if self._ballast is None:
            raise lacking("a small disk")
        self._ballast.remove()

    def shift_clock(self, shift_ms: int) -> None:
        """Write the file that the preloaded library reads."""
        if self._clock is None:
            raise lacking("a clock that can be shifted")
        self._clock.shift(shift_ms)

    def stop(self) -> None:
        """Kill it at the world's end; its data folder is deleted anyway."""
        self._ended_by_us = True
        self._process.stop()


def _is_stopped(pid: int) -> bool:
    """Whether every thread has stopped; they get the signal one by one."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        try:
            return psutil.Process(pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False
    states = [_state(task / "stat") for task in tasks.iterdir()]
    return all(state in {"T", "t", ""} for state in states) and "T" in states


def _state(stat: Path) -> str:
    """The thread's state letter; empty if it has just ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
