"""A stage: the worlds and sessions that runs share, opened when first needed and closed for sure.

Invariant: a run has a world to itself while it lasts, for a fault of one run must not touch another; what is
left when the stage closes is the reports.
"""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal

from harness.errors import CannotHere, WorldError
from harness.execution import LevelRunner
from harness.live.supervisor import LiveRunner
from harness.observer import Observer, Stop
from harness.order import Order
from harness.outcome import RunOutcome
from harness.run import perform
from harness.verdict import Outcome
from harness.world.ledger import Ledger
from harness.world.opening import open_world
from harness.world.proxy_choice import PACKETS
from harness.world.settings import WorldSettings
from harness.world.world import World

__all__ = ["Keep", "Stage", "StagePlan", "abilities_needed", "open_stage"]

Keep = Literal["never", "on-failure", "always"]
"""Whose raw event files and worker logs stay in the report's folder."""

_SUBTASKS_MAX = 16
"""Of one run; a Spark session has a slot for each, whatever the machine's cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """What a stage is made of."""

    run_id: str
    report: Path
    """The report's folder; histories go to `report/runs/<run id>-<number>/`."""
    world: str = "auto"
    proxy: str = "auto"
    needs: frozenset[str] = frozenset()
    """Abilities of the first world: those that all runs of this stage can share."""
    lanes: int = 1
    """Runs at a time."""
    keep: Keep = "on-failure"
    offline: bool = False


_DECIDED_WHEN_OPENED = frozenset({PACKETS, "small-disk", "server-clock"})
"""Abilities that a world has only if they are asked for before it opens."""


def abilities_needed(order: Order) -> frozenset[str]:
    """Those abilities of the run's world that must be asked for before it opens."""
    of_faults = {ability: None for fault in order.scenario.faults for ability in fault.abilities}
    return _DECIDED_WHEN_OPENED.intersection(of_faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Free:
    """A world that no run has now, and what it was opened for."""

    world: World
    needs: frozenset[str]

    def suits(self, needs: frozenset[str]) -> bool:
        """A better proxy serves every run; a server on a small disk, say, only those that need one."""
        return needs <= self.needs and self.needs - needs <= {PACKETS}


@contextmanager
def open_stage(plan: StagePlan, *, observer: Observer, stop: Stop) -> Iterator[Stage]:
    """A stage while the block lasts, its first world open: which one it is, is the first thing to know."""
    ledger = Ledger.open(WorldSettings.from_environment().places)
    try:
        with ExitStack() as stack:
            stage = Stage(plan, ledger=ledger, stack=stack, observer=observer, stop=stop)
            stage.open_world(plan.needs)
            yield stage
    finally:
        ledger.close(lambda _: [])


class Stage:
    """Runs orders, from several threads if there are several lanes. Mutable: opens what is needed."""

    def __init__(
        self, plan: StagePlan, *, ledger: Ledger, stack: ExitStack, observer: Observer, stop: Stop
    ) -> None:
        self._plan = plan
        self._ledger = ledger
        self._stack = stack
        self._observer = observer
        self._stop = stop
        self._opening = threading.Lock()
        self._free_worlds: list[_Free] = []
        self._runners: dict[str, LevelRunner] = {"live": LiveRunner(note_process=ledger.note_process)}
        self._numbers = count(1)
        self.secrets: list[str] = []
        """The passwords of the worlds so far; no report may show one."""

    def run(self, order: Order, *, limit_s: float | None = None) -> RunOutcome:
        """Perform `order` in a scratch folder, then move what is to stay into the report's.

        Raises CannotHere, before anything is done, if the world has no means for a fault; WorldError if there is none
        to be had, or if it breaks under the harness itself.
        """
        with self._opening:
            run_id = f"{self._plan.run_id}-{next(self._numbers):03d}"
            free = self._suited(abilities_needed(order))
            world = free.world
            runner = self._runners.get(order.level) or self._open_spark()
        scratch = self._ledger.folder / run_id
        try:
            scratch.mkdir()
            outcome = perform(
                order,
                run_id=run_id,
                world=world,
                runner=runner,
                folder=scratch,
                observer=self._observer,
                stop=self._stop,
                limit_s=limit_s,
            )
        except CannotHere:
            self._free_worlds.append(free)  # nothing was done to it
            raise
        except WorldError:
            self._rescue(run_id, scratch)
            raise
        except OSError as error:
            self._rescue(run_id, scratch)
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            message = f"the disk is full: run {run_id} cannot write to {scratch}"
            fix = "free some space there, or set FLOODMARK_CACHE to another disk"
            raise WorldError(message, fix=fix) from error
        self._free_worlds.append(free)
        return self._kept(outcome, scratch)

    def _rescue(self, run_id: str, scratch: Path) -> None:
        """Keep what a broken run left, where that can be; its world is not used again."""
        if self._plan.keep != "never" and scratch.is_dir():
            with suppress(OSError):
                shutil.copytree(scratch, self._plan.report / "runs" / run_id, dirs_exist_ok=True)

    def open_world(self, needs: frozenset[str]) -> None:
        """One world more, for one lane more or for faults that no other world here can do."""

        def announce(text: str) -> None:
            self._observer.phase("world", text)

        plan = self._plan
        world = self._stack.enter_context(
            open_world(plan.world, proxy=plan.proxy, needs=needs, announce=announce, offline=plan.offline)
        )
        described = world.description
        announce(f"{described.server} behind {described.proxy}, ready in {described.ready_s:.1f} s")
        self.secrets += [world.app.password, world.root.password]
        self._free_worlds.append(_Free(world=world, needs=needs))

    def _suited(self, needs: frozenset[str]) -> _Free:
        """Take a free world that was opened for these abilities, and for none that would change its server."""
        if not any(free.suits(needs) for free in self._free_worlds):
            self.open_world(needs)
        chosen = next(free for free in self._free_worlds if free.suits(needs))
        self._free_worlds.remove(chosen)
        return chosen

    def _open_spark(self) -> LevelRunner:
        from harness.spark.job import SparkRunner  # noqa: PLC0415 - pulls in pyspark
        from harness.spark.session import spark_session  # noqa: PLC0415

        self._observer.phase("spark", "starting a session")
        session = self._stack.enter_context(
            spark_session(
                slots=_SUBTASKS_MAX * self._plan.lanes,
                folder=self._ledger.folder / "spark",
                note_process=self._ledger.note_process,
            )
        )
        runner = self._runners["spark"] = SparkRunner(session)
        return runner

    def _kept(self, outcome: RunOutcome, scratch: Path) -> RunOutcome:
        home = self._plan.report / "runs" / outcome.run_id
        passed = outcome.judgement.outcome is Outcome.PASS
        keeps_all = self._plan.keep == "always" or (self._plan.keep == "on-failure" and not passed)
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
