"""What `run` and `demo` do at level sim: very many runs, a table of verdicts, a report of those that matter.

Invariant: what was asked for and its seeds are printed before the first run; every run counts for the exit code,
whether or not it is in the report.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich import box
from rich.console import Console
from rich.table import Table

from harness.cli.interrupt import stop_on_interrupt
from harness.cli.progress import observing
from harness.clock import Deadline, monotonic_us
from harness.errors import Exit, NothingRan, UsageError
from harness.observer import Observer, Stop
from harness.order import Order, new_run_id
from harness.outcome import RunOutcome
from harness.sim.perform import perform
from harness.sim.tally import Counted, Planted, Plants, Tally, count, tallies, worth_keeping
from harness.sut.registry import REFERENCE_EMITTER
from harness.verdict import Outcome, worst
from reports.machine import render
from reports.pretty import print_outcomes, terminal
from reports.write import write_report

__all__ = ["KEPT_MAX", "SimulatedCampaign", "go"]

KEPT_MAX: Final = 12
"""Runs in the report, of however many."""
_TELL_EVERY = 200
_COLUMNS = (Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.VACUOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCampaign:
    """What came of it."""

    tallies: tuple[Tally, ...]
    asked: int
    ran: int
    interrupted: bool
    took_s: float

    @property
    def as_expected(self) -> bool:
        """Whether all ran, and every reference passed and every defect was convicted."""
        return self.ran == self.asked and not any(tally.unexpected for tally in self.tallies)

    @property
    def exit_code(self) -> Exit:
        """A violation beats an interruption, that beats unknown."""
        found = worst(outcome for tally in self.tallies for outcome in tally.counts).exit_code
        if found is Exit.VIOLATION:
            return found
        if self.interrupted:
            return Exit.INTERRUPTED
        return found if self.ran == self.asked else Exit.UNDECIDED


def go(
    orders: Sequence[Order],
    *,
    title: str,
    jobs: int = 1,
    report: Path | None,
    budget: float | None,
    form: Any,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> SimulatedCampaign:
    """Simulate and judge `orders`, print their table, write the report. Raises NothingRan."""
    _refuse_threads(orders)
    run_id = new_run_id()
    folder = report if report is not None else Path("reports") / "out" / run_id
    plants = {mutant: _planted(mutant) for mutant in dict.fromkeys(order.mutant for order in orders)}
    began_us = monotonic_us()
    with stop_on_interrupt() as stop, observing(quiet=quiet, verbose=verbose, no_color=no_color) as observer:
        observer.phase("plan", _in_words(orders, run_id))
        goes_on = _going_on(stop, budget)
        if len(orders) <= KEPT_MAX:
            numbers: Sequence[int] = range(len(orders))
            outcomes = _perform(orders, numbers, plants, run_id=run_id, folder=folder, goes_on=goes_on)
            counted = [_counted(number, outcome) for number, outcome in enumerate(outcomes)]
        else:
            counted = _count(orders, plants, jobs=jobs, goes_on=goes_on, observer=observer)
            numbers = worth_keeping(counted, at_most=KEPT_MAX)
            outcomes = _perform(orders, numbers, plants, run_id=run_id, folder=folder, goes_on=lambda: True)
        campaign = SimulatedCampaign(
            tallies=tuple(tallies(orders, counted)),
            asked=len(orders),
            ran=len(counted),
            interrupted=stop.is_set(),
            took_s=(monotonic_us() - began_us) / 1e6,
        )
    if not outcomes:
        if campaign.interrupted:
            raise KeyboardInterrupt
        message = "nothing ran: the budget was over before the first run"
        raise NothingRan(message, fix="give a larger --budget")
    page = write_report(outcomes, folder, title=title)
    _print(campaign, outcomes, page=page, form=form, title=title, no_color=no_color)
    return campaign


def _refuse_threads(orders: Sequence[Order]) -> None:
    if any(order.sut == REFERENCE_EMITTER for order in orders):
        message = f"--sut {REFERENCE_EMITTER} emits from a thread of its own, and virtual time has only one"
        raise UsageError(message, fix="run it with --level live")


def _planted(mutant: str | None) -> Planted:
    if mutant is None:
        return Planted()
    from harness.defects import find_defect  # most runs plant nothing
    from harness.mutants.variants import variant_of

    return Planted(variant=variant_of(mutant), convicts=find_defect(mutant).convicted_by)


def _in_words(orders: Sequence[Order], run_id: str) -> str:
    """What will run, with all that was drawn: before it runs."""
    names = ", ".join(dict.fromkeys(order.scenario.scenario for order in orders))
    seeds = sorted({order.seed for order in orders})
    span = f"{seeds[0]}..{seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    return (
        f"{run_id}: {len(orders)} simulated {'run' if len(orders) == 1 else 'runs'} of {names}, seed {span}"
    )


def _going_on(stop: Stop, budget: float | None) -> Callable[[], bool]:
    deadline = None if budget is None else Deadline(budget)
    return lambda: not stop.is_set() and (deadline is None or not deadline.passed)


def _count(
    orders: Sequence[Order], plants: Plants, *, jobs: int, goes_on: Callable[[], bool], observer: Observer
) -> list[Counted]:
    counted: list[Counted] = []
    for run in count(orders, plants, jobs=jobs, goes_on=goes_on):
        counted.append(run)
        if len(counted) % _TELL_EVERY == 0:
            unexpected = sum(not run.as_expected for run in counted)
            observer.phase("run", f"{len(counted)} of {len(orders)}, {unexpected} not as expected")
    return counted


def _perform(
    orders: Sequence[Order],
    numbers: Sequence[int],
    plants: Plants,
    *,
    run_id: str,
    folder: Path,
    goes_on: Callable[[], bool],
) -> list[RunOutcome]:
    """Run what a reader should see, be it again: equal orders, equal histories."""
    outcomes: list[RunOutcome] = []
    for place, number in enumerate(numbers, start=1):
        if not goes_on():
            break
        order, name = orders[number], f"{run_id}-{place:03d}"
        planted = plants[order.mutant]
        outcomes.append(
            perform(
                order,
                run_id=name,
                folder=folder / "runs" / name,
                variant=planted.variant,
                convicts=planted.convicts,
            )
        )
    return outcomes


def _counted(number: int, outcome: RunOutcome) -> Counted:
    return Counted(
        order=number,
        outcome=outcome.judgement.outcome,
        as_expected=outcome.as_expected,
        events=outcome.judgement.accounting.get("events", 0),
    )


def _print(
    campaign: SimulatedCampaign,
    outcomes: Sequence[RunOutcome],
    *,
    page: Path,
    form: Any,
    title: str,
    no_color: bool,
) -> None:
    """The table where there are more runs than the report holds, then the runs."""
    many = campaign.ran > len(outcomes)
    match form:
        case "pretty":
            console = terminal(sys.stdout, color=False if no_color else None)
            print_outcomes(outcomes, console=console)
            if many:
                _print_table(campaign, console, kept=len(outcomes))
            click.echo(f"report   {page}")
        case "json":
            document = json.loads(render(outcomes, form, title=title))
            click.echo(json.dumps({**document, "simulated": [_as_json(tally) for tally in campaign.tallies]}))
        case _:
            click.echo(render(outcomes, form, title=title), nl=False)
            if many:
                click.echo(_markdown_table(campaign))
    if campaign.ran < campaign.asked:
        why = "interrupted" if campaign.interrupted else "the budget is over"
        click.echo(
            f"floodmark: {campaign.asked - campaign.ran} of {campaign.asked} runs did not run: {why}",
            err=True,
        )


def _print_table(campaign: SimulatedCampaign, console: Console, *, kept: int) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("scenario", "runs", *map(str, _COLUMNS), "not as expected", "events"):
        table.add_column(heading, justify="left" if heading == "scenario" else "right")
    for tally in campaign.tallies:
        table.add_row(*_cells(tally))
    console.print(table)
    console.print(
        f"{campaign.ran} runs in {campaign.took_s:.1f} s, judged by all invariants; {kept} of them above"
    )
    for tally in campaign.tallies:
        if tally.first is not None:
            console.print(f"first    {tally.first.again}", soft_wrap=True)


def _cells(tally: Tally) -> list[str]:
    name = f"{tally.scenario} with {tally.mutant}" if tally.mutant else tally.scenario
    counts = [str(tally.counts.get(outcome, 0)) for outcome in _COLUMNS]
    return [name, str(tally.runs), *counts, str(tally.unexpected), str(tally.events)]


def _markdown_table(campaign: SimulatedCampaign) -> str:
    headings = ["scenario", "runs", *map(str, _COLUMNS), "not as expected", "events"]
    rows = [headings, ["---"] * len(headings), *map(_cells, campaign.tallies)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _as_json(tally: Tally) -> dict[str, Any]:
    return {
        "scenario": tally.scenario,
        "mutant": tally.mutant,
        "runs": tally.runs,
        **{str(outcome): tally.counts.get(outcome, 0) for outcome in _COLUMNS},
        "unexpected": tally.unexpected,
        "events": tally.events,
        "first": tally.first.again if tally.first else None,
    }
