"""Runs on a Spark cluster: a driver that is kept from run to run, and what faults find of its executors and hosts.

Answers to a job that runs under `spark-submit --supervise` on a standalone cluster. Invariants: attempts share nothing
with the harness but the database and a socket; a driver that dies is followed by another one, of the next generation;
when a run is over, every host that it lost is back, and none of its attempts works any more.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil

from harness.engine.level import ATTEMPTS_MAX
from harness.faults.real.sites import LiveExecutor
from harness.history.sent import Collector
from harness.levels.spark.driver_process import DriverExecution, DriverSeat, DriverSettings, end_seats
from harness.levels.spark.shipped_code import code_archive, executor_settings, home_of_our_code
from harness.scenario.order import Order
from harness.scenario.plan import RunPlan
from harness.system.choices import fresh_secret
from harness.system.errors import HarnessError
from harness.system.process_identity import ProcessIdentity
from harness.world.ledger import LOOPBACK
from harness.world.standalone_cluster import (
    ClusterSize,
    StandaloneCluster,
    find_executors,
    host_of,
    open_cluster,
)

_SLOTS = 16
"""The tasks that an executor runs at a time: one of them takes all subtasks of a run if the others are lost. A worker
has no more, so that each host has one executor, also after another was lost and is back. They are not real cores."""
_EXECUTOR_MEMORY = "512m"
_SETTINGS: Mapping[str, str] = {
    "spark.task.maxFailures": str(ATTEMPTS_MAX),
    "spark.executor.memory": _EXECUTOR_MEMORY,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    # An executor that says nothing for 6 s is taken for lost; usually it is 2 minutes.
    "spark.executor.heartbeatInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "6000",
    "spark.network.timeoutInterval": "1s",
}
_SPECULATION: Mapping[str, str] = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
}


@dataclass(slots=True, kw_only=True)
class ClusterRunner:
    """Starts runs, one after the other, on one cluster; implements `LevelRunner`. Mutable: keeps a driver for the next.

    `cluster`: the harness's own; None: `master` is the user's.
    """

    master: str
    folder: Path
    note_process: Callable[[int], None]
    cluster: StandaloneCluster | None = None
    _seats: dict[tuple[str, ...], DriverSeat] = field(default_factory=dict)
    """The one that there is, by what was special about its settings."""
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> ClusterExecution:  # noqa: ARG002 - it has its own log
        """Gives the run to a driver whose session is up; another one is started if the run needs other settings."""
        if not self._lock.acquire(blocking=False):
            message = "two runs at a time on one cluster"
            raise HarnessError(message, fix="please report it")
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            if self.cluster is not None:
                self.cluster.mend()
            speculates = any(fault["do"] == "speculation" for fault in plan.scenario["faults"])
            seat = self._seat(_user_folders(plan), speculates=speculates)
            collector = Collector(Path(plan.folder), host=LOOPBACK, secret=fresh_secret())
            stack.enter_context(collector)
            sent = msgspec.structs.replace(plan, sent_to=collector.to, path=[])
            over = stack.pop_all()
        return ClusterExecution(seat, sent, subtasks=subtasks, cluster=self.cluster, over=over)

    def _seat(self, folders: Sequence[str], *, speculates: bool) -> DriverSeat:
        kind = (*folders, *(["speculates"] if speculates else []))
        if kind not in self._seats:
            self.end()
            self._count += 1
            folder = self.folder / f"cluster-{self._count}"
            folder.mkdir(parents=True)
            archive = code_archive(folder, modules_in=list(map(Path, folders)), is_compiled=True)
            settings = {**_SETTINGS, **executor_settings(archive), **(_SPECULATION if speculates else {})}
            if self.cluster is not None:
                settings |= {
                    "spark.executor.cores": str(_SLOTS),
                    "spark.cores.max": str(_SLOTS * self.cluster.size.workers),
                }
            self._seats[kind] = DriverSeat(
                DriverSettings(
                    master=self.master, folder=folder, settings=settings, note_process=self.note_process
                )
            )
        seat = self._seats[kind]
        if seat.pid is None or seat.code is not None:
            seat.start()
        seat.wait_ready()
        return seat

    def end(self) -> None:
        """Ends the driver."""
        seats = list(self._seats.values())
        self._seats.clear()
        end_seats(seats)


def _user_folders(plan: RunPlan) -> Sequence[str]:
    """The folders of the plan's import path that are a user's own; none if the system under test is one of ours."""
    if ":" not in plan.sut:
        return []
    not_theirs = (sys.prefix, sys.base_prefix, *(path for path in sys.path if "-packages" in path))
    ours = str(home_of_our_code())
    return [
        folder
        for folder in plan.path
        if Path(folder).is_dir() and folder != ours and not any(map(Path(folder).is_relative_to, not_theirs))
    ]


class ClusterExecution(DriverExecution):
    """One run on a cluster; implements `Execution`, and `SparkProcesses` for its faults."""

    def __init__(
        self,
        seat: DriverSeat,
        plan: RunPlan,
        *,
        subtasks: int,
        cluster: StandaloneCluster | None,
        over: ExitStack,
    ) -> None:
        self._cluster = cluster
        self._over = over
        super().__init__(seat, plan, subtasks=subtasks, give_back=lambda seat: None)

    def executor(self) -> None:
        """None: there are several, see `spark`."""
        return

    def stop(self) -> list[int]:
        try:
            return super().stop()
        finally:
            self._over.close()

    def executors(self) -> Sequence[LiveExecutor]:
        driver = self.live_driver()
        if driver is None:
            return []
        cluster, workers = self._cluster, self._working()
        lineages: dict[int, set[int]] = {}
        for subtask, who in workers.items():
            with suppress(psutil.NoSuchProcess):
                lineages[subtask] = {parent.pid for parent in psutil.Process(who.pid).parents()}
        # Those of our own cluster are the children of its workers, which is found out faster.
        found = find_executors(driver.processes) if cluster is None else cluster.executors()
        return [
            LiveExecutor(
                process=executor,
                host=host_of(executor),
                supervisor=None if cluster is None else cluster.worker(host_of(executor)),
                workers={s: who for s, who in workers.items() if executor.pid in lineages.get(s, ())},
            )
            for executor in found
        ]

    @contextmanager
    def lost_host(self, host: str) -> Iterator[Sequence[ProcessIdentity]]:
        assert self._cluster is not None, "a fault of hosts is refused on a cluster that is not ours"
        lost = self._cluster.lose(host)
        try:
            yield lost
        finally:
            self._cluster.bring_back(host)


@contextmanager
def open_cluster_runner(
    order: Order, *, folder: Path, note_process: Callable[[int], None]
) -> Iterator[ClusterRunner]:
    """A runner on the cluster that `order` asks for, which is started for the block if it is to be ours."""
    with ExitStack() as stack:
        cluster = None
        if order.cluster:
            size = ClusterSize(workers=order.cluster, cores=_SLOTS, imports_nothing=True)
            cluster = stack.enter_context(open_cluster(size))
        runner = ClusterRunner(
            master=order.master if cluster is None else cluster.address,
            folder=folder,
            note_process=note_process,
            cluster=cluster,
        )
        stack.callback(runner.end)
        yield runner
