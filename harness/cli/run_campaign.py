"""The part that `run`, `demo` and `mutants` share: run a campaign, show progress, write and print the report.

The report is written however the campaign ends, if at least one run has a result. The first Ctrl-C heals the faults,
ends the runs and writes the report; the second ends this process and its workers at once, and `floodmark clean` removes
what is left, from a ledger. Progress goes to standard error: one line for each phase, and on a terminal also a line
that is redrawn.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import click
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.cli.options import open_page
from harness.engine.campaign import Finished, carry_out
from harness.engine.level import Observer, Stop
from harness.engine.open_levels import Keep, StagePlan
from harness.engine.run_counts import Tally
from harness.history.values import visible
from harness.history.verdict import Outcome
from harness.levels import extras_missing, level_named
from harness.scenario.order import AnyOrder, new_run_id
from harness.scenario.outcome import left_out_line
from harness.system.errors import Exit, NothingRan, UsageError, WorldError
from harness.system.json_types import Json
from harness.system.levels import LEVELS
from harness.system.pool import Executors, kill_processes
from reports.agreement import (
    refuse_other_document,
    refuse_other_exit,
    refuse_other_files,
    refuse_other_lines,
)
from reports.baseline import Comparison, write_comparison
from reports.past_report import PastReport
from reports.pretty import print_outcomes, terminal
from reports.write import MachineFormat, render, write_report

_end_now = os._exit
"""Kept, because the attribute is another one while user code runs (`harness.sut.user_code`)."""


@contextmanager
def stop_on_interrupt() -> Iterator[Stop]:
    """A `Stop` that the first SIGINT or SIGTERM sets; the second ends this process and its workers at once.

    While a world or a level is set up, the first signal raises KeyboardInterrupt, so that nothing more is awaited.
    """
    stop = Stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            click.echo("floodmark: killed; `floodmark clean` removes what the runs left behind", err=True)
            kill_processes()
            _end_now(Exit.INTERRUPTED)
        stop.set()
        if stop.is_setting_up:
            raise KeyboardInterrupt
        click.echo("floodmark: stopping; the finished runs are reported (interrupt again to kill)", err=True)

    kept = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


class Plain(Observer):
    """Prints one line for each phase."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def phase(self, name: str, text: str) -> None:
        self._console.print(Text.assemble((f"{name:<6} ", "bold"), text), soft_wrap=True)

    def counted(self, *, done: int, asked: int, unexpected: int | None = None) -> None:
        if done % _TELL_EVERY == 0:
            self.phase("run", counted_text(done, asked, unexpected))


def counted_text(done: int, asked: int, unexpected: int | None) -> str:
    """`200 of 1000, 0 not as expected`."""
    return f"{done} of {asked}" + ("" if unexpected is None else f", {unexpected} not as expected")


class Redrawn(Plain):
    """Prints one line for each phase, and below them a line that is redrawn."""

    def __init__(self, console: Console, live: Live) -> None:
        super().__init__(console)
        self._live = live

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        line = Text(f"{elapsed_s:6.1f} s   in flight {in_flight:3d}   lag {lag:5d}   epoch {epoch:3d}   ")
        for fault, bites in faults.items():
            line.append(f"[{fault} {'bites' if bites else 'acts'}] ", style="red" if bites else "yellow")
        self._live.update(line)

    def counted(self, *, done: int, asked: int, unexpected: int | None = None) -> None:
        self._live.update(Text(f"{counted_text(done, asked, unexpected)}  ({100 * done // asked} %)"))


def can_redraw(*, verbose: bool) -> bool:
    """Whether progress may be a line that is redrawn on standard error: on a terminal, without `--verbose`."""
    dumb = bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"
    return not verbose and not dumb and sys.stderr.isatty()


@contextmanager
def observing(*, quiet: bool, verbose: bool, no_color: bool) -> Iterator[Observer]:
    """The observer that fits the options and the terminal."""
    if quiet:
        yield Observer()
        return
    console = Console(stderr=True, no_color=no_color or None, highlight=False)
    if not can_redraw(verbose=verbose):
        yield Plain(console)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield Redrawn(console, live)


_TELL_EVERY = 200
"""Runs between two lines of progress, where none is redrawn."""
_ROWS_GREEN = 8
"""The first scenarios have rows, and all with a run that did not go as expected."""
_COLUMNS = (Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.VACUOUS)


def lanes_of(jobs: int | None, levels: Collection[str]) -> int:
    """How many runs are made at once: `jobs`, else as many as there are cores if no level has the machine's time."""
    in_virtual_time = all(LEVELS[level].repeats for level in levels)
    return jobs or ((os.cpu_count() or 1) if in_virtual_time else 1)


def run_campaign(
    orders: Sequence[AnyOrder],
    *,
    title: str,
    world: str,
    proxy: str = "auto",
    jobs: int | None = None,
    report: Path | None,
    keep: Keep,
    budget: float | None,
    offline: bool,
    form: MachineFormat | Literal["pretty"],
    quiet: bool,
    verbose: bool,
    no_color: bool,
    on: str | None = None,
    baseline: PastReport | None = None,
    opens: bool = False,
) -> Finished:
    """Runs `orders`, writes and prints the report, beside that of `baseline` if there is one.

    Raises NothingRan if no run has a result, HarnessError if report or exit code contradict the judgements.
    """
    run_id = new_run_id()
    folder = report if report is not None else Path("reports") / "out" / run_id
    if keep == "database":
        world = _world_that_keeps(orders[0].level, world)
    counts = level_named(orders[0].level).repeatable
    plan = StagePlan(
        run_id=run_id,
        report=folder,
        levels=level_named,
        world=world,
        proxy=proxy,
        lanes=min(lanes_of(jobs, {order.level for order in orders}), len(orders)),
        keep=keep,
        offline=offline,
        executors=executors_of(on, of_a_user=any(":" in order.sut for order in orders)) if on else None,
    )
    with stop_on_interrupt() as stop, observing(quiet=quiet, verbose=verbose, no_color=no_color) as observer:
        finished = carry_out(orders, plan, observer=observer, stop=stop, budget_s=budget)
    page = _written(finished, folder, title=title)
    beside = None if baseline is None else write_comparison(folder, baseline=baseline)
    if form == "pretty":
        _print_outcomes(finished, terminal(sys.stdout, color=False if no_color else None), is_whole=verbose)
        if beside is not None:
            click.echo(visible("\n".join(beside.lines())))
        if line := left_out_line(finished.left_out):
            click.echo(line)
        click.echo(f"report   {page}")
    else:
        document = _document(finished, form, title=title, counts=counts, beside=beside)
        if form == "json":
            refuse_other_document(document, finished.outcomes, finished.counted)
        click.echo(document, nl=False)
    _say_what_is_left(finished, aside=form != "pretty")
    open_page(page, wanted=opens)
    return finished


def _written(finished: Finished, folder: Path, *, title: str) -> Path:
    """Writes the report, reads it back, and returns its page. Raises NothingRan if no run has a result."""
    if not finished.outcomes:
        if finished.interrupted:
            raise KeyboardInterrupt
        message = "nothing ran: the --budget was used up before the first run"
        raise NothingRan(message, fix="give a larger --budget")
    page = write_report(
        finished.outcomes,
        folder,
        title=title,
        secrets=finished.secrets,
        counted=finished.counted,
        extent=finished,
    )
    refuse_other_files(folder, finished.outcomes, finished.counted)
    refuse_other_exit(finished.exit_code, finished.outcomes, finished.counted)
    return page


def refuse_no_spark(on: str) -> None:
    """Raises WorldError if Spark is not installed, UsageError if `on` is no master of it."""
    if "spark" in extras_missing("spark"):
        message = f"--on {on} needs Spark, which is not installed"
        raise WorldError(message, fix="pip install 'floodmark[spark]'")
    from harness.levels.spark.executors import refuse_master

    refuse_master(on)


def executors_of(on: str, *, of_a_user: bool) -> Callable[[], AbstractContextManager[Executors]]:
    """Opens the executors of the master `on`; with a user's function, they get the modules of the current folder."""
    refuse_no_spark(on)
    from harness.levels.spark.executors import open_executors

    return partial(open_executors, on, modules_in=[Path.cwd()] if of_a_user else [])


def _world_that_keeps(level: str, world: str) -> str:
    """The world for `--keep database`. Raises UsageError if there is no server, or if its data go with a container."""
    if not level_named(level).needs_world:
        message = f"--keep database: level {level} has no database server whose data could stay"
        raise UsageError(message, fix="run it with --level live or --level spark")
    if world == "containers":
        message = "--keep database: the data of the containers world go with its container"
        raise UsageError(message, fix="run it with --world local")
    return "local"


def _document(
    finished: Finished, form: MachineFormat, *, title: str, counts: bool, beside: Comparison | None = None
) -> str:
    """The report for `--format` other than pretty; for repeatable levels with the counts of all runs."""
    text = render(finished.outcomes, form, title=title, counted=finished.counted, extent=finished)
    if form == "json":
        more: dict[str, Any] = (
            {"simulated": [_as_json(tally) for tally in finished.tallies]} if counts else {}
        )
        if beside is not None:
            more["baseline"] = beside.as_json()
        return json.dumps({**json.loads(text), **more}) + "\n" if more else text
    return text if beside is None else text + beside.markdown()


_CAUSES_TOLD = 10


def _print_outcomes(finished: Finished, console: Console, *, is_whole: bool) -> None:
    """The runs shown in full, then a table of all scenarios if there were more."""
    console.record = True
    print_outcomes(finished.outcomes, console=console, counted=finished.counted, is_whole=is_whole)
    refuse_other_lines(console.export_text(), finished.outcomes, finished.counted)
    kept = len(finished.outcomes)
    if finished.ran <= kept:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ["scenario", "runs", *map(str, _COLUMNS), "not as expected", "events"]:
        table.add_column(heading, justify="left" if heading == "scenario" else "right")
    shown = [tally for place, tally in enumerate(finished.tallies) if tally.unexpected or place < _ROWS_GREEN]
    hidden = [tally for tally in finished.tallies if tally not in shown]
    for tally in shown:
        name = f"{tally.scenario} with {tally.mutant}" if tally.mutant else tally.scenario
        counts = [str(tally.counts.get(outcome, 0)) for outcome in _COLUMNS]
        table.add_row(name, str(tally.runs), *counts, str(tally.unexpected), str(tally.events))
    console.print(table)
    if more := len(hidden):
        not_run = sum(not tally.runs for tally in hidden)
        what = f"of which {not_run} did not run" if not_run else "all as expected"
        console.print(f"and {more} more scenario{'s' if more > 1 else ''}, {what}")
    console.print(
        f"{finished.ran} runs in {finished.took_s:.1f} s, checked against all invariants; {kept} shown above"
    )
    causes = Counter(run.cause for run in finished.counted if not run.as_expected)
    for cause, runs in causes.most_common(_CAUSES_TOLD):
        console.print(f"cause    {visible(cause)}: {runs} of {finished.ran} runs", soft_wrap=True)
    if len(causes) > _CAUSES_TOLD:
        console.print(f"and {len(causes) - _CAUSES_TOLD} more causes, in the report")
    console.print(f"digest   {finished.digest} of all histories", soft_wrap=True)
    for tally in finished.tallies:
        if tally.first is not None:
            console.print(f"first    {tally.first.again}", soft_wrap=True)


def _as_json(tally: Tally) -> Json:
    return {
        "scenario": tally.scenario,
        "mutant": tally.mutant,
        "runs": tally.runs,
        **{str(outcome): tally.counts.get(outcome, 0) for outcome in _COLUMNS},
        "unexpected": tally.unexpected,
        "events": tally.events,
        "first": tally.first.again if tally.first else None,
    }


def _say_what_is_left(finished: Finished, *, aside: bool) -> None:
    """What stays behind, and what is missing; `aside`: the first on standard error, too."""
    for line in finished.kept:
        click.echo(f"database {line}", err=aside)
    for sentence in (*finished.not_here, *finished.refused, *finished.broken):
        click.echo(f"floodmark: {sentence}", err=True)
    missing = finished.asked - finished.ran
    if missing:
        here = "this world lacks an ability that they need" if finished.not_here else "the budget is over"
        here = "the function under test is refused" if finished.refused else here
        here = "Floodmark itself broke, see above" if finished.broken else here
        why = "interrupted" if finished.interrupted else finished.error or here
        click.echo(f"floodmark: {missing} of {finished.asked} runs did not run: {why}", err=True)
