"""`floodmark job SCENARIO... --job job.toml`: put a user's own job under fire, judge its table, write a report.

Invariant: every mistake in the arguments, the job file and the scenarios is reported before anything is started.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.completion import job_scenario_names
from harness.cli.options import (
    CAMPAIGN,
    baseline_option,
    earlier_report,
    fail_on_option,
    lanes_option,
    open_option,
    option,
    run_options,
    runs_option,
    tag_option,
)
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.explore.job_find import JobFind
    from harness.levels.job.job_file import JobFile
    from harness.levels.job.job_scenario import JobScenario
    from harness.levels.job.order import JobOrder


@click.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...", shell_complete=job_scenario_names)
@option("--job", "given", default=None, metavar="FILE|COMMAND",
        help="A job.toml, a folder with one, a command, or module:function.  [a saved find: its own]")  # fmt: skip
@option("--level", type=click.Choice(["job", "sim"]), default=None,
        help="job: real processes, proxy and time; sim: virtual time, for a job in Python.  "
             "[default: job; of `all`: sim where job and scenario can]")  # fmt: skip
@option("--calm-only", is_flag=True,
        help="Run the job once without faults, to see that it works and how fast it is.")  # fmt: skip
@option("--sweep", is_flag=True,
        help="Kill the whole job before and after each message in turn: at level job to the sink, at level sim of both "
             "links; SCENARIO gives the records only.  [default scenario: killed-at-message]")  # fmt: skip
@option("--kills", type=click.IntRange(min=1, max=2), default=1, show_default=True,
        help="With --sweep: 2 kills the start after the first kill too, at drawn pairs of messages.")  # fmt: skip
@option("--expected", default=None, metavar="MODULE:FUNCTION|calm|none",
        help="What the table must hold: `def expected(record, rows) -> list`, or of all `records` where rows are of "
             "keys; calm: what the job writes without faults; none: values are not judged.  [default: "
             "`claims.expected` of the job file]")  # fmt: skip
@runs_option
@option("--data-seed", type=click.IntRange(min=0), default=None,
        help="Seed of the records and rows, the same in all runs.  [default: that of the first run]")  # fmt: skip
@lanes_option
@fail_on_option
@option("--set", "settings", multiple=True, metavar="KEY=VALUE",
        help="Set a field of the scenario: records=100, faults.kill.when.nth=3.")  # fmt: skip
@tag_option
@baseline_option
@open_option
@run_options
def job(scenarios: tuple[str, ...], **asked: Any) -> int:
    """Put your own job under fire: SCENARIOs are files, folders, or names from `floodmark list scenarios --jobs`.

    Exit code: 0 all hold, 1 a violation, 2 interrupted, 4 bad usage, job file or scenario, 5 nothing ran,
    10 unknown or vacuous, 11 the environment failed, or the job does not work without faults.
    """
    from harness.cli.job_finds import run_job_find
    from harness.cli.run_campaign import run_campaign
    from harness.engine.campaign import few_of

    asked["baseline"] = earlier_report(asked["baseline"])
    if (find := _find_in(scenarios, asked)) is not None:
        return run_job_find(find, Path(scenarios[0]), {name: asked[name] for name in CAMPAIGN})
    if asked["given"] is None:
        raise UsageError("no job was named", fix="write --job job.toml, or name the file of a saved find")
    orders = list(_Asked(names=scenarios, asked=asked).orders())
    title = few_of(list(dict.fromkeys(order.scenario.scenario for order in orders)))
    return run_campaign(orders, title=title, **{name: asked[name] for name in CAMPAIGN}).exit_code


def order_again(words: str) -> JobOrder:
    """The one run that the command `words` makes, as `JobOrder.again` has it. Raises UsageError if it cannot."""
    asked = dict(job.make_context("floodmark job", shlex.split(words)[2:]).params)
    names = asked.pop("scenarios")
    if (find := _find_in(names, asked)) is not None:
        return replace(find.order, again=words)
    (order,) = _Asked(names=names, asked=asked).orders()
    return order


def _find_in(scenarios: Sequence[str], asked: dict[str, Any]) -> JobFind | None:
    """The saved find, if that is what is named and no job is."""
    from harness.cli.job_finds import find_of_file, is_file_of_job
    from harness.levels.job.job_scenarios import load_jobs

    if asked["given"] is not None or len(scenarios) != 1 or not is_file_of_job(Path(scenarios[0])):
        return None
    ((file, scenario),) = load_jobs(scenarios)
    return None if scenario.shows is None else find_of_file(file)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The scenarios that are named, and the options of the command line by name."""

    names: Sequence[str]
    asked: dict[str, Any]

    def orders(self) -> Iterator[JobOrder]:
        """The orders of all runs, the scenarios one after the other. Raises for every mistake of the arguments."""
        from harness.levels import level_named
        from harness.levels.job.order import IN_REAL_TIME, IN_VIRTUAL_TIME, job_named, job_order
        from harness.levels.virtual.level import needs_real_time
        from harness.sut.user_code import add_current_folder, import_path
        from harness.system.choices import fresh_seed

        asked = self.asked
        job_file, named = job_named(asked["given"])
        if asked["expected"] is not None:
            claims = job_file.claims.model_copy(update={"expected": asked["expected"]})
            job_file = job_file.model_copy(update={"claims": claims})
        add_current_folder()
        level = IN_VIRTUAL_TIME if asked["level"] == "sim" else IN_REAL_TIME
        seed = asked["seed"] if asked["seed"] is not None else fresh_seed()
        data_seed = asked["data_seed"] if asked["data_seed"] is not None else seed
        made = partial(
            job_order,
            level=level,
            job=job_file,
            named=named,
            environment=dict(os.environ),
            import_path=(str(job_file.folder), *import_path()),
            world=(asked["world"], asked["proxy"]),
            calm_only=asked["calm_only"],
            fails_on_pitfall=asked["fail_on"] == "pitfall",
        )
        more = tuple(self._more())
        selected = self._selected(job_file)
        chooses = asked["level"] is None and "all" in self.names and not asked["sweep"]
        if chooses and self._can_be_virtual(made(selected[0][1], source="", seed=seed)):
            made = partial(made, level=IN_VIRTUAL_TIME)
        for source, scenario, named_alone in selected:
            for number in range(seed, seed + (1 if asked["calm_only"] else asked["runs"])):
                seeded = partial(made, seed=number, data_seed=None if data_seed == number else data_seed)
                order = seeded(scenario, source=source, more=more, named_alone=named_alone)
                if chooses and needs_real_time(order.scenario):
                    order = replace(order, level=IN_REAL_TIME)
                if number == seed:
                    level_named(order.level).refuse(order)
                yield from self._swept(order, seeded) if asked["sweep"] else [order]

    def _can_be_virtual(self, order: JobOrder) -> bool:
        """Whether the job stays in virtual time while nothing disturbs it; says why not."""
        from harness.levels.virtual.level import leaves_virtual_time

        why = leaves_virtual_time(order, world=self.asked["world"])
        if why and not self.asked["quiet"]:
            click.echo(f"level    job, in real time: {why}", err=True)
        return not why

    def _swept(self, order: JobOrder, made: Callable[..., JobOrder]) -> Iterator[JobOrder]:
        """Instead of `order` one order for each crash point of its calm twin."""
        from harness.cli.run_campaign import lanes_of
        from harness.levels.job.job_scenarios import apply_job_settings, load_jobs
        from harness.levels.job.sweep import SWEPT, SWEPT_TWICE, calm_points, settings_of, settings_of_pair

        is_twice = self.asked["kills"] > 1
        source = SWEPT_TWICE if is_twice else SWEPT
        ((_, base),) = load_jobs([source])
        points = calm_points(
            order,
            world=self.asked["world"],
            proxy=self.asked["proxy"],
            offline=self.asked["offline"],
            announce=lambda text: None if self.asked["quiet"] else click.echo(f"sweep    {text}", err=True),
            budget_s=self.asked["budget"],
            jobs=lanes_of(self.asked["jobs"], {order.level}),
            pairs=is_twice,
        )
        for point in points:
            if len(point) > 1:
                settings = settings_of_pair(order.scenario, (point[0], point[1]))
            else:
                settings = settings_of(order.scenario, point[0])
            yield made(apply_job_settings(base, settings), source=source, more=tuple(self._more(settings)))

    def _more(self, settings: Sequence[str] | None = None) -> Iterator[str]:
        """The further words of the command that repeats a run; `settings`: other ones than those of the command."""
        if self.asked["expected"] is not None:
            yield from ("--expected", self.asked["expected"])
        for setting in self.asked["settings"] if settings is None else settings:
            yield from ("--set", setting)
        if self.asked["fail_on"]:
            yield from ("--fail-on", self.asked["fail_on"])

    def _selected(self, job_file: JobFile) -> list[tuple[str, JobScenario, bool]]:
        """The scenarios with all tags, their names for a command, and whether each was named (see `JobOrder.named`).

        Raises NothingRan if none is left.
        """
        from harness.levels.job.job_scenario import JobScenario
        from harness.levels.job.job_scenarios import apply_job_settings, job_catalogue, load_jobs, named_alone
        from harness.levels.job.sweep import SWEPT
        from harness.scenario.catalogue import catalogue
        from harness.system.errors import NothingRan, UsageError

        asked = self.asked
        names = (SWEPT,) if asked["sweep"] and not self.names else self.names
        if asked["calm_only"]:
            about = "The job runs without faults, to see that it works and how fast it is."
            calm = [("", JobScenario(job_scenario="calm", about=about))]
            if names:
                calm = [(str(path), one.model_copy(update={"faults": ()})) for path, one in load_jobs(names)]
            return [(source, apply_job_settings(one, asked["settings"]), True) for source, one in calm]
        wanted = list(names) or list(job_file.job.scenarios)
        if not wanted:
            if not asked["tags"]:
                raise UsageError(
                    "no scenario was named",
                    fix="name some, or write `all`: `floodmark list scenarios --jobs` lists them",
                )
            wanted = ["all"]
        shipped = {path: name for name, path in {**catalogue(), **job_catalogue()}.items()}
        alone = named_alone(wanted)
        chosen = [
            (
                shipped.get(path, str(path)),
                apply_job_settings(scenario, asked["settings"]),
                path in alone,
            )
            for path, scenario in load_jobs(wanted)
            if set(asked["tags"]) <= set(scenario.tags)
        ]
        if not chosen:
            message = f"none of the named scenarios has the tag {' and '.join(asked['tags'])}"
            raise NothingRan(message, fix="floodmark list scenarios --jobs")
        return chosen
