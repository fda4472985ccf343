"""Runs the catalogue of level spark under a runner in batches, with plain SQL beside each verdict.

`python -m tools.trials.runner_trial --runner micro-batch --runs 3` runs each scenario with three seeds;
`--planted` runs each planted defect that shows in batches, in its own scenario, and it must be convicted. Answers to
a regression matrix. Invariants: a defect that is not convicted counts as bad, and so do a run that does not pass, a
fault without evidence and a table that plain SQL finds wrong, whatever the verdict says.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Final

import click

from harness.engine.in_world import record_in_world
from harness.engine.level import RunSite
from harness.engine.perform import perform
from harness.engine.worlds import abilities_needed
from harness.history.verdict import Outcome
from harness.levels.spark.level import lacks_of_mutant, lacks_of_runner
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome, seen_as_expected
from harness.scenario.plan import Runner
from harness.sut.defects import Defect
from harness.system.clock import Deadline, monotonic_us
from harness.system.errors import Exit, FloodmarkError, UsageError
from harness.tests.table_seen import TableSeen
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world
from harness.world.world import World
from tools.defects import IN_RUNS, RUNNER_DEFECTS, mutant_named

_ENDING: Final = frozenset({"kill_worker", "kill_driver", "poison", "pause_worker", "pause_executor"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A scenario to run, whole or with a planted defect."""

    scenario: Scenario
    planted: Defect | None = None

    @property
    def name(self) -> str:
        return self.scenario.scenario + (f" @ {self.planted.name}" if self.planted else "")

    @property
    def crashes(self) -> bool:
        """Whether a fault of the scenario ends an attempt's process, or its driver's."""
        return any(fault.do in _ENDING for fault in self.scenario.faults)


@dataclass(slots=True, kw_only=True)
class Row:
    """The runs of one case. Mutable: counts."""

    case: Case
    number: int
    runs: int = 0
    good: int = 0
    """Runs that passed, with evidence of each fault and an exact table; with a defect: that were convicted."""
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    foreign: int = 0
    rows: int = 0
    s: float = 0.0
    bad: list[str] = field(default_factory=list)

    def take(self, outcome: RunOutcome, table: TableSeen, *, s: float) -> None:
        """Counts one run."""
        self.runs += 1
        self.lost, self.doubled = self.lost + table.lost, self.doubled + table.doubled
        self.reordered, self.foreign = self.reordered + table.reordered, self.foreign + table.foreign
        self.rows += table.rows
        self.s += s
        why = list(_faults_of_a_run(outcome, table) if self.case.planted is None else self._escapes(outcome))
        self.good += not why
        self.bad += [f"{outcome.run_id}: {one}" for one in why]

    def _escapes(self, outcome: RunOutcome) -> Iterator[str]:
        planted = self.case.planted
        assert planted is not None, "only a planted defect can escape"
        if not seen_as_expected(outcome.judgement, planted.convicted_by):
            failed = ", ".join(
                one.invariant for one in outcome.judgement.invariants if one.outcome is Outcome.FAIL
            )
            yield (
                f"not convicted by {', '.join(planted.convicted_by)}: {outcome.judgement.outcome}"
                f" ({failed or 'no invariant fails'}) {outcome.error or ''}"
            )

    def refuse(self, error: FloodmarkError, *, run_id: str) -> None:
        """Counts a run that could not be made."""
        self.runs += 1
        self.bad.append(f"{run_id}: {error}")

    def cells(self) -> str:
        """A line of the table."""
        seen = (self.lost, self.doubled, self.reordered, self.foreign)
        shown = (self.case.name, self.runs, self.good, *seen, self.rows, f"{self.s / max(1, self.runs):.1f}")
        return f"| {' | '.join(map(str, shown))} |"


def _faults_of_a_run(outcome: RunOutcome, table: TableSeen) -> Iterator[str]:
    """What is wrong with a run of the reference."""
    if outcome.judgement.outcome is not Outcome.PASS:
        told = [
            f"{one.invariant} {one.outcome} {'; '.join(sorted({bad.kind for bad in one.anomalies}))}"
            for one in outcome.judgement.invariants
            if one.outcome is not Outcome.PASS and (one.anomalies or one.invariant == "V23")
        ]
        yield f"{outcome.judgement.outcome}: {', '.join(told)} {outcome.error or ''}"
    if silent := [fault.id for fault in outcome.faults if not fault.bites]:
        yield f"no evidence of {', '.join(silent)}"
    if not table.is_exact:
        yield (
            f"plain SQL: {table.lost} lost, {table.doubled} doubled, {table.reordered} reordered,"
            f" {table.foreign} foreign"
        )
    if outcome.threats:
        yield f"threats: {'; '.join(outcome.threats)}"


def cases_of(
    runner: Runner, *, names: Sequence[str], planted: bool, settings: Sequence[str] = ()
) -> list[Case]:
    """The cases that run under `runner`; no names: all. Raises UsageError for a name that does not."""
    shipped = catalogue()
    if planted:
        return [
            Case(scenario=apply_settings(load(shipped[defect.scenario]), settings), planted=defect)
            for name, defect in {**IN_RUNS, **RUNNER_DEFECTS}.items()
            if (not names or name in names) and defect.scenario is not None and _shows(defect, runner)
        ]
    if unknown := [name for name in names if name not in shipped]:
        raise UsageError(f"no such scenario: {', '.join(unknown)}", fix="see `floodmark list scenarios`")
    found = [Case(scenario=apply_settings(load(shipped[name]), settings)) for name in names or shipped]
    return [case for case in found if _runs_in_batches(case.scenario)]


def _shows(defect: Defect, runner: Runner) -> bool:
    assert defect.scenario is not None, "it has a scenario of its own"
    if defect.runner is not None:
        return defect.runner == runner
    scenario = load(catalogue()[defect.scenario])
    able = defect.shows_in_a_run and "spark" in defect.levels
    return (
        able and _runs_in_batches(scenario) and not list(lacks_of_mutant(mutant_named(defect.name), runner))
    )


def _runs_in_batches(scenario: Scenario) -> bool:
    is_of_spark = "spark" in scenario.levels and all("spark" in fault.levels for fault in scenario.faults)
    return is_of_spark and not list(lacks_of_runner(scenario))


@click.command()
@click.option("--runner", type=click.Choice(["micro-batch", "stateful"]), required=True)
@click.option(
    "--runs", type=click.IntRange(min=1), default=1, show_default=True, help="With consecutive seeds."
)
@click.option("--seed", type=int, default=7, show_default=True)
@click.option("--minutes", type=float, default=24 * 60.0, help="After so long no further run is started.")
@click.option("--crashes", is_flag=True, help="Only scenarios with a fault that ends or stops a process.")
@click.option("--planted", is_flag=True, help="Planted defects in their own scenarios; names are theirs.")
@click.option("--skip", multiple=True, metavar="NAME")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE")
@click.option("--logs", type=click.Path(path_type=Path), default=None, help="A folder that stays.")
@click.argument("names", nargs=-1)
def main(
    runner: Runner,
    runs: int,
    seed: int,
    minutes: float,
    crashes: bool,  # noqa: FBT001 - click passes flags by keyword
    planted: bool,  # noqa: FBT001
    skip: tuple[str, ...],
    settings: tuple[str, ...],
    logs: Path | None,
    names: tuple[str, ...],
) -> None:
    """Prints a line for each run and a row for each case; exit code 1 if one is bad."""
    cases = [
        case
        for case in cases_of(runner, names=names, planted=planted, settings=settings)
        if (case.crashes or not crashes) and case.scenario.scenario not in skip
    ]
    rows = [Row(case=case, number=number) for number, case in enumerate(cases, start=1)]
    limit = Deadline(60 * minutes)
    with ExitStack() as stack:
        folder = logs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        play = _opened(stack, folder=folder)
        for number in range(runs):  # in turn, so that a short trial has tried each
            for row in rows:
                if not limit.passed:
                    _one(play, row, runner=runner, seed=seed + number, folder=folder)
    _print(rows)


def _opened(stack: ExitStack, *, folder: Path) -> Callable[..., RunOutcome]:
    """A driver for all runs, and a world for each that needs another one; makes a run of an order."""
    from harness.levels.spark.driver_process import DriverRunner, DriverSettings  # noqa: PLC0415 - pulls in pyspark
    from harness.levels.spark.session import local_master  # noqa: PLC0415

    drivers = DriverSettings(master=local_master(16), folder=folder / "spark")
    runner = stack.enter_context(DriverRunner(drivers).open())

    @cache
    def world(needs: frozenset[str]) -> World:
        return stack.enter_context(
            open_world(
                "local",
                announce=partial(click.echo, err=True),
                proxy="auto",
                needs=needs,
                offline=True,
                settings=WorldSettings.from_environment(),
            )
        )

    def play(order: Order, *, table: TableSeen, home: Path, run_id: str) -> RunOutcome:
        site = RunSite(run_id=run_id, folder=home, world=world(abilities_needed(order)))
        return perform(order, play=partial(record_in_world, runner=runner, inspect=table.read), site=site)

    return play


def _one(play: Callable[..., RunOutcome], row: Row, *, runner: Runner, seed: int, folder: Path) -> None:
    case = row.case
    mutant = None if case.planted is None else mutant_named(case.planted.name)
    order = Order(scenario=case.scenario, level="spark", seed=seed, runner=runner, mutant=mutant)
    table = TableSeen(scenario=case.scenario, seed=seed)
    run_id = f"{row.number:03d}-{seed}"  # the name of its database, which must be short
    home = folder / "-".join([run_id, case.scenario.scenario, *([case.planted.name] if case.planted else [])])
    home.mkdir(parents=True)
    began_us = monotonic_us()
    before = len(row.bad)
    try:
        outcome = play(order, table=table, home=home, run_id=run_id)
    except FloodmarkError as error:
        row.refuse(error, run_id=run_id)
        told = "error"
    else:
        row.take(outcome, table, s=(monotonic_us() - began_us) / 1e6)
        told = str(outcome.judgement.outcome)
    click.echo(
        f"{case.name} seed {seed}: {told}, {(monotonic_us() - began_us) / 1e6:.1f} s, lost {table.lost} doubled"
        f" {table.doubled} reordered {table.reordered} foreign {table.foreign} of {table.rows} rows"
        f"{''.join(f' BAD {one}' for one in row.bad[before:])}",
        err=True,
    )


def _print(rows: Sequence[Row]) -> None:
    click.echo("| scenario | runs | good | lost | doubled | reordered | foreign | rows | s a run |")
    click.echo("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        if row.runs:
            click.echo(row.cells())
    for row in rows:
        for one in row.bad:
            click.echo(one)
    made = sum(row.runs for row in rows)
    click.echo(f"{sum(row.good for row in rows)} of {made} runs of {len(rows)} cases are good")
    sys.exit(Exit.VIOLATION if any(row.bad for row in rows) or not made else Exit.HOLD)


if __name__ == "__main__":
    main()
