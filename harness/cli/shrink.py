"""`floodmark shrink`: makes a violation small, from a run of any level, a saved find or a scenario.

Invariant: what is saved was run at level sim and shows the violation; an interruption keeps the smallest so far.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.completion import scenario_names
from harness.cli.options import budget_option, invariant_option, option, server_option, sql_option
from harness.system.errors import Exit, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.cli.reported_runs import ReportedRun
    from harness.explore.carry import Recorded
    from harness.explore.find import Find
    from harness.explore.job_find import JobFind
    from harness.explore.shrink import Runs
    from harness.history.event import Event
    from harness.scenario.model import Scenario, Sql

_BUDGET = "2m"


@click.command()
@click.argument("target", metavar="RUN|FOUND|SCENARIO", shell_complete=scenario_names)
@option("--sut", default=None, metavar="NAME|MODULE:ATTR",
        help="With a scenario: the system under test.  [default: reference; a saved find: its own]")  # fmt: skip
@option("--mutant", default=None, metavar="NAME|MODULE:ATTR", help="With a scenario: a planted defect.")
@option("--expected", default=None, metavar="MODULE:FUNCTION|none",
        help="With a scenario: as of `floodmark run`.")  # fmt: skip
@sql_option
@option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
        help="With a scenario: the seed of the run; a saved find has its own.")  # fmt: skip
@invariant_option
@option("--found", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("found"),
        show_default=True, help="Folder of the saved find.")  # fmt: skip
@budget_option(default=_BUDGET, help="Time limit; the smallest so far is saved.")
@server_option
@option("--quiet", "-q", is_flag=True, help="Show no steps.")
@option("--verbose", "-v", is_flag=True,
        help="Show every step and its result, not only those that made it smaller.")  # fmt: skip
def shrink(
    target: str,
    *,
    folder: Path,
    world: str,
    budget: float,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Make a violation as small as it can be while level sim still shows it, and save it as a scenario file.

    RUN is the folder of a report, of any level, its run.json, or a history in it; its calls and faults are carried down
    to level sim. FOUND is a file that `explore` or `shrink` saved: its own system and seed count, but for options of
    the command line, which are named in the first line if they differ. SCENARIO is any other scenario file or name.

    Exit code: 1 it is shown, small and saved; 2 interrupted, the smallest so far is saved; 4 bad usage, or a run
    without a violation; 10 level sim does not show it.
    """
    from harness.cli.job_finds import Steps
    from harness.cli.run_campaign import stop_on_interrupt
    from harness.explore.shrink import open_runs
    from harness.explore.shrink import shrink as shrunk
    from harness.sut.user_code import add_current_folder
    from harness.system.clock import Deadline

    add_current_folder()
    asked = _ToShrink(**options)
    if (of_job := _of_job(target, asked)) is not None:
        from harness.cli.job_finds import shrink_job_target

        with stop_on_interrupt() as stop:
            return shrink_job_target(
                of_job,
                folder=folder,
                world=world,
                budget=budget,
                on_step=Steps(quiet=quiet, verbose=verbose),
                stop=stop,
            )
    with stop_on_interrupt() as stop, open_runs(stop, world=world) as run:
        deadline = Deadline(budget)
        find = _found(target, asked, run)
        if find is None:
            return Exit.INTERRUPTED if stop.is_set() else Exit.UNDECIDED
        steps = Steps(quiet=quiet, verbose=verbose)
        small = shrunk(
            find, run=run, on_step=steps, goes_on=lambda: not stop.is_set() and not deadline.passed
        )
    file = small.save(folder)
    click.echo(f"shrunk   {small.shows}: {_size(find)} -> {_size(small)}, in {steps.made} runs")
    click.echo(f"file     {file}")
    click.echo(f"again    floodmark run {file}")
    click.echo("\n" + file.read_text(encoding="utf-8"), nl=False)
    return Exit.INTERRUPTED if stop.is_set() else Exit.VIOLATION


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToShrink:
    """The options that say what is to be shrunk."""

    sut: str | None
    mutant: str | None
    expected: str | None
    sql: Sql | None
    seed: int
    invariants: tuple[str, ...]

    def of(self, scenario: Scenario) -> Scenario:
        """`scenario`, with the `sql` that was asked for."""
        return scenario if self.sql is None else scenario.model_copy(update={"sql": self.sql})

    def chosen(
        self, shown: Sequence[tuple[str, str]], *, meant: Sequence[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Those of the given violations whose invariant was asked for; those of `meant` first."""
        asked = [one for one in shown if one[0] in self.invariants]
        return tuple(sorted(asked, key=lambda one: (one[0] not in meant, one[1] == "vacuous")))


def _of_job(target: str, asked: _ToShrink) -> JobFind | None:
    """The find of a job that `target` is: a saved file, or the first failed run of a report; None: it is of no job."""
    from harness.cli.job_finds import find_of_file, is_file_of_job
    from harness.cli.reported_runs import is_scenario, runs_of_report
    from harness.scenario.catalogue import catalogue
    from harness.system.levels import LEVELS

    if is_scenario(target):
        return find_of_file(Path(target)) if is_file_of_job(Path(target)) else None
    if target in catalogue():
        return None
    told = [one for one in runs_of_report(target) if LEVELS[one.level].runs_jobs]
    failed = [one for one in told if asked.chosen(one.shown)]
    if told and not failed:
        message = f"{target}: none of its {len(told)} runs shows a violation to make small"
        raise UsageError(message, fix="name the folder of a run that failed, or leave --invariant out")
    return _find_of_job_run(failed[0], asked.chosen(failed[0].shown)[0]) if failed else None


def _find_of_job_run(told: ReportedRun, shown: tuple[str, str]) -> JobFind:
    """The run of a report again, in virtual time, whatever its level was. Raises UsageError."""
    from harness.cli.job import order_again
    from harness.cli.job_finds import find_of_file
    from harness.explore.job_find import JobFind

    order, words = order_again(told.again), shlex.split(told.again)
    if "--job" not in words:
        return find_of_file(Path(words[2])).showing(*shown)
    return JobFind(
        scenario=order.scenario,
        job=order.job,
        named=words[words.index("--job") + 1],
        seed=order.seed,
        invariant=shown[0],
        kind=shown[1],
        environment=order.environment,
        import_path=order.import_path,
    )


def _found(target: str, asked: _ToShrink, run: Runs) -> Find | None:
    """What is to be shrunk; None, after a sentence, if level sim does not show what another level showed."""
    from harness.cli.reported_runs import is_scenario, runs_of_report
    from harness.cli.run import check_sut, given
    from harness.explore.find import load_find, options_of_find
    from harness.scenario.catalogue import catalogue, resolve
    from harness.scenario.file import load
    from harness.sut.user_code import import_path

    if not is_scenario(target) and target not in catalogue():
        return _of_report(runs_of_report(target), target, asked, run)
    (file,) = resolve([target])
    scenario = load(file)
    if scenario.shows is None:
        return _of_scenario(scenario, asked, run)
    find = load_find(file, import_path=import_path())
    mine = {"sut": asked.sut, "mutant": asked.mutant, "expected": asked.expected, "seed": asked.seed}
    options, differs = options_of_find(scenario, **given(mine, dict.fromkeys(mine)))
    if differs:
        click.echo(f"floodmark: {differs}")
        check_sut(options["sut"], options["mutant"], "sim", "continuous")
    return replace(find, scenario=asked.of(find.scenario), **options)


def _of_scenario(scenario: Scenario, asked: _ToShrink, run: Runs) -> Find:
    """The first violation that a run of it shows, and the reference does not."""
    from harness.cli.run import check_sut
    from harness.engine.perform import convicts_of
    from harness.explore.find import Find
    from harness.scenario.order import REFERENCE
    from harness.sut.user_code import import_path

    sut = asked.sut or REFERENCE
    check_sut(sut, asked.mutant, "sim", "continuous")
    bare = Find(
        scenario=asked.of(scenario),
        seed=asked.seed,
        invariant="",
        kind="",
        sut=sut,
        mutant=asked.mutant,
        expected=asked.expected,
        import_path=import_path(),
    )
    name = f"{scenario.scenario} with seed {asked.seed}"
    seen = run(bare)
    if seen is None:
        raise UsageError(
            f"{name} cannot be run at level sim", fix=f"floodmark run {scenario.scenario} --level sim"
        )
    shown = asked.chosen(seen.judgement.shown, meant=convicts_of(bare.order) or scenario.decisive)
    if not bare.is_reference:
        honest = run(bare.of_reference)
        of_anybody = () if honest is None else honest.judgement.shown
        shown = tuple(one for one in shown if one not in of_anybody)
    else:
        shown = tuple(one for one in shown if one[1] != "vacuous")
    if not shown:
        message = f"{name} does not fail at level sim: there is no violation to make small"
        raise UsageError(
            message, fix="name another --seed, --sut or --mutant, or the folder of a run that failed"
        )
    return bare.showing(*shown[0])


def _of_report(told: Sequence[ReportedRun], target: str, asked: _ToShrink, run: Runs) -> Find | None:
    """The first failed run of a report, carried down if it is of another level."""
    failed = [one for one in told if asked.chosen(one.shown)]
    if not failed:
        message = f"{target}: none of its {len(told)} runs shows a violation to make small"
        raise UsageError(message, fix="name the folder of a run that failed, or leave --invariant out")
    first = failed[0]
    if len(failed) > 1:
        rest = f"floodmark: {len(failed)} of its runs failed; this is {first.name}"
        click.echo(f"{rest}, the others are named by their folders in {first.folder / 'runs'}", err=True)
    recorded = _recorded(first, asked)
    if recorded.level == "sim":
        return recorded.find
    from harness.explore.carry import carry_down

    carried = carry_down(recorded, run)
    for sentence in carried.left:
        click.echo(f"left     {sentence}")
    if carried.find is None:
        named = ", ".join(f"{invariant} {kind}" for invariant, kind in recorded.shown)
        click.echo(f"not shown  level sim does not show {named} in {carried.tried} runs of {first.scenario}")
        return None
    click.echo(
        f"carried  {carried.find.shows} from level {recorded.level}: {carried.form}, run {carried.tried}"
    )
    return carried.find


def _recorded(told: ReportedRun, asked: _ToShrink) -> Recorded:
    from harness.explore.carry import Recorded
    from harness.explore.find import Find
    from harness.history.read import read_whole

    order, shown = told.order, asked.chosen(told.shown)
    find = Find(
        scenario=asked.of(order.scenario),
        seed=order.seed,
        invariant=shown[0][0],
        kind=shown[0][1],
        sut=order.sut,
        mutant=order.mutant,
        expected=order.expected,
        import_path=order.import_path,
    )
    events: Sequence[Event] = ()
    if order.level != "sim":
        if told.history_path is None:
            message = f"run {told.name} has no history any more, so its calls are not known"
            raise UsageError(message, fix="name a run whose history.jsonl is there")
        _, events = read_whole(told.history_path)
    return Recorded(find=find, level=order.level, runner=order.runner, shown=shown, events=events)


def _size(find: Find) -> str:
    """`3 faults, 14 records`."""
    workload, faults = find.scenario.workload, len(find.scenario.faults)
    records = workload.records * workload.subtasks
    return f"{faults} {'fault' if faults == 1 else 'faults'}, {records} {'record' if records == 1 else 'records'}"
