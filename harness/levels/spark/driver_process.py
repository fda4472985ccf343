"""The harness's side of a Spark driver: starts its process, gives it runs, follows it, restarts it, and ends it.

Answers to a cluster manager that restarts a driver (`spark-submit --supervise`). Invariants: a driver that has died is
followed by another one, which is told to go on with the same run; its process is in the ledger, and so is its virtual
machine; after `end` neither works any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import NoReturn

import msgspec
import psutil

from harness.engine.level import ExecutionState, ProcessEnd
from harness.faults.real.sites import LiveDriver, LiveExecutor, SparkProcesses
from harness.history.follower import Follower, Progress
from harness.levels.spark.driver import Cancel, DriverReply, DriverSetUp, Perform, Ready
from harness.levels.spark.run_attempts import EndedWorkers, RunAttempts
from harness.levels.spark.session import ended_workers
from harness.scenario.plan import RunPlan
from harness.system.child import PYTHON, Child
from harness.system.clock import Deadline, wait_until
from harness.system.errors import HarnessError, OutlivesSigkill, WorldError
from harness.system.process_identity import ProcessIdentity, end_process, identify, is_alive
from harness.world.ledger import LOOPBACK

_START_S = 180.0
"""The longest start of a session; on a loaded machine with a cold cache one takes a minute."""
_STOP_S = 20.0
_GONE_S = 10.0
STARTS_MAX = 6
"""After so many drivers of one run the run fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """How drivers are made."""

    master: str
    folder: Path
    """For the files and the logs of its sessions."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark."""
    note_process: Callable[[int], None] = lambda pid: None
    """Gets the pid of each process that is started."""


class DriverSeat:
    """One driver at a time. Mutable: the driver that sits here may die, and `start` puts another one in its place."""

    def __init__(self, settings: DriverSettings) -> None:
        self._settings = settings
        self._child: Child | None = None
        self._jvm: ProcessIdentity | None = None
        self._jvms: list[ProcessIdentity] = []
        """Those of all drivers that sat here."""
        self._is_ready = threading.Event()
        self._ended: dict[str, str | None] = {}
        self._starts = 0

    @property
    def folder(self) -> Path:
        """Where the present driver has its files; each driver has its own."""
        return self._settings.folder / f"driver-{self._starts}"

    @property
    def process(self) -> ProcessIdentity | None:
        """The driver's process."""
        child = self._child
        return None if child is None or not child.alive else identify(child.pid)

    @property
    def pid(self) -> int | None:
        """The pid of the present driver, or of the last one."""
        return None if self._child is None else self._child.pid

    @property
    def code(self) -> int | None:
        """How the driver has ended; None: it lives."""
        return None if self._child is None else self._child.code

    @property
    def jvm(self) -> ProcessIdentity | None:
        """The driver's virtual machine, which in local mode is the executor too; None: it is not up."""
        return self._jvm

    def start(self) -> None:
        """Starts a driver. `wait_ready` waits for its session; orders may be sent at once."""
        if self._child is not None:
            self._child.close_pipes(self._child.input)  # it ends by that, if it lives
        self._starts += 1
        self._is_ready.clear()
        self._jvm = None
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self._settings
        command, log = [*PYTHON, "harness.levels.spark.driver"], settings.folder / "driver.log"
        self._child = child = Child(command, talks=True, output=PIPE, errors=log)
        settings.note_process(child.pid)
        threading.Thread(target=self._hear, args=(child,), name="driver-replies", daemon=True).start()
        set_up = DriverSetUp(
            master=settings.master, settings=dict(settings.settings), folder=str(self.folder)
        )
        self._write(set_up)

    def _hear(self, child: Child) -> None:
        for line in child.lines():
            reply = msgspec.json.decode(line, type=DriverReply)
            if child is not self._child:
                break
            if isinstance(reply, Ready):
                self._jvm = identify(reply.jvm)
                self._jvms += [self._jvm] if self._jvm is not None else []
                self._settings.note_process(reply.jvm)
                self._is_ready.set()
            else:
                self._ended[reply.run_id] = reply.error
        child.close_pipes(child.output)

    def _write(self, orders: DriverSetUp | Perform | Cancel) -> None:
        assert self._child is not None, "orders go to a driver that was started"
        self._child.send(msgspec.json.encode(orders) + b"\n")

    def wait_ready(self) -> None:
        """Waits for the session. Raises WorldError if the driver dies before, or takes too long."""
        wait_until(lambda: self._is_ready.is_set() or self.code is not None, deadline=Deadline(_START_S))
        if not self._is_ready.is_set():
            late, code = f"did not start within {_START_S:.0f} s", self.code
            why = late if code is None else f"ended with exit code {code} before its session was up"
            assert self._child is not None, "it was started"
            said = "".join(self._child.last_lines(1)) or "it said nothing"
            raise WorldError(f"the Spark driver {why}: {said}", fix=f"look at {self._child.log}")

    def perform(self, plan: RunPlan, *, subtasks: int, start: int) -> None:
        """Gives the driver a run; `start`: the number of drivers that this run has had, this one included."""
        self._ended.pop(plan.run_id, None)
        # A plan may be larger than the pipe, and a driver that starts does not read yet.
        orders = Perform(plan=plan, subtasks=subtasks, start=start)
        threading.Thread(target=self._write, args=(orders,), daemon=True).start()

    def cancel(self, run_id: str) -> None:
        """Asks the driver to end a run."""
        self._write(Cancel(run_id=run_id))

    def result(self, run_id: str) -> tuple[str | None] | None:
        """None while the run goes on; else a 1-tuple with its error or None."""
        return (self._ended[run_id],) if run_id in self._ended else None

    def end(self) -> None:
        """Ends the driver and its virtual machines. Raises OutlivesSigkill if one does not end, once all are killed."""
        child, self._child = self._child, None
        if child is None:
            return
        left = [] if child.end(grace_s=_STOP_S, limit_s=_GONE_S) else [child.pid]
        wait_until(lambda: not any(map(is_alive, self._jvms)), deadline=Deadline(_GONE_S))
        for jvm in self._jvms:
            with suppress(psutil.Error):
                end_process(jvm)
            left += [jvm.pid] if is_alive(jvm) else []
        if left:
            raise OutlivesSigkill("of a Spark driver these processes have not ended", left)


class DriverRunner:
    """Starts runs at level `spark`, each in a driver that is kept for the next run; implements `LevelRunner`."""

    def __init__(self, settings: DriverSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._free: list[DriverSeat] = []
        self._seats: list[DriverSeat] = []

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> DriverExecution:  # noqa: ARG002 - it has its own log
        """Gives the run to a driver whose session is up."""
        seat = self._seat()
        return DriverExecution(seat, plan, subtasks=subtasks, give_back=self._free.append)

    def _seat(self) -> DriverSeat:
        with self._lock:
            seat = self._free.pop() if self._free else self._new()
        if seat.code is not None:
            seat.start()
        seat.wait_ready()
        return seat

    def _new(self) -> DriverSeat:
        number = len(self._seats) + 1
        one = DriverSeat(
            DriverSettings(
                master=self._settings.master,
                folder=self._settings.folder / f"seat-{number}",
                settings=self._settings.settings,
                note_process=self._settings.note_process,
            )
        )
        self._seats.append(one)
        one.start()
        return one

    @contextmanager
    def open(self) -> Iterator[DriverRunner]:
        """Starts the first driver now; all are ended with the block."""
        with ExitStack() as stack:
            stack.callback(end_seats, self._seats)
            self._free.append(self._seat())
            yield self


def end_seats(seats: Iterable[DriverSeat]) -> None:
    """Ends these drivers, each also if another one does not end."""
    with ExitStack() as stack:
        for seat in seats:
            stack.callback(seat.end)


class DriverExecution:
    """One run in a driver; implements `Execution`. Mutable: counts the drivers that it has had."""

    def __init__(
        self, seat: DriverSeat, plan: RunPlan, *, subtasks: int, give_back: Callable[[DriverSeat], None]
    ) -> None:
        self._seat = seat
        self._plan = plan
        self._subtasks = subtasks
        self._give_back = give_back
        self._starts = 0
        self._error: str | None = None
        self._drivers: list[int] = []
        self._attempts: RunAttempts
        self._perform()

    def _perform(self) -> None:
        self._starts += 1
        self._attempts = RunAttempts(self._plan.folder, ended=EndedWorkers(ended_workers(self._seat.folder)))
        pid = self._seat.pid
        assert pid is not None, "the driver was started"
        self._drivers.append(pid)
        self._seat.perform(self._plan, subtasks=self._subtasks, start=self._starts)

    def poll(self) -> ExecutionState:
        """The run's state; a driver that has died is followed by another one."""
        ends = list(self._attempts.new_ends())
        result = self._seat.result(self._plan.run_id)
        code = self._seat.code
        if result is None and code is not None and self._error is None:
            pid = self._drivers[-1]
            ends += [ProcessEnd(subtask=subtask, pid=pid, code=code) for subtask in range(self._subtasks)]
            self._go_on(code)
        elif result is not None and result[0] is not None:
            self._error = self._attempts.death() or result[0]
        running = result is None and self._error is None
        return ExecutionState(running=running, error=self._error, ends=tuple(ends))

    def _go_on(self, code: int) -> None:
        if self._starts >= STARTS_MAX:
            self._error = (
                f"the Spark driver has ended {self._starts} times; the last time with exit code {code}"
            )
            return
        self._seat.start()
        self._perform()

    def process(self, subtask: int) -> ProcessIdentity | None:
        """See `Workers`; the Python worker of the newest attempt, and none while the driver commits for it."""
        return self._attempts.process(subtask, besides=self._drivers)

    def supersede(self, subtask: int) -> NoReturn:
        """Always raises: Spark starts a task's next attempt only after the last one has ended."""
        message = f"subtask {subtask} cannot be superseded at level spark"
        raise HarnessError(message, fix="a fault that needs it should have been refused: please report it")

    def executor(self) -> ProcessIdentity | None:
        """See `Workers`: the driver's virtual machine, which in local mode is the executor too."""
        jvm = self._seat.jvm
        return jvm if jvm is not None and is_alive(jvm) else None

    def spark(self) -> SparkProcesses:
        """See `Workers`."""
        return self

    def live_driver(self) -> LiveDriver | None:
        main, machine = self._seat.process, self._seat.jvm
        if main is None or machine is None or not is_alive(machine):
            return None
        return LiveDriver(number=self._starts, processes=[main, machine])

    def executors(self) -> Sequence[LiveExecutor]:
        """The executors; in local mode the driver's virtual machine."""
        machine = self.executor()
        if machine is None:
            return []
        return [LiveExecutor(process=machine, host=LOOPBACK, supervisor=None, workers=self._working())]

    def _working(self) -> Mapping[int, ProcessIdentity]:
        """The worker that runs the newest attempt of each subtask, of those that one runs."""
        found = {subtask: self.process(subtask) for subtask in range(self._subtasks)}
        return {subtask: who for subtask, who in found.items() if who is not None}

    def progress(self) -> Progress:
        return Follower(Path(self._plan.folder)).poll()

    def lost_host(self, host: str) -> AbstractContextManager[Sequence[ProcessIdentity]]:
        """Always raises: the only host is this machine."""
        message = f"host {host} cannot be lost without a cluster"
        raise HarnessError(message, fix="a fault that needs it should have been refused: please report it")

    def driver(self) -> ProcessIdentity | None:
        """The process of the driver; None while there is none."""
        return self._seat.process

    def stop(self) -> list[int]:
        """Ends the run; the driver stays for the next one, unless it does not obey."""
        self._attempts.close()
        if self._seat.result(self._plan.run_id) is None:
            self._seat.cancel(self._plan.run_id)
        killed = self._end_attempts()
        run_id = self._plan.run_id
        obeys = wait_until(
            lambda: self._seat.result(run_id) is not None or self._seat.code is not None,
            deadline=Deadline(_STOP_S),
        )
        driver = None if obeys else self._seat.process
        if driver is not None:
            killed.append(driver.pid)
            end_process(driver)
        killed += self._end_attempts()  # one may have begun just before the run was closed
        self._give_back(self._seat)
        return killed

    def _end_attempts(self) -> list[int]:
        """Kills the workers of attempts that are not over; the pids of those that lived."""
        running = [who for who in self._attempts.running() if who.pid not in self._drivers and is_alive(who)]
        for who in running:
            end_process(who)
        return [who.pid for who in running]
