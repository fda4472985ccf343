"""A campaign: all runs of one command, in worlds and sessions that are opened once and closed for sure.

Invariant: runs are independent (a database of their own, a seed of their own), at most `jobs` at a time, each
lane with a world to itself, for a fault of one run must not touch another. What is left behind at the end is
the reports.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from harness.choices import fresh_seed
from harness.clock import Deadline, utc_now
from harness.errors import WorldError
from harness.execution import LevelRunner
from harness.live.supervisor import LiveRunner
from harness.outcome import RunOutcome
from harness.run import Observer, Order, Stop, perform
from harness.verdict import Outcome
from harness.world.ledger import Ledger
from harness.world.opening import open_world
from harness.world.settings import WorldSettings
from harness.world.world import World

__all__ = ["Campaign", "Keep", "carry_out", "new_run_id"]

Keep = str
"""`never`, `on-failure`, `always`: whose raw files and logs stay in the report's folder."""

_UNLIMITED_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What a command asked for."""

    orders: Sequence[Order]
    report: Path
    """The report's folder; histories go to `report/runs/<run id>/`."""
    run_id: str
    world: str = "auto"
    jobs: int = 1
    keep: Keep = "on-failure"
    budget_s: float | None = None
    offline: bool = False


def new_run_id() -> str:
    """A name that sorts by time and that two commands started together do not share."""
    return f"{utc_now():%Y%m%d-%H%M%S}-{fresh_seed()}"


def carry_out(campaign: Campaign, *, observer: Observer, stop: Stop) -> list[RunOutcome]:
    """Run every order; those that did not come to run, because of `stop` or the budget, are not in the list."""
    deadline = Deadline(campaign.budget_s if campaign.budget_s is not None else _UNLIMITED_S)
    with ExitStack() as stack:
        ledger = stack.enter_context(_ledger())
        lanes = min(campaign.jobs, len(campaign.orders))
        worlds: SimpleQueue[World] = SimpleQueue()
        for _ in range(lanes):
            worlds.put(stack.enter_context(_world(campaign, observer)))
        runners = _Runners(campaign, lanes=lanes, ledger=ledger, stack=stack, observer=observer)

        def run(number: int, order: Order) -> RunOutcome | None:
            if stop.is_set() or deadline.passed:
                return None
            world = worlds.get()
            try:
                return _run_one(campaign, number, order, world, runners.of(order.level), ledger, observer, stop, deadline)
            finally:
                worlds.put(world)

        runners.prepare(campaign.orders)
        if lanes == 1:
            outcomes = [run(number, order) for number, order in enumerate(campaign.orders, start=1)]
        else:
            with ThreadPoolExecutor(max_workers=lanes) as pool:
                outcomes = list(pool.map(run, range(1, len(campaign.orders) + 1), campaign.orders))
    return [outcome for outcome in outcomes if outcome is not None]


@contextmanager
def _ledger() -> Iterator[Ledger]:
    ledger = Ledger.open(WorldSettings.from_environment().places)
    try:
        yield ledger
    finally:
        ledger.close(lambda _: [])


@contextmanager
def _world(campaign: Campaign, observer: Observer) -> Iterator[World]:
    announce = _announcer(observer)
    with open_world(campaign.world, announce=announce, offline=campaign.offline) as world:
        described = world.description
        observer.phase("world", f"{described.server} behind {described.proxy}, ready in {described.ready_s:.1f} s")
        yield world


def _announcer(observer: Observer) -> Callable[[str], None]:
    return lambda text: observer.phase("world", text)


class _Runners:
    """The runners of the levels that the orders name; a Spark session is started once, before the first run."""

    def __init__(
        self, campaign: Campaign, *, lanes: int, ledger: Ledger, stack: ExitStack, observer: Observer
    ) -> None:
        self._lanes = lanes
        self._ledger = ledger
        self._stack = stack
        self._observer = observer
        self._runners: dict[str, LevelRunner] = {"live": LiveRunner(note_process=ledger.note_process)}
        del campaign

    def prepare(self, orders: Sequence[Order]) -> None:
        """Start what the orders need."""
        subtasks = [order.scenario.workload.subtasks for order in orders if order.level == "spark"]
        if subtasks:
            self._runners["spark"] = self._spark(max(subtasks) * self._lanes)

    def _spark(self, slots: int) -> LevelRunner:
        from harness.spark.job import SparkRunner  # noqa: PLC0415 - pulls in pyspark
        from harness.spark.session import spark_session  # noqa: PLC0415

        self._observer.phase("spark", f"starting a session with {slots} slots")
        folder = self._ledger.folder / "spark"
        session = spark_session(slots=slots, folder=folder, note_process=self._ledger.note_process)
        return SparkRunner(self._stack.enter_context(session))

    def of(self, level: str) -> LevelRunner:
        """The runner of `level`."""
        return self._runners[level]


def _run_one(
    campaign: Campaign,
    number: int,
    order: Order,
    world: World,
    runner: LevelRunner,
    ledger: Ledger,
    observer: Observer,
    stop: Stop,
    deadline: Deadline,
) -> RunOutcome:
    """Perform it in a scratch folder, then move what is to stay into the report's."""
    run_id = f"{campaign.run_id}-{number:03d}"
    scratch = ledger.folder / run_id
    scratch.mkdir()
    limit_s = deadline.left_s if campaign.budget_s is not None else None
    outcome = perform(
        order, run_id=run_id, world=world, runner=runner, folder=scratch, observer=observer, stop=stop, limit_s=limit_s
    )
    return _kept(campaign, outcome, scratch)


def _kept(campaign: Campaign, outcome: RunOutcome, scratch: Path) -> RunOutcome:
    from dataclasses import replace  # noqa: PLC0415

    home = campaign.report / "runs" / outcome.run_id
    keeps_all = campaign.keep == "always" or (
        campaign.keep == "on-failure" and outcome.judgement.outcome is not Outcome.PASS
    )
    try:
        home.mkdir(parents=True)
        for item in sorted(scratch.iterdir()):
            if keeps_all or item == outcome.history:
                shutil.move(item, home / item.name)
        shutil.rmtree(scratch)
    except OSError as error:
        message = f"cannot store run {outcome.run_id} in {home}: {error.strerror or error}"
        raise WorldError(message, fix="free some space there, or choose another folder with --report") from error
    return replace(outcome, history=home / outcome.history.name)
