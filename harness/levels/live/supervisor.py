"""Level `live`: each attempt is a process that the fork server makes; a supervisor restarts it when it dies.

Answers to Spark's task scheduler, and to an executor whose heartbeat was lost. A successor starts only after the
process was reaped and its end could be recorded, except when a fault declares it dead while it lives; then both run,
and the successor's commits are counted in the run's files. After `stop`, every process that was started has ended,
and so have the processes that the function under test has started in the session of its worker, as those of a pool
that a SIGKILL has orphaned.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
import psutil

from harness.engine.canaries_in_world import refuse_blind_world
from harness.engine.in_world import record_in_world
from harness.engine.level import ATTEMPTS_MAX, ExecutionState, Opening, Play, ProcessEnd, ending_of
from harness.history.follower import Follower
from harness.levels.live.fork_server import ForkedProcess, ForkServer, surroundings
from harness.levels.live.worker import DONE, REFUSED
from harness.scenario.order import Order
from harness.scenario.plan import RunPlan, encode_plan, numbers_of
from harness.system.clock import Deadline
from harness.system.errors import HarnessError, OutlivesSigkill
from harness.system.process_identity import ProcessIdentity, end_process, identify, left_in_sessions
from harness.world.world import World


class Superseded:
    """A worker that was declared dead while it lives, and its successor's commits; implements `Succession`.

    Mutable: it follows the files of the run.
    """

    def __init__(self, *, folder: Path, subtask: int, old: ForkedProcess | None) -> None:
        self._follower = Follower(folder)
        self._subtask = subtask
        self._old = old
        self._before = self._commits()

    def _commits(self) -> int:
        commits = self._follower.poll().commits
        return sum(times for (subtask, _), times in commits.items() if subtask == self._subtask)

    def successor_commits(self) -> int:
        """How many epochs of the subtask were committed since then."""
        return self._commits() - self._before

    def old_one_is_over(self) -> bool:
        """Whether the process that was declared dead has ended."""
        return self._old is None or self._old.code is not None


_STOP_S = 10.0
"""How long the killed workers may take to end, on a machine under load."""


@dataclass(slots=True, kw_only=True)
class _Worker:
    """The processes of one subtask. Mutable; only the supervisor changes it."""

    subtask: int
    process: ForkedProcess | None = None
    """The process of the newest attempt."""
    superseded: list[ForkedProcess] = field(default_factory=list)
    """Processes that were declared dead and are not reaped yet."""
    log_begins: int = 0
    """Where the log of the newest attempt begins in the subtask's."""
    failures: int = 0
    is_due: bool = False
    """Whether the next poll starts a successor."""
    finished: bool = False


class LiveRunner:
    """Starts runs at level `live`; `note_process` gets the pid of every worker that `server` forks."""

    def __init__(self, server: ForkServer, *, note_process: Callable[[int], None] = lambda pid: None) -> None:
        self._server = server
        self._note_process = note_process

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> Supervisor:
        """Start one process for each subtask."""
        return Supervisor(
            plan, subtasks=subtasks, logs=logs, server=self._server, note_process=self._note_process
        )


class Supervisor:
    """One run; implements `Execution`. Thread-safe: faults declare workers dead from their own threads."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        subtasks: int,
        logs: Path,
        server: ForkServer,
        note_process: Callable[[int], None],
    ) -> None:
        self._server = server
        self._note_process = note_process
        self._plan = encode_plan(plan)
        self._folder = Path(plan.folder)
        self._logs = logs
        self._lock = threading.Lock()
        self._ends: list[ProcessEnd] = []
        self._pids: list[int] = []
        """Those of all workers, each of which leads a session."""
        self._workers = {subtask: _Worker(subtask=subtask) for subtask in numbers_of(plan, subtasks=subtasks)}
        for worker in self._workers.values():
            self._start(worker)

    def _start(self, worker: _Worker) -> None:
        with self._log(worker).open("ab") as log:
            worker.log_begins = log.tell()
            worker.process = self._server.fork(log)
        self._pids.append(worker.process.pid)
        self._note_process(worker.process.pid)
        encode = msgspec.json.encode
        orders = b"\n".join((encode(surroundings()), encode(worker.subtask), self._plan, b""))
        # A plan may be larger than the pipe, and a worker that does not read must not block the supervisor.
        threading.Thread(target=_hand_over, args=(worker.process, orders), daemon=True).start()

    def _log(self, worker: _Worker) -> Path:
        return self._logs / f"worker-{worker.subtask:03d}.log"

    def poll(self) -> ExecutionState:
        """Reap ended processes, restart those that the poll before has reaped, and return the run's state.

        The caller records the end of an attempt between the two, so that no successor starts before its history says
        why.
        """
        with self._lock:
            error = next(
                (said for worker in self._workers.values() if (said := self._reap_and_restart(worker))), None
            )
            ends, self._ends = tuple(self._ends), []
            running = error is None and not all(worker.finished for worker in self._workers.values())
        return ExecutionState(running=running, error=error, ends=ends)

    def _reap_and_restart(self, worker: _Worker) -> str | None:
        """The error that failed the run, if there is one."""
        if worker.is_due:
            worker.is_due = False
            self._start(worker)
        worker.superseded = [process for process in worker.superseded if self._reap(worker, process) is None]
        code = None if worker.process is None or worker.finished else self._reap(worker, worker.process)
        if code is None:
            return None
        worker.finished = code == DONE
        if code != DONE:
            worker.failures += 1
            worker.process = None
            if worker.failures >= ATTEMPTS_MAX or code == REFUSED:
                return self._last_words(worker, code)
            worker.is_due = True
        return None

    def _reap(self, worker: _Worker, process: ForkedProcess) -> int | None:
        """The exit code if the process has ended; records its end once."""
        code = process.code
        if process.is_lost:
            message = "the fork server of level live has ended by itself, so its workers were killed"
            raise HarnessError(
                message, fix="look whether the kernel has killed it for want of memory (`dmesg`)"
            )
        if code is not None:
            self._ends.append(ProcessEnd(subtask=worker.subtask, pid=process.pid, code=code))
        return code

    def _last_words(self, worker: _Worker, code: int) -> str:
        """What the newest attempt said; of one that ended without a word, how its process ended."""
        log = self._log(worker).read_bytes()[worker.log_begins :].decode(errors="replace")
        spoken = re.findall(rf"^subtask {worker.subtask}: (.*(?:\n  .*)*)", log, re.MULTILINE)
        said = spoken[-1].replace("\n  ", "\n") if spoken else ending_of(code)
        return f"subtask {worker.subtask} failed {worker.failures} times; the last time: {said}"

    def process(self, subtask: int) -> ProcessIdentity | None:
        with self._lock:
            process = self._workers[subtask].process
            return None if process is None or process.is_reaped else identify(process.pid)

    def supersede(self, subtask: int) -> Superseded:
        with self._lock:
            worker = self._workers[subtask]
            old = worker.process
            superseded = Superseded(folder=self._folder, subtask=subtask, old=old)
            if old is not None and not worker.finished:
                worker.superseded.append(old)
                self._start(worker)
            return superseded

    def executor(self) -> None:
        """None: there is no executor; each worker is its own process."""
        return

    def spark(self) -> None:
        """None: there is no Spark."""
        return

    def stop(self) -> list[int]:
        """Kill and reap every worker that still runs or is stopped, and kill what the user's code has left running.

        Raises OutlivesSigkill if a worker does not end.
        """
        killed = []
        with self._lock:
            processes = [
                process
                for worker in self._workers.values()
                for process in (*worker.superseded, worker.process)
                if process is not None
            ]
            for process in processes:
                if process.code is None:
                    process.kill()
                    killed.append(process.pid)
            deadline = Deadline(_STOP_S)
            left = [process.pid for process in processes if process.wait(deadline.left_s) is None]
        for who in left_in_sessions(self._pids):
            with suppress(psutil.Error):
                end_process(who)
        if left:
            raise OutlivesSigkill(f"workers have not ended {_STOP_S:g} s", left)
        return killed


def _hand_over(process: ForkedProcess, orders: bytes) -> None:
    """Write the worker's orders into its pipe and leave it open; closing it would tell the worker to end."""
    with suppress(BrokenPipeError, ValueError):  # it died or was stopped; `poll` handles that
        process.pipe.write(orders)
        process.pipe.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLevel:
    """Implements `Level`."""

    name: ClassVar[str] = "live"
    needs_world: ClassVar[bool] = True
    in_threads: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False

    def refuse(self, order: Order) -> None:
        """Accepts every scenario that lists this level."""

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`."""
        assert world is not None, "level live needs a world"
        refuse_blind_world(world, level=self.name)

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        """A runner whose processes are in the ledger."""
        with ForkServer(note_process=opening.note_process) as server:
            yield partial(record_in_world, runner=LiveRunner(server, note_process=opening.note_process))
