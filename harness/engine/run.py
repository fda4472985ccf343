"""One run of the operator at any level: the value that its steps fill in, its plan, and the record that it gives.

Invariant: plan and record are made here alone; a level adds what only it knows: addresses, tables, notes, its clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.database.endpoint import NOWHERE, Endpoint
from harness.engine.accounting import accounting_of
from harness.engine.cross_checks import refuse_other_values
from harness.engine.expectation import with_versions
from harness.engine.level import RunRecord, RunSite
from harness.history.event import Event
from harness.history.header import Header
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge
from harness.judge.pitfalls.finding import RunSeen, find_pitfalls
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import FaultRecord, WorldDescription
from harness.scenario.plan import Expected, JudgedValues, RunPlan
from harness.sut.registry import SUTS
from harness.sut.variant import HONEST, Variant
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.audit import ServerCounts
    from harness.engine.calm_process import CalmProcess
    from harness.engine.level import Execution, LevelRunner
    from harness.engine.reading import Stored
    from harness.engine.two_servers import TwoServers
    from harness.history.notes import Line
    from harness.world.world import World


@dataclass(slots=True, kw_only=True)
class Run:
    """One run. Mutable: the steps of its level fill it in."""

    order: Order
    site: RunSite
    variant: Variant = HONEST
    rows: list[list[Any]]
    """The rows of table `customer`."""
    expected: Expected | None = None
    """What the records of a user's lookup must yield; None: the lookup is ours."""
    values: JudgedValues | None = None
    plan: RunPlan = field(init=False)
    header: Header = field(init=False)
    events: Sequence[Event] = ()
    error: str | None = None
    """Why the run stopped early; None: it did not."""
    missing: int = 0
    """How many events were made that the recording lacks."""
    interrupted: bool = False
    ran_us: int = 0
    """When it ended, by `clock.monotonic_us`."""
    faults: Sequence[FaultRecord] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """What SQL counts in the tables."""
    threats: Sequence[str] = ()
    lines: Sequence[Line] | None = None
    """Events and notes in which pitfalls show; None: they are not looked for."""
    lines_end_us: int = 0
    """When the run ended, on the clock of `lines`."""
    server: ServerCounts | None = None
    judge: Callable[[Header, Sequence[Event]], Judgement] = judge
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the run ended normally and no event is missing."""
        return self.error is None and not self.missing

    @property
    def acts(self) -> Scenario:
        """The scenario to perform; without its faults if the planted defect is a harness that injects none."""
        scenario = self.order.scenario
        return scenario if self.variant.arms_faults else scenario.model_copy(update={"faults": ()})


@dataclass(slots=True, kw_only=True)
class RunInWorld(Run):
    """One run in a world. Mutable."""

    world: World
    runner: LevelRunner
    database: str
    """The run's database, which holds the sink's tables."""
    lookups: str = ""
    """The database that the lookups read."""
    stack: ExitStack = field(default_factory=ExitStack)
    """Holds the databases and the processes of the run."""
    second: TwoServers | None = None
    """None: there is one server."""
    twin: CalmProcess | None = None
    """None: no twin is asked."""
    stored: Stored = field(init=False)

    @property
    def raw(self) -> Path:
        """The folder of the recorded lines."""
        return self.site.folder / "raw"

    def root(self, database: str | None = None) -> Endpoint:
        """A database, by default the run's own, at the server that serves now."""
        return self.world.root.at(self.world.serving, self.database if database is None else database)

    def start(self, subtasks: int) -> Execution:
        """Starts so many subtasks of the present plan."""
        return self.runner.start(self.plan, subtasks=subtasks, logs=self.site.folder)


def plan_of(run: Run) -> RunPlan:
    """The plan of a run without addresses and folders."""
    order, acts = run.order, run.acts
    own = acts.own_records
    return RunPlan(
        run_id=run.site.run_id,
        scenario={},
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        lookups=NOWHERE,
        sink=NOWHERE,
        folder="",
        path=list(order.import_path),
        table=run.rows,
        crashes=acts.planned_crashes,
        expected=run.expected,
        own=None if own is None else list(own),
        runner=order.runner,
    )


def recorded(run: Run, *, world: WorldDescription) -> RunRecord:
    """The record of a run that has ended. Raises HarnessError if its expected results are not those of its rows."""
    order, rows, events, values = run.order, run.rows, run.events, run.values
    scenario = order.scenario
    refuse_other_values(order, run.header, rows, events, expected=run.expected)
    accounting = accounting_of(
        run.counts,
        events,
        scenario=run.acts,
        seed=order.seed,
        rows=rows if scenario.own_schema is None else None,
        expected=run.expected,
    )
    pitfalls = None
    if run.lines is not None:
        pitfalls = find_pitfalls(
            RunSeen(
                scenario=scenario,
                lines=run.lines,
                ended_us=run.lines_end_us,
                server=run.server,
                is_users=order.sut not in SUTS,
                has_only_pool=run.site.world is None and run.plan.lookups is NOWHERE,
            )
        )
    return RunRecord(
        header=run.header,
        events=events
        if values is None
        else with_versions(events, scenario=scenario, rows=rows, keys=values.rows_of),
        whole=run.whole,
        error=run.error,
        interrupted=run.interrupted,
        ran_us=run.ran_us or monotonic_us(),
        world=world,
        faults=tuple(run.faults),
        accounting=accounting,
        threats=tuple(run.threats),
        pitfalls=pitfalls,
        values=values,
        judge=run.judge,
        extras=run.extras,
    )
