"""A stage: the levels and worlds that runs share, opened when first needed and closed with the block.

Invariant: when the stage is closed, only the reports are left.
"""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.engine.level import Levels, Observer, Opening, Play, RunSite, Stop, asks_a_server, refuse
from harness.engine.perform import perform
from harness.history.verdict import Outcome
from harness.scenario.order import AnyOrder
from harness.scenario.outcome import RunOutcome
from harness.system.errors import HarnessError, WorldError
from harness.system.pool import Executors

if TYPE_CHECKING:
    from harness.engine.worlds import Worlds
    from harness.world.world import World

Keep = Literal["never", "on-failure", "always", "database"]
"""For which runs to keep raw event files and worker logs in the report's folder; `database`: always, and the server's
data too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """The settings of a stage."""

    run_id: str
    report: Path
    """The report's folder; histories go to `report/runs/<run id>-<number>/`."""
    levels: Levels
    world: str = "auto"
    proxy: str = "auto"
    lanes: int = 1
    """The number of parallel runs."""
    keep: Keep = "on-failure"
    offline: bool = False
    executors: Callable[[], AbstractContextManager[Executors]] | None = None
    """Opens the machines that perform repeatable runs; None: processes of this one do."""


@contextmanager
def open_levels(plan: StagePlan, *, observer: Observer, stop: Stop) -> Iterator[OpenLevels]:
    """A stage while the block lasts; it opens worlds and levels only when they are needed."""
    with ExitStack() as stack:
        yield OpenLevels(plan, stack=stack, observer=observer, stop=stop)


class OpenLevels:
    """Performs orders, from several threads if there are several lanes. Mutable: opens what is needed."""

    def __init__(self, plan: StagePlan, *, stack: ExitStack, observer: Observer, stop: Stop) -> None:
        self._plan = plan
        self._stack = stack
        self._observer = observer
        self._stop = stop
        self._opening = threading.Lock()
        self._worlds: Worlds | None = None
        self._plays: dict[tuple[str, bool], Play] = {}
        """By level; of a repeatable one, also by system under test."""
        self._sighted: dict[str, None] = {}
        """The levels whose canaries were seen."""
        self._numbers = count(1)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The passwords of the worlds so far, to be removed from reports."""
        return () if self._worlds is None else tuple(self._worlds.secrets)

    @property
    def kept(self) -> tuple[str, ...]:
        """How to open the data of each server that stays, one line each."""
        return () if self._worlds is None else tuple(self._worlds.kept)

    def run(self, order: AnyOrder, *, limit_s: float | None = None) -> RunOutcome:
        """Performs `order`, in a scratch folder if it has a world, and moves the files to keep to the report's folder.

        Raises CannotHere before it starts if the world lacks an ability that a fault needs, and WorldError if no world
        can be opened or the world fails.
        """
        refuse(order, self._plan.levels(order.level))
        with self._opening:
            run_id = f"{self._plan.run_id}-{next(self._numbers):03d}"
        home = self._plan.report / "runs" / run_id
        with self._world_of(order) as world:
            with self._opening:
                if order.level not in self._sighted:
                    self._plan.levels(order.level).refuse_blindness(world)
                    self._sighted[order.level] = None
                play = self._play(order)
            scratch = home if world is None else self.worlds().ledger.folder / run_id
            site = RunSite(
                run_id=run_id,
                folder=scratch,
                world=world,
                observer=self._observer,
                stop=self._stop,
                limit_s=limit_s,
                keeps_database=self._plan.keep == "database",
            )
            with self._rescuing(scratch, home):
                outcome = perform(order, play=play, site=site)
        return outcome if scratch == home else self._kept(outcome, scratch, home)

    @contextmanager
    def _world_of(self, order: AnyOrder) -> Iterator[World | None]:
        if not self._plan.levels(order.level).needs_world:
            yield None
            return
        from harness.engine.worlds import abilities_needed  # noqa: PLC0415 - pulls in a database's client

        with self.worlds().lent(abilities_needed(order)) as world:
            yield world

    def worlds(self) -> Worlds:
        """The shared worlds, created on first use."""
        with self._opening:
            if self._worlds is None:
                from harness.engine.worlds import Worlds  # noqa: PLC0415 - pulls in a database's client

                plan = self._plan
                self._worlds = self._stack.enter_context(
                    Worlds(
                        plan.world,
                        proxy=plan.proxy,
                        offline=plan.offline,
                        announce=lambda text: self._observer.phase("world", text),
                        keeps_in=plan.report / "database" if plan.keep == "database" else None,
                    )
                )
            return self._worlds

    def _play(self, order: AnyOrder) -> Play:
        name, plan = order.level, self._plan
        has_server = plan.levels(name).repeatable and asks_a_server(order)
        key = (name, has_server)
        if key not in self._plays:
            opening = Opening(
                lanes=plan.lanes,
                announce=lambda text: self._observer.phase(name, text),
                has_server=has_server,
                world=plan.world,
            )
            if self._worlds is not None:
                ledger = self._worlds.ledger
                opening = replace(
                    opening,
                    folder=ledger.folder / name,
                    note_process=ledger.note_process,
                    note_mark=ledger.note_mark,
                )
            with self._stop.setting_up():
                self._plays[key] = self._stack.enter_context(plan.levels(name).open(opening))
        return self._plays[key]

    @contextmanager
    def _rescuing(self, scratch: Path, home: Path) -> Iterator[None]:
        """Copies the files of a failed run to the report's folder, if possible."""
        try:
            yield
        except (WorldError, HarnessError):
            self._rescue(scratch, home)
            raise
        except OSError as error:
            self._rescue(scratch, home)
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            if not full and scratch != home:  # a run with a world has other reasons for such an error
                raise
            why = "the disk is full" if full else error.strerror or str(error)
            message = f"{why}: run {home.name} cannot write to {scratch}"
            other = "choose another folder with --report"
            if scratch != home:
                other = "set FLOODMARK_CACHE to another disk"
            raise WorldError(message, fix=f"free some space there, or {other}") from error

    def _rescue(self, scratch: Path, home: Path) -> None:
        if self._plan.keep != "never" and scratch != home and scratch.is_dir():
            with suppress(OSError):
                shutil.copytree(scratch, home, dirs_exist_ok=True)

    def _kept(self, outcome: RunOutcome, scratch: Path, home: Path) -> RunOutcome:
        passed = outcome.judgement.outcome is Outcome.PASS
        keep = self._plan.keep
        keeps_all = keep in {"always", "database"} or (keep == "on-failure" and not passed)
        try:
            home.mkdir(parents=True)
            for item in sorted(scratch.iterdir()):
                if keeps_all or item == outcome.history:
                    shutil.move(item, home / item.name)
            shutil.rmtree(scratch)
        except OSError as error:
            message = f"cannot store run {outcome.run_id} in {home}: {error.strerror or error}"
            fix = "free some space there, or choose another folder with --report"
            raise WorldError(message, fix=fix) from error
        return replace(outcome, history=home / outcome.history.name)
