"""Finds of jobs on the command line: `explore --job`, `shrink` of a job's run or file, and `job` of a saved find.

Invariant: what is saved repeats with the command that is printed beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.system.errors import Exit, NothingRan, WorldError

if TYPE_CHECKING:
    from harness.engine.level import Stop
    from harness.explore.job_exploration import JobExplored
    from harness.explore.job_find import JobFind, JobRuns
    from harness.explore.shrinking import ShrinkStep
    from harness.levels.job.job_scenario import JobScenario
    from harness.system.errors import FloodmarkError


def is_file_of_job(file: Path) -> bool:
    """Whether a scenario file is one of jobs."""
    try:
        return any(line.startswith("job_scenario:") for line in file.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return False


def explore_job(names: Sequence[str], asked: dict[str, Any]) -> int:
    """Runs a job in virtual time with drawn kills and changed scenarios until one shows a violation; shrinks it."""
    from harness.cli.run_campaign import stop_on_interrupt
    from harness.system.choices import fresh_seed

    asked["seed"] = fresh_seed() if asked["seed"] is None else asked["seed"]
    with stop_on_interrupt() as stop:
        return _Exploration(asked=asked, names=names, stop=stop).carry_out()


class _Exploration:
    """One exploration of a job. Mutable."""

    def __init__(self, *, asked: dict[str, Any], names: Sequence[str], stop: Stop) -> None:
        self._asked = asked
        self._names = names
        self._stop = stop
        self._lanes: int = asked["jobs"] or os.cpu_count() or 1

    def carry_out(self) -> int:
        from harness.engine.level import Opening, RunSite
        from harness.explore.job_exploration import JobExplored, JobPlan, base_scenario, explore_job
        from harness.explore.job_find import runs_on
        from harness.levels.virtual.level import VirtualJobLevel
        from harness.system.clock import Deadline, monotonic_us

        asked = self._asked
        find = _bare(asked["job"], base_scenario(), seed=asked["seed"])
        level = VirtualJobLevel()
        level.refuse(find.order)
        level.refuse_blindness(None)
        self._say(
            f"explore  {asked['job']}: seed {asked['seed']}, {asked['budget']:g} s, {self._lanes} processes"
        )
        opening = Opening(announce=lambda text: self._say(f"world    {text}"), world=asked["world"])
        with level.open(opening) as plays:
            calm = plays.calm_twin(find.order, RunSite(run_id="calm", folder=Path()))
            plan = JobPlan(
                find=find, seed=asked["seed"], calm=calm.messages, shelf=self._shelf(find), lanes=self._lanes
            )
            explored, deadline = JobExplored(), Deadline(asked["budget"])
            began_us = monotonic_us()

            def goes_on() -> bool:
                is_spent = asked["runs"] is not None and explored.runs >= asked["runs"]
                return not self._stop.is_set() and not deadline.passed and not is_spent

            lacks: list[FloodmarkError] = []
            run = runs_on(plays, stop=self._stop, on_unmet=lacks.append)
            found = explore_job(plan, run=run, explored=explored, goes_on=goes_on)
            first = next((one for one in found if one.invariant in asked["only"]), None)
            took_s = (monotonic_us() - began_us) / 1e6
            unmet = (
                f"; {explored.not_made} drawn scenarios the job could not meet" if explored.not_made else ""
            )
            if not explored.runs and lacks:
                raise next((one for one in lacks if isinstance(one, WorldError)), lacks[0])
            click.echo(f"runs     {explored.runs} in {took_s:.1f} s, judging included{unmet}")
            told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(explored.verdicts.items()))
            click.echo(f"verdicts {told or 'none'}")
            if first is None:
                return self._ended(explored)
            shows_steps = asked["verbose"] and not asked["quiet"]
            _make_small(
                first,
                run,
                budget_s=asked["budget"],
                on_step=Steps(quiet=not shows_steps, verbose=shows_steps),
                stop=self._stop,
                folder=asked["found"],
            )
        return Exit.VIOLATION

    def _ended(self, explored: JobExplored) -> int:
        if self._stop.is_set():
            return Exit.INTERRUPTED
        if not explored.runs:
            raise NothingRan(
                "nothing ran: the budget was over before the first run", fix="give a larger --budget"
            )
        return Exit.HOLD if explored.has_passed else Exit.UNDECIDED

    def _shelf(self, find: JobFind) -> list[JobScenario]:
        """The named scenarios, or the shipped ones that the job can meet."""
        from harness.levels.job.job_scenarios import load_jobs
        from harness.levels.job.records import read_input
        from harness.levels.job.unmet import refuse_unmet
        from harness.levels.virtual.level import refuse_real_time
        from harness.system.errors import CannotHere

        shelf = []
        for _, scenario in load_jobs(self._names or ["all"]):
            try:
                refuse_real_time(scenario)
                refuse_unmet(find.job, scenario, read_input(find.job, scenario, seed=find.seed))
            except CannotHere:
                continue
            if scenario.faults:
                shelf.append(scenario)
        if not shelf:
            raise NothingRan("none of the scenarios is for this job", fix="floodmark list scenarios --jobs")
        return shelf

    def _say(self, text: str) -> None:
        if not self._asked["quiet"]:
            click.echo(text, err=True)


def _bare(given: str, scenario: JobScenario, *, seed: int) -> JobFind:
    from harness.explore.job_find import JobFind
    from harness.levels.job.order import job_named
    from harness.sut.user_code import add_current_folder, import_path

    add_current_folder()
    job, named = job_named(given)
    return JobFind(
        scenario=scenario,
        job=job,
        named=named,
        seed=seed,
        invariant="",
        kind="",
        environment=dict(os.environ),
        import_path=import_path(),
    )


# ----------------------------------------------------------------------------------------------- shrink


def shrink_job_target(
    target: JobFind,
    *,
    folder: Path,
    world: str,
    budget: float,
    on_step: Callable[[ShrinkStep], None],
    stop: Stop,
) -> int:
    """Makes it small, saves and prints it."""
    from harness.explore.job_find import open_job_runs

    with open_job_runs(
        announce=lambda text: click.echo(f"world    {text}", err=True), world=world, stop=stop
    ) as run:
        _make_small(target, run, budget_s=budget, on_step=on_step, stop=stop, folder=folder)
    return Exit.INTERRUPTED if stop.is_set() else Exit.VIOLATION


def find_of_file(file: Path) -> JobFind:
    """The saved find in `file`. Raises UsageError if it is none."""
    from harness.explore.job_find import load_job_find
    from harness.sut.user_code import import_path

    return load_job_find(file, environment=dict(os.environ), import_path=import_path())


def run_job_find(find: JobFind, file: Path, campaign: Mapping[str, Any]) -> int:
    """Repeats it, and says whether it shows what its file says; `campaign`: options of `run_campaign`."""
    from dataclasses import replace

    from harness.cli.run_campaign import run_campaign

    order = replace(find.order, again=f"floodmark job {file}")
    finished = run_campaign([order], title=find.scenario.scenario, **campaign)
    shown = any((find.invariant, find.kind) in one.judgement.shown for one in finished.outcomes)
    say = "yes, as its file says" if shown else "NO, and its file says so"
    click.echo(f"shown    {find.shows}: {say}", err=campaign["form"] != "pretty")
    return finished.exit_code if shown else max(finished.exit_code, Exit.UNDECIDED)


def _make_small(
    first: JobFind,
    run: JobRuns,
    *,
    budget_s: float,
    on_step: Callable[[ShrinkStep], None],
    stop: Stop,
    folder: Path,
) -> None:
    """Shrinks it as long as the budget lasts, saves it in `folder` and prints it."""
    from harness.explore.job_find import shrink_job
    from harness.system.clock import Deadline

    deadline = Deadline(budget_s)
    small = shrink_job(
        first, run=run, on_step=on_step, goes_on=lambda: not stop.is_set() and not deadline.passed
    )
    file = small.save(folder)
    click.echo(f"shrunk   {small.shows}: {_size(first)} -> {_size(small)}")
    click.echo(f"file     {file}")
    click.echo(f"again    floodmark job {file}")
    click.echo("\n" + file.read_text(encoding="utf-8"), nl=False)


def _size(find: JobFind) -> str:
    faults, records = find.size
    return f"{faults} fault{'' if faults == 1 else 's'}, {records} record{'' if records == 1 else 's'}"


class Steps:
    """Prints the steps. Mutable: counts them."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self.made = 0
        self._all, self._good = verbose and not quiet, not quiet

    def __call__(self, step: ShrinkStep) -> None:
        self.made += 1
        if self._all or (self._good and step.accepted):
            result = "smaller" if step.accepted else "no     "
            click.echo(f"{result}  {step.what}{f': {step.why}' if step.why else ''}", err=True)
