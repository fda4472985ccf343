"""The runs of a job in virtual time: those of level `job` with another clock, network and processes.

Invariant: a run depends on its order alone; each has a world of its own.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from harness.engine.level import OutsideRecord, RunSite
from harness.levels.job.binlog import ChangeLogInTurn, LogPosition
from harness.levels.job.job_run import CalmRun, JobRun
from harness.levels.job.level import JobPlays
from harness.levels.job.order import JobOrder
from harness.levels.job.records import JobInput
from harness.levels.job.statement_log import SentStatement
from harness.levels.job.table_watch import TableWatch
from harness.levels.virtual.inside import preload
from harness.levels.virtual.processes import VirtualStarts
from harness.levels.virtual.world import ServerAt, VirtualWorld
from harness.system.clock import monotonic_us
from harness.system.whole_file import temporary_folder
from harness.world.world import World

_LOG_S: Final = 30.0


@dataclass(slots=True, kw_only=True)
class _WatchInTurn(TableWatch):
    """Reads the log up to its end before it looks. Mutable."""

    catch_up: Callable[[], None]

    def digest(self) -> None:
        self.catch_up()
        TableWatch.digest(self)


class _Statements:
    """A `StatementLog` from the packets."""

    trouble = ""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self) -> list[SentStatement]:
        return list(self._world.statements)


@dataclass(slots=True, kw_only=True)
class VirtualJobRun(JobRun):
    """A run of a job in virtual time. Mutable."""

    virtual: VirtualWorld
    _changes: int = -1
    _ended_after: int = -1
    _log_end: LogPosition | None = None

    def run(self) -> None:
        self.virtual.serve(self.ground.database.root)
        JobRun.run(self)
        self.virtual.end_sessions()

    def _made_statement_log(self) -> Any:
        return _Statements(self.virtual)

    def _made_watch(self) -> TableWatch:
        return _WatchInTurn(**self.of_watch(), catch_up=self._catch_up)

    def _made_log(self, begin: LogPosition) -> ChangeLogInTurn:
        root = self.world.root.at(self.world.direct, "")
        return ChangeLogInTurn(
            root, database=self.ground.database.root.database, begin=begin, take=self.seen.take
        )

    def _catch_up(self) -> None:
        bridge = self.virtual.bridge
        assert bridge is not None
        if bridge.changes != self._changes:
            self._changes = bridge.changes
            self.log.wait_for(self.ground.database.end_of_log(lambda: self.log.position), limit_s=_LOG_S)
        if bridge.parked:
            bridge.look_again()

    def _end_of_log(self) -> LogPosition:
        """Asked again if a session of the job has written since; what others write stands between no two of its own."""
        bridge = self.virtual.bridge
        assert bridge is not None
        if self._log_end is None or bridge.changes != self._ended_after:
            self._ended_after = bridge.changes
            self._log_end = self.ground.database.end_of_log(lambda: self.log.position)
        return self._log_end

    def _made_starts(self) -> VirtualStarts:
        return VirtualStarts(**self.of_starts(), machine=self.virtual.machine)


@dataclass(slots=True, kw_only=True)
class PlaysHere(JobPlays):
    """Makes the runs of a campaign, each in a world of its own. Mutable."""

    at: ServerAt
    known: set[str] = field(default_factory=set)
    """The modules of installed packages that this process has loaded for its jobs."""
    _where: World = field(init=False)
    """One that no run is made in: it says where the server is and what cannot be done."""

    def __post_init__(self) -> None:
        self._where = VirtualWorld(self.at, seed=0, is_steady=True).world

    def __call__(self, order: JobOrder, site: RunSite) -> OutsideRecord:
        with temporary_folder("floodmark-job-") as folder:
            made = JobPlays.__call__(self, order, replace(site, world=self._where, folder=folder))
            if site.folder.name and (folder / "job").is_dir():  # a run that is only counted has no folder
                shutil.copytree(folder / "job", site.folder / "job", dirs_exist_ok=True)
            return replace(made, ran_us=monotonic_us())  # by the real clock, as of any run

    def calm_twin(self, order: JobOrder, site: RunSite) -> CalmRun:
        with temporary_folder("floodmark-job-") as folder:
            return JobPlays.calm_twin(self, order, replace(site, world=self._where, folder=folder))

    def _made_run(
        self,
        order: JobOrder,
        given: JobInput,
        site: RunSite,
        world: World,
        *,
        calm: CalmRun | None,
        again: bool = False,
    ) -> JobRun:
        """As of level `job`. All runs with equal records have equal twins, whichever of them is made first."""
        del world
        seed = order.drawn_by + again if calm is None else order.seed
        virtual = VirtualWorld(self.at, seed=seed, is_steady=calm is None and not again)

        def made(**parts: Any) -> JobRun:
            return VirtualJobRun(**parts, virtual=virtual)

        self.kind = made
        run: JobRun = virtual.run(
            lambda: JobPlays._made_run(self, order, given, site, virtual.world, calm=calm)  # noqa: SLF001
        )
        preload(sorted(virtual.machine.modules))  # so that later starts, which are forked, need not
        if not virtual.machine.modules <= self.known:
            self.known |= virtual.machine.modules
            gc.freeze()  # a child's collections leave alone, and so do not copy, what is here already
        return run
