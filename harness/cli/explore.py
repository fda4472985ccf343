"""`floodmark explore [SCENARIO...]`: draws and changes scenarios until one shows a violation, and shrinks that.

Invariants: every mistake in the arguments is reported before anything runs; what was kept or found is in a file before
the command goes on; however it ends, it reports what it has.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.cli.completion import scenario_names
from harness.cli.options import (
    budget_option,
    expected_option,
    mutant_option,
    on_option,
    only_option,
    option,
    server_option,
    speech_options,
    sql_option,
)
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from harness.engine.level import Stop
    from harness.explore.exploration import CorpusEntry, Explored, Plan
    from harness.explore.finds import Group
    from harness.system.pool import Executors

_BUDGET = "10m"
_ROUND_HERE = 48
_ROUND_THERE = 960
_FOUND = Path("found")
_NOT_OF_JOBS = ("sut", "expected", "sql", "mutant", "corpus", "keep_going", "on")


@click.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...", shell_complete=scenario_names)
@option("--sut", default="reference", show_default=True, metavar="NAME|MODULE:ATTR",
        help="The system under test; your own function: `async def lookup(record, pool)`.")  # fmt: skip
@expected_option
@sql_option
@mutant_option
@budget_option(default=_BUDGET, help="Time until it ends without a violation; shrinking has as much again.")
@option("--runs", type=click.IntRange(min=1), default=None,
        help="The largest number of runs, besides the budget in time.  [default: no limit]")  # fmt: skip
@option("--jobs", type=click.IntRange(min=1), default=None, help="Processes.  [default: one for each core]")
@option("--seed", type=click.IntRange(min=0), default=None,
        help="Seed of every draw; always printed.  [default: a new one]")  # fmt: skip
@option("--corpus", type=click.Path(path_type=Path), default=None, metavar="FOLDER",
        help="Begin with the scenarios kept there, and keep there what reaches something new.")  # fmt: skip
@option("--found", type=click.Path(path_type=Path), default=_FOUND, show_default=True, metavar="FOLDER",
        help="Where the file of a violation is written.")  # fmt: skip
@option("--keep-going", is_flag=True,
        help="Go on after a violation; all are grouped by invariant, class and shrunk shape.")  # fmt: skip
@click.option("--print", "prints", is_flag=True,
              help="Print the scenario that --seed draws, as a file for `floodmark run`, and end.")  # fmt: skip
@option("--job", default=None, metavar="FILE|COMMAND",
        help="Explore a whole job in virtual time instead of --sut: as of `floodmark job`.")  # fmt: skip
@server_option
@only_option
@on_option("Send the runs to Spark's executors: local[N], local-cluster[N,C,MB] or spark://HOST:PORT.")
@speech_options
def explore(scenarios: tuple[str, ...], **asked: Any) -> int:
    """Draw and change scenarios at level sim until one shows a violation; shrink it to a file that shows it again.

    SCENARIOs (files, folders, catalogue names, `all`) are run first and then changed. Without any, scenarios are drawn,
    and those of the catalogue are run as they are, shortened and changed. With --seed, --runs and the same corpus the
    runs are the same.

    Exit code: 0 no violation within the budget, 1 a violation, 2 interrupted without one, 4 bad usage, 5 nothing ran,
    10 no run passed, 11 the environment failed.
    """
    from harness.cli.run_campaign import stop_on_interrupt
    from harness.explore.trial import with_server

    if asked["prints"]:
        return _print_drawn(asked["seed"])
    if asked["job"] is not None:
        from harness.cli.job_finds import explore_job

        _refuse_with_job()
        return explore_job(scenarios, asked)
    plan, corpus_notes = _plan(scenarios, asked)
    for note in corpus_notes:
        click.echo(f"floodmark: {note}", err=True)
    with (
        stop_on_interrupt() as stop,
        with_server(plan.subject, [*plan.shelf, *(entry.scenario for entry in plan.given)]) as subject,
    ):
        return _Command(asked=asked, plan=replace(plan, subject=subject), stop=stop).carry_out()


def _refuse_with_job() -> None:
    """Raises UsageError for an option that was typed and says nothing about a job."""
    typed = click.get_current_context().get_parameter_source
    for name in _NOT_OF_JOBS:
        if typed(name) is ParameterSource.COMMANDLINE:
            message = f"--{name.replace('_', '-')} is for an operator, and --job names a job"
            raise UsageError(
                message, fix="leave it out; what a job must write is `claims.expected` of its file"
            )


def _print_drawn(asked: int | None) -> int:
    """The drawn scenario, with the command that runs it in its first line."""
    from harness.explore.drawing import draw_scenario
    from harness.scenario.file import dump
    from harness.system.choices import fresh_seed
    from harness.system.errors import Exit

    seed = fresh_seed() if asked is None else asked
    scenario = draw_scenario(seed)
    click.echo(
        f"# floodmark run {scenario.scenario}.yaml --level sim --seed {seed}\n{dump(scenario)}", nl=False
    )
    return Exit.HOLD


def _plan(scenarios: Sequence[str], asked: dict[str, Any]) -> tuple[Plan, list[str]]:
    """What is explored, and what of the corpus cannot be used."""
    from harness.cli.run import check_sut
    from harness.engine.level import refuse
    from harness.explore.changing import exploring_form
    from harness.explore.drawing import draw_scenario
    from harness.explore.exploration import Corpus, CorpusEntry, Plan
    from harness.explore.trial import Subject
    from harness.history.invariants import INVARIANTS
    from harness.levels.sim.level import SimulatedLevel
    from harness.scenario.file import load_many
    from harness.sut.user_code import import_path
    from harness.system.choices import fresh_seed
    from harness.system.errors import NothingRan
    from harness.testing.running import check_expected

    check_sut(asked["sut"], asked["mutant"], "sim", "continuous")
    check_expected(asked["expected"], asked["sut"])
    subject = Subject(
        sut=asked["sut"],
        mutant=asked["mutant"],
        expected=asked["expected"],
        sql=asked["sql"],
        world=asked["world"],
        import_path=import_path(),
    )
    refuse(subject.order(draw_scenario(0), 0), SimulatedLevel())
    seed = fresh_seed() if asked["seed"] is None else asked["seed"]
    asked["seed"] = seed
    named = [scenario for scenario in load_many(scenarios) if "sim" in scenario.levels] if scenarios else []
    if scenarios and not named:
        message = "none of the named scenarios runs at level sim, where exploration runs them"
        raise NothingRan(message, fix="floodmark list scenarios")
    notes: list[str] = []
    kept = list(Corpus(folder=asked["corpus"]).read(notes.append)) if asked["corpus"] is not None else []
    given = [
        CorpusEntry(
            scenario=exploring_form(scenario),
            seed=scenario.choices.seed if scenario.choices else seed + number,
        )
        for number, scenario in enumerate(named)
    ]
    shelf = named or [scenario for scenario in load_many(["all"]) if "sim" in scenario.levels]
    asked["corpus_size"] = len(kept)
    return (
        Plan(
            subject=subject,
            seed=seed,
            runs=asked["runs"],
            only=frozenset(asked["only"]) if len(asked["only"]) < len(INVARIANTS) else frozenset(),
            keep_going=asked["keep_going"],
            given=(*given, *kept),
            shelf=tuple(shelf),
            round=_ROUND_THERE if asked["on"] is not None else _ROUND_HERE,
        ),
        notes,
    )


class _Command:
    """One exploration of the command line. Mutable."""

    def __init__(self, *, asked: dict[str, Any], plan: Plan, stop: Stop) -> None:
        from harness.explore.exploration import Explored

        self._asked = asked
        self._plan = plan
        self._stop = stop
        self._explored = Explored()
        self._groups: list[Group] = []
        self._took_s = 0.0

    def carry_out(self) -> int:
        """Explore, shrink and report; the report is given even if something fails."""
        from harness.system.errors import Exit, NothingRan, WorldError

        jobs = self._asked["jobs"] or os.cpu_count() or 1
        self._tell_beginning(jobs)
        trouble: Exception | None = None
        try:
            self._explore(jobs)
        except Exception as error:  # noqa: BLE001 - raised after the report
            trouble = error
        try:
            self._shrink()
        except WorldError as error:
            trouble = trouble or error
        self._report(jobs)
        if isinstance(trouble, WorldError) and self._explored.sightings:  # a violation beats it
            click.echo(f"floodmark: {trouble}", err=True)
        elif trouble is not None:
            raise trouble
        if self._explored.broken:
            return Exit.INTERNAL
        if self._explored.sightings:
            return Exit.VIOLATION
        if self._stop.is_set():
            return Exit.INTERRUPTED
        if not self._explored.outcomes:
            message = "nothing ran: the budget was over before the first run"
            raise NothingRan(message, fix="give a larger --budget")
        return Exit.HOLD if self._explored.outcomes["PASS"] else Exit.UNDECIDED

    def _tell_beginning(self, jobs: int) -> None:
        from harness.explore.finds import machines

        plan, asked = self._plan, self._asked
        if asked["quiet"]:
            return
        subject = plan.subject
        what = f"{subject.sut} with {subject.mutant}" if subject.mutant else subject.sut
        runs = "" if plan.runs is None else f" or {plan.runs} runs"
        begins = f"{len(plan.given)} scenarios given, " if plan.given else ""
        click.echo(
            f"explore  {what}: seed {plan.seed}, {asked['budget']:g} s{runs}, {machines(jobs, asked['on'])}, "
            f"{begins}{len(plan.shelf)} to shorten and change",
            err=True,
        )

    def _explore(self, jobs: int) -> None:
        from harness.explore.exploration import Exploring
        from harness.explore.exploration import explore as explore_until
        from harness.system.clock import Deadline, monotonic_us

        began_us = monotonic_us()
        try:
            with self._machines(jobs) as executors, self._progress() as show:
                using = Exploring(
                    executors=executors,
                    deadline=Deadline(self._asked["budget"]),
                    stopped=self._stop.is_set,
                    on_kept=self._keeper(),
                    on_run=lambda explored: show(explored, (monotonic_us() - began_us) / 1e6),
                )
                explore_until(self._plan, using, explored=self._explored)
        finally:
            self._took_s = (monotonic_us() - began_us) / 1e6

    def _keeper(self) -> Callable[[CorpusEntry, int], None]:
        from harness.explore.exploration import Corpus

        folder = self._asked["corpus"]
        if folder is None:
            return lambda entry, reached: None
        corpus = Corpus(folder=folder)

        def keep(entry: CorpusEntry, reached: int) -> None:
            corpus.keep(entry, reached=reached)

        return keep

    def _shrink(self) -> None:
        """Shrink what was found and write its files; after a Ctrl-C only write them."""
        from harness.explore.finds import grouped
        from harness.system.clock import Deadline

        deadline = Deadline(self._asked["budget"])
        verbose = self._asked["verbose"] and not self._asked["quiet"]
        for group in grouped(
            self._explored.to_shrink(keep_going=self._plan.keep_going),
            subject=self._plan.subject,
            only=self._plan.only,
            folder=self._asked["found"],
            goes_on=lambda: not self._stop.is_set() and not deadline.passed,
            tell=(lambda line: click.echo(line, err=True)) if verbose else (lambda line: None),
        ):
            self._groups = [*self._groups, group]

    def _report(self, jobs: int) -> None:
        from harness.explore.finds import ExplorationEnd, as_json, as_text

        tell = as_json if self._asked["form"] == "json" else as_text
        end = ExplorationEnd(
            explored=self._explored,
            groups=self._groups,
            plan=self._plan,
            seconds=self._took_s,
            jobs=jobs,
            on=self._asked["on"],
            corpus=self._asked["corpus"],
            interrupted=self._stop.is_set(),
        )
        click.echo(tell(end))

    def _machines(self, jobs: int) -> AbstractContextManager[Executors]:
        if self._asked["on"] is not None:
            from harness.cli.run_campaign import executors_of

            of_a_user = ":" in self._asked["sut"] or ":" in (self._asked["mutant"] or "")
            return executors_of(self._asked["on"], of_a_user=of_a_user)()
        from harness.system.pool import open_processes

        return open_processes(jobs)

    @contextmanager
    def _progress(self) -> Iterator[Callable[[Explored, float], None]]:
        """A line that is redrawn on a terminal; elsewhere one line for each round hundred of runs."""
        from rich.console import Console
        from rich.live import Live

        from harness.cli.run_campaign import can_redraw
        from harness.explore.finds import standing

        if self._asked["quiet"]:
            yield lambda explored, seconds: None
            return
        console = Console(stderr=True, no_color=self._asked["no_color"] or None, highlight=False)
        live = (
            Live(console=console, transient=True)
            if can_redraw(verbose=self._asked["verbose"])
            else nullcontext()
        )

        def show(explored: Explored, seconds: float) -> None:
            if isinstance(live, Live):
                live.update(standing(explored, seconds=seconds))
            elif explored.runs % _TELL_EVERY == 0:
                console.print(standing(explored, seconds=seconds), soft_wrap=True)

        with live:
            yield show


_TELL_EVERY = 500
"""Runs between two lines of progress, where none is redrawn."""
