"""`floodmark run SCENARIO...`: run scenarios, check the histories, write a report.

Invariant: every mistake in the arguments is reported before anything is started.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.cli.completion import scenario_names, sut_names
from harness.cli.options import (
    CAMPAIGN,
    baseline_option,
    earlier_report,
    expected_option,
    fail_on_option,
    lanes_option,
    mutant_option,
    on_option,
    open_option,
    option,
    own_files_options,
    own_files_words,
    refuse_no_world,
    refuse_on_at,
    run_options,
    runs_option,
    tag_option,
)
from harness.system.json_types import Json
from harness.system.levels import OPERATOR_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.engine.campaign import Finished
    from harness.scenario.model import Scenario
    from harness.scenario.order import Order

_WHERE = {"level": "sim", "runner": "continuous", "cluster": None, "master": None, "tags": ()}
"""For saved finds: options of the whole command, as they are unless the command line gives them."""
_WHAT = {"sut": None, "mutant": None, "expected": None, "seed": None, "settings": (), "own_schema": None,
         "own_data": (), "own_records": None, "sql": None}  # fmt: skip
"""For a saved find: options that would change what it shows, as they are unless the command line gives them."""


@click.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...", shell_complete=scenario_names)
@option("--level", type=click.Choice(OPERATOR_LEVELS), default=None,
        help="sim: virtual time; live: processes; spark: PySpark tasks.  "
             "[default: live; a saved find: sim]")  # fmt: skip
@option("--runner", type=click.Choice(["continuous", "micro-batch", "stateful"]), default="continuous",
        show_default=True,
        help="How level spark runs the operator: one task a subtask for the whole run; as a streaming query with one "
             "transaction a batch; or with its snapshots in Spark's state.")  # fmt: skip
@option("--cluster", type=click.IntRange(min=1, max=8), default=None, metavar="N",
        help="Level spark on a standalone cluster of N workers (127.0.0.1, .2, ...), started for this "
             "command.")  # fmt: skip
@option("--master", default=None, metavar="spark://HOST:PORT",
        help="Level spark on your own standalone cluster, on this machine.")  # fmt: skip
@option("--sut", default=None, metavar="NAME|MODULE:ATTR", shell_complete=sut_names,
        help="The system under test; your own function: `async def lookup(record, pool)`.  "
             "[default: reference; a saved find: its own]")  # fmt: skip
@expected_option
@mutant_option
@runs_option
@lanes_option
@fail_on_option
@option("--set", "settings", multiple=True, metavar="KEY=VALUE",
        help="Set a field of the scenario: workload.records=100, faults.spike.delay=50ms.")  # fmt: skip
@tag_option
@baseline_option
@open_option
@on_option(
    "Level sim: send the runs to Spark's executors: local[N], local-cluster[N,C,MB] or spark://HOST:PORT."
)
@own_files_options
@run_options
def run(scenarios: tuple[str, ...], **asked: Any) -> int:
    """Run SCENARIOs: files, folders, or names from the catalogue (`floodmark list scenarios`); `all` is the catalogue.

    With --tag and no SCENARIO, all of the catalogue with that tag. A saved find runs as its file says, whatever the
    environment and pyproject.toml say; an option of the command line that differs is named in the first line.

    Exit code: 0 all hold, 1 a violation or a crossed threshold (with --fail-on pitfall: or a pitfall), 2 interrupted,
    4 bad usage or scenario, 5 nothing ran, 10 unknown or vacuous, or no run of a saved find shows what its file says,
    11 the environment failed.
    """
    from harness.cli.run_campaign import run_campaign
    from harness.engine.campaign import few_of
    from harness.scenario.catalogue import resolve
    from harness.scenario.file import apply_settings, load_many
    from harness.scenario.settings import with_asked_files
    from harness.system.choices import fresh_seed
    from harness.system.errors import Exit
    from harness.testing.running import check_expected

    scenarios = scenarios or _catalogue_with(asked["tags"])
    found = list(zip(resolve(scenarios), load_many(scenarios), strict=True))
    if all(scenario.shows is not None for _, scenario in found):
        asked = given(asked, _WHERE)
    asked["level"] = asked["level"] or "live"
    selected = _selected(found, scenarios, asked["tags"], asked["level"])
    fresh = fresh_seed()
    each = [_with_saved(scenario, asked, fresh_seed=fresh) for _, scenario in selected]
    loaded = [
        apply_settings(
            with_asked_files(
                scenario,
                schema=one["own_schema"],
                data=one["own_data"],
                records=one["own_records"],
                sql=one["sql"],
            ),
            one["settings"],
        )
        for (_, scenario), one in zip(selected, each, strict=True)
    ]
    refuse_no_world(asked["level"], asked["world"])
    _refuse_runner(asked["runner"], asked["level"])
    _refuse_cluster(asked)
    refuse_on_at(asked["level"], asked["on"])
    for scenario in loaded:
        _tell_ignored(scenario, asked["level"])
    for one in each:
        check_sut(one["sut"], one["mutant"], one["level"], one["runner"])
        check_expected(one["expected"], one["sut"])
    orders = [
        order
        for (file, _), scenario, one in zip(selected, loaded, each, strict=True)
        for order in _orders(scenario, file, one)
    ]
    title = few_of([scenario.scenario for scenario in loaded])
    asked["baseline"] = earlier_report(asked["baseline"])
    finished = run_campaign(orders, title=title, **{name: asked[name] for name in (*CAMPAIGN, "on")})
    shown = [_tell_shown(scenario, finished, aside=asked["form"] != "pretty") for scenario in loaded]
    return finished.exit_code if all(shown) else finished.exit_code or Exit.UNDECIDED


def _catalogue_with(tags: Sequence[str]) -> tuple[str, ...]:
    """What runs without a SCENARIO. Raises UsageError without a tag, so that nobody runs the catalogue by mistake."""
    from harness.system.errors import UsageError

    if not tags:
        message = "no scenario is named"
        raise UsageError(
            message, fix="name one of `floodmark list scenarios`, a file of yours, or give `all` or a --tag"
        )
    return ("all",)


def given(asked: Mapping[str, object], otherwise: Mapping[str, object]) -> Json:
    """`asked`, but options that the command line does not give are as `otherwise` has them."""
    typed = click.get_current_context().get_parameter_source
    return {
        **asked,
        **{name: at for name, at in otherwise.items() if typed(name) is not ParameterSource.COMMANDLINE},
    }


def _tell_shown(scenario: Scenario, finished: Finished, *, aside: bool) -> bool:
    """Tells in how many runs a saved find showed its violation; whether in any. `aside`: on standard error."""
    from harness.explore.find import not_shown

    shows = scenario.shows
    if shows is None:
        return True
    mine = [tally for tally in finished.tallies if tally.scenario == scenario.scenario]
    shown = sum(tally.violations.get((shows.invariant, shows.kind), 0) for tally in mine)
    click.echo(
        f"shown    {shows.invariant} {shows.kind} in {shown} of {sum(t.runs for t in mine)} runs", err=aside
    )
    if not shown:
        click.echo(f"floodmark: {not_shown(scenario, [])}", err=True)
    return shown > 0


def _tell_ignored(scenario: Scenario, level: str) -> None:
    """A sentence on the saved choices that this level cannot repeat."""
    choices = scenario.choices
    if choices is None or level == "sim":
        return
    ignored = [
        name for name, is_there in (("order", choices.order != "drawn"), ("calls", choices.calls)) if is_there
    ]
    if ignored:
        named = " and ".join(f"`choices.{name}`" for name in ignored)
        sentence = f"{named} is for virtual time, and level {level} has a schedule of its own; the seed holds"
        click.echo(f"floodmark: {scenario.scenario}: {sentence}", err=True)


def _with_saved(scenario: Scenario, asked: Mapping[str, Any], *, fresh_seed: int) -> Json:
    """The options for one scenario; for a saved find what its file says, beside what the command line gives."""
    options = dict(asked)
    if scenario.shows is not None:
        from harness.explore.find import options_of_find

        options = given(asked, _WHAT)
        named = {
            "settings": "--set",
            "own_schema": "--schema",
            "own_data": "--data",
            "own_records": "--records",
            "sql": "--sql",
        }
        changes = [option for name, option in named.items() if options[name]]
        mine = {name: options[name] for name in ("sut", "mutant", "expected", "seed")}
        saved, differs = options_of_find(scenario, **mine, changes=changes)
        options |= saved
        if differs:
            click.echo(f"floodmark: {differs}", err=asked["form"] != "pretty")
    if options["seed"] is None:
        options["seed"] = fresh_seed if scenario.choices is None else scenario.choices.seed
    return {**options, "sut": options["sut"] or "reference"}


def _selected(
    found: Iterable[tuple[Path, Scenario]], names: Sequence[str], tags: Sequence[str], level: str
) -> list[tuple[Path, Scenario]]:
    """The scenarios with all `tags`; names those from folders or `all` that do not run at `level`, and leaves them out.

    Raises NothingRan if none is left.
    """
    from harness.scenario.catalogue import catalogue
    from harness.system.errors import NothingRan

    one_by_one = {str(name) for name in names if name in catalogue() or Path(name).is_file()}
    tagged = [(file, scenario) for file, scenario in found if set(tags) <= set(scenario.tags)]
    elsewhere = [
        (file, scenario)
        for file, scenario in tagged
        if not (level in scenario.levels and all(level in fault.levels for fault in scenario.faults))
        and not {scenario.scenario, str(file)} & one_by_one
    ]
    if elsewhere:
        told = ", ".join(scenario.scenario for _, scenario in elsewhere)
        click.echo(f"floodmark: left out, because they do not run at level {level}: {told}", err=True)
    chosen = [pair for pair in tagged if pair not in elsewhere]
    if not chosen:
        wanted = f" with tag {' and '.join(tags)}" if tags else ""
        raise NothingRan(
            f"none of the named scenarios{wanted} runs at level {level}", fix="floodmark list scenarios"
        )
    return chosen


def _refuse_runner(runner: str, level: str) -> None:
    """Raises UsageError if a runner of Spark is asked for at another level."""
    from harness.system.errors import UsageError

    if runner != "continuous" and level != "spark":
        message = f"--runner {runner} is a way to run the operator in Spark, and --level is {level}"
        raise UsageError(message, fix=f"add --level spark, or leave --runner {runner} out")


def _refuse_cluster(asked: dict[str, Any]) -> None:
    """Raises UsageError if a cluster is asked for that cannot be used."""
    from harness.system.errors import UsageError

    named = [f"--{name}" for name in ("cluster", "master") if asked[name]]
    if len(named) > 1:
        raise UsageError(
            "--cluster starts a cluster, and --master names another", fix="leave one of the two out"
        )
    if named and asked["level"] != "spark":
        message = f"{named[0]} is for level spark, and --level is {asked['level']}"
        raise UsageError(message, fix=f"add --level spark, or leave {named[0]} out")
    if named and (asked["jobs"] or 1) > 1:
        message = f"runs on one cluster are made one after the other, and --jobs is {asked['jobs']}"
        raise UsageError(message, fix="leave --jobs out")


def check_sut(sut: str, mutant: str | None, level: str, runner: str) -> None:
    """Checks `--sut` and `--mutant` before a world is opened."""
    from harness.sut.defects import find_defect
    from harness.sut.registry import REFERENCE, load_lookup, refuse_hidden
    from harness.sut.user_code import add_current_folder
    from harness.system.errors import UsageError

    add_current_folder()
    load_lookup(sut)
    refuse_hidden(sut)
    if mutant is not None:
        planted = find_defect(mutant)
        if not planted.shows_in_a_run:
            message = f"--mutant {mutant} is a defect of the recorder or of a checker: no run shows it"
            raise UsageError(message, fix=f"floodmark mutants --mutant {mutant}")
        if planted.runner not in {None, runner}:
            message = f"--mutant {mutant} is a defect of runner {planted.runner}, and --runner is {runner}"
            raise UsageError(message, fix=f"add --runner {planted.runner}")
        if level not in planted.levels:
            message = f"--mutant {mutant} shows at level sim only"
            raise UsageError(message, fix="add --level sim, or choose another: floodmark list mutants")
        if sut != REFERENCE:
            message = f"--mutant {mutant} is a variant of the reference, not of {sut}"
            raise UsageError(message, fix="leave one of the two out")


def _orders(scenario: Scenario, file: Path, asked: dict[str, Any]) -> Iterator[Order]:
    """One order for each run, with consecutive seeds."""
    import shlex

    from harness.scenario.catalogue import catalogue
    from harness.scenario.order import Order
    from harness.sut.user_code import import_path

    name = file.stem if catalogue().get(file.stem) == file else str(file)
    words = ["floodmark", "run", name, "--level", asked["level"]]
    words += [] if asked["runner"] == "continuous" else ["--runner", asked["runner"]]
    for which in ("cluster", "master"):
        words += [f"--{which}", str(asked[which])] if asked[which] else []
    words += [] if asked["level"] == "sim" else ["--world", asked["world"], "--proxy", asked["proxy"]]
    more = []
    if asked["sut"] != "reference":
        more += ["--sut", asked["sut"]]
    if asked["expected"]:
        more += ["--expected", asked["expected"]]
    if asked["mutant"]:
        more += ["--mutant", asked["mutant"]]
    more += own_files_words(asked)
    for setting in asked["settings"]:
        more += ["--set", setting]
    if asked["fail_on"]:
        more += ["--fail-on", asked["fail_on"]]
    for number in range(asked["seed"], asked["seed"] + asked["runs"]):
        yield Order(
            scenario=scenario,
            level=asked["level"],
            seed=number,
            sut=asked["sut"],
            runner=asked["runner"],
            cluster=asked["cluster"] or 0,
            master=asked["master"] or "",
            expected=asked["expected"],
            mutant=asked["mutant"],
            import_path=import_path(),
            again=shlex.join([*words, "--seed", str(number), *more]),
            fails_on_pitfall=asked["fail_on"] == "pitfall",
        )
