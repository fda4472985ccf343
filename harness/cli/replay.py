"""`floodmark replay`: repeats what a report tells, from the report alone, and says whether it is the same.

Invariant: a run in virtual time is the same if its history has the same bytes; at other levels it says that it cannot
be the same, and compares what was violated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import lanes_option, run_options
from harness.system.errors import Exit
from harness.system.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.cli.reported_runs import ReportedRun

_PASSED_ON = ("jobs", "keep", "budget", "offline", "form", "quiet", "verbose", "no_color")
"""The options that are given to the campaign as they are."""


@click.command()
@click.argument("target", required=False, metavar="[RUN|HISTORY|FOUND]")
@click.option("--last-failed", is_flag=True, help="The violations of the newest report in reports/out.")
@lanes_option
@run_options
def replay(target: str | None, *, last_failed: bool, **asked: object) -> int:
    """Repeat the runs of a report: its folder, its run.json, a history in it, or a file that shrink or explore saved.

    In virtual time (level sim, also of jobs) the history must be equal, byte for byte. Else the machine decides the
    times, so it cannot be.

    Exit code: that of the runs, as of `floodmark run`; 10 also if a run in virtual time has another history.
    """
    from harness.cli.job_finds import find_of_file, is_file_of_job, run_job_find
    from harness.cli.reported_runs import is_scenario, runs_of_report
    from harness.cli.reported_runs import last_failed as failed_last
    from harness.system.errors import UsageError

    if (target is None) != last_failed:
        message = "name a report, a history or a saved find, or give --last-failed; one of them"
        raise UsageError(message, fix="floodmark replay reports/out/RUN")
    if target is not None and is_scenario(target):
        if is_file_of_job(Path(target)):
            campaign = {
                "world": "auto",
                "report": asked["report"],
                **{name: asked[name] for name in _PASSED_ON},
            }
            return run_job_find(find_of_file(Path(target)), Path(target), campaign)
        return _replay_find(Path(target), asked)
    told = failed_last() if target is None else runs_of_report(target)
    return _replay_told(told, asked)


def _replay_find(file: Path, asked: dict[str, Any]) -> int:
    from dataclasses import replace

    from harness.cli.run import given
    from harness.cli.run_campaign import run_campaign
    from harness.explore.find import load_find, options_of_find
    from harness.sut.user_code import add_current_folder, import_path

    add_current_folder()
    find = load_find(file, import_path=import_path())
    options, differs = options_of_find(find.scenario, seed=given(asked, {"seed": None})["seed"])
    if differs:
        click.echo(f"floodmark: {differs}", err=asked["form"] != "pretty")
    seed = options["seed"]
    order = replace(find.order, seed=seed, again=f"floodmark run {file} --seed {seed}")
    finished = run_campaign([order], title=find.scenario.scenario, world="auto", report=asked["report"],
                  **{name: asked[name] for name in _PASSED_ON})  # fmt: skip
    shown = any((find.invariant, find.kind) in tally.violations for tally in finished.tallies)
    click.echo(f"shown    {find.shows}: {'yes, as its file says' if shown else 'NO, and its file says so'}",
               err=asked["form"] != "pretty")  # fmt: skip
    return finished.exit_code if shown else max(finished.exit_code, Exit.UNDECIDED)


def _replay_told(told: Sequence[ReportedRun], asked: dict[str, Any]) -> int:
    from harness.cli.job import order_again
    from harness.cli.reported_runs import REPORTS
    from harness.cli.run_campaign import run_campaign
    from harness.scenario.order import new_run_id
    from harness.sut.user_code import add_current_folder
    from reports.reading import is_of_job

    add_current_folder()
    orders = [order_again(run.again) if is_of_job(run.level) else run.order for run in told]
    aside = asked["form"] != "pretty"
    for line in _before(told):
        click.echo(f"floodmark: {line}", err=True)
    folder = asked["report"] or REPORTS / new_run_id()
    world = told[0].world
    assert world is not None, "a report is checked before its runs are repeated"
    finished = run_campaign(
        orders,
        title=f"replay of {told[0].folder.name}",
        world=world.kind if asked["world"] == "auto" and world.kind in _WORLDS else asked["world"],
        proxy=_proxy_of(world.proxy) if asked["proxy"] == "auto" else asked["proxy"],
        report=folder,
        **{name: asked[name] for name in _PASSED_ON},
    )
    compared = list(_compared(told, folder))
    same = sum(same for _, same in compared)
    for sentence, is_same in compared:
        if not is_same or len(compared) <= _LINES:
            click.echo(sentence, err=aside)
    if len(compared) > _LINES:
        click.echo(f"same     {same} of {len(compared)} runs", err=aside)
    if same == len(compared) or finished.broken:
        return finished.exit_code
    return max(finished.exit_code, Exit.UNDECIDED)


_LINES = 12
"""With more runs than this, all unchanged runs share one line."""


_WORLDS = ("local", "containers")


def _proxy_of(told: str) -> str:
    """The value for `--proxy`, from the title in the report (`Toxiproxy 2.12.0`, `own proxy 0.1.0`)."""
    if told.startswith("Toxiproxy"):
        return "toxiproxy"
    return "own" if told.startswith("own proxy") else "auto"


def _before(told: Sequence[ReportedRun]) -> Iterator[str]:
    """What may make a difference."""
    from harness.system.versions import versions

    first = told[0]
    now = versions(LEVELS[first.level].packages)
    others = [
        f"{name} {was}, now {now.get(name, 'none')}"
        for name, was in first.versions.items()
        if now.get(name) != was
    ]
    if others:
        yield f"the report was made with other versions: {'; '.join(others)}"
    if not LEVELS[first.level].repeats:
        yield f"at level {first.level} the machine decides the times: the same order, seed and world, another history"


def _compared(told: Sequence[ReportedRun], folder: Path) -> Iterator[tuple[str, bool]]:
    """A sentence for each repeated run, and whether it is the same, where that can be."""
    from harness.cli.reported_runs import runs_of_report

    again = {(run.scenario, run.seed, run.mutant, run.again): run for run in runs_of_report(str(folder))}
    for run in told:
        repeated: ReportedRun | None = again.get((run.scenario, run.seed, run.mutant, run.again))
        name = f"{run.scenario} seed {run.seed}"
        if repeated is None:
            yield f"not run  {name}", False
        elif not LEVELS[run.level].repeats:
            was, now = _named(run), _named(repeated)
            yield (
                f"compared {name}: the report shows {was}, this run {'the same' if was == now else now}",
                True,
            )
        else:
            yield _same_history(name, run, repeated)


def _same_history(name: str, run: ReportedRun, repeated: ReportedRun) -> tuple[str, bool]:
    """Compares bytes if both reports keep the file, else what the reports say of the content."""
    old, new = run.file, repeated.file
    if old is not None and new is not None and old.sha256 and new.sha256:
        if old.sha256 == new.sha256:
            return f"same     {name}: the same history, byte for byte (sha256 {old.sha256})", True
        return f"OTHER    {name}: another history than the report's (sha256 {old.sha256})", False
    was, now = run.content_digest, repeated.content_digest
    if not was or not now:
        return f"unknown  {name}: the report keeps no history to compare with", False
    if was == now:
        return f"same     {name}: a history of the same content (digest {was})", True
    return f"OTHER    {name}: another history than the report's (digest {was})", False


def _named(run: ReportedRun) -> str:
    return (
        ", ".join(f"{invariant} {kind}" for invariant, kind in run.shown) or f"no violation ({run.verdict})"
    )
