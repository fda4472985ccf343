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

from harness.errors import WorldError
from harness.execution import LevelRunner
from harness.live.supervisor import LiveRunner
from harness.observer import Observer, Stop
from harness.order import Order
from harness.outcome import RunOutcome
from harness.run import perform
from harness.verdict import Outcome
from harness.world.ledger import Ledger
from harness.world.opening import open_world
from harness.world.settings import WorldSettings
from harness.world.world import World

__all__ = ["Keep", "Stage", "StagePlan", "open_stage"]

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
    lanes: int = 1
    """Runs at a time."""
    keep: Keep = "on-failure"
    offline: bool = False


@contextmanager
def open_stage(plan: StagePlan, *, observer: Observer, stop: Stop) -> Iterator[Stage]:
    """A stage while the block lasts, its first world open: which one it is, is the first thing to know."""
    ledger = Ledger.open(WorldSettings.from_environment().places)
    try:
        with ExitStack() as stack:
            stage = Stage(plan, ledger=ledger, stack=stack, observer=observer, stop=stop)
            stage.open_world()
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
        self._free_worlds: list[World] = []
        self._runners: dict[str, LevelRunner] = {"live": LiveRunner(note_process=ledger.note_process)}
        self._numbers = count(1)
        self.secrets: list[str] = []
        """The passwords of the worlds so far; no report may show one."""

    def run(self, order: Order, *, limit_s: float | None = None) -> RunOutcome:
        """Perform `order` in a scratch folder, then move what is to stay into the report's.

        Raises WorldError if there is no world to be had, or if it breaks under the harness itself.
        """
        with self._opening:
            run_id = f"{self._plan.run_id}-{next(self._numbers):03d}"
            if not self._free_worlds:
                self.open_world()
            world = self._free_worlds.pop()
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
        self._free_worlds.append(world)
        return self._kept(outcome, scratch)

    def _rescue(self, run_id: str, scratch: Path) -> None:
        """Keep what a broken run left, where that can be; its world is not used again."""
        if self._plan.keep != "never" and scratch.is_dir():
            with suppress(OSError):
                shutil.copytree(scratch, self._plan.report / "runs" / run_id, dirs_exist_ok=True)

    def open_world(self) -> None:
        """One world more, for one lane more."""

        def announce(text: str) -> None:
            self._observer.phase("world", text)

        world = self._stack.enter_context(
            open_world(self._plan.world, announce=announce, offline=self._plan.offline)
        )
        described = world.description
        announce(f"{described.server} behind {described.proxy}, ready in {described.ready_s:.1f} s")
        self.secrets += [world.app.password, world.root.password]
        self._free_worlds.append(world)

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
