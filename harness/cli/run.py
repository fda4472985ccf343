"""`floodmark run SCENARIO...`: run scenarios, judge them, write a report.

Invariant: everything that can be wrong with what was asked for is said before anything is started.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import run_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.run import Order
    from harness.scenario import Scenario

__all__ = ["run"]


@click.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--level", envvar="FLOODMARK_LEVEL", type=click.Choice(["live", "spark"]), default="live",
              show_default=True, help="live: one plain process a subtask; spark: PySpark tasks.")  # fmt: skip
@click.option("--sut", envvar="FLOODMARK_SUT", default="reference", show_default=True, metavar="NAME|MODULE:ATTR",
              help="The lookup under test; your own: an `async def lookup(record, pool)`.")  # fmt: skip
@click.option("--mutant", envvar="FLOODMARK_MUTANT", default=None, metavar="NAME",
              help="A planted defect; see `floodmark list mutants`.")  # fmt: skip
@click.option("--runs", envvar="FLOODMARK_RUNS", type=click.IntRange(min=1), default=1, show_default=True,
              help="Of each scenario, with the seeds that follow the first.")  # fmt: skip
@click.option("--jobs", envvar="FLOODMARK_JOBS", type=click.IntRange(min=1), default=1, show_default=True,
              help="Runs at a time, each with a world of its own.")  # fmt: skip
@click.option("--set", "settings", envvar="FLOODMARK_SET", multiple=True, metavar="KEY=VALUE",
              help="Any field of the scenario: workload.records=100, faults.spike.delay=50ms.")  # fmt: skip
@run_options
def run(scenarios: tuple[str, ...], *, settings: tuple[str, ...], **asked: Any) -> int:
    """Run SCENARIOs: files, folders, or names from the catalogue (`floodmark list scenarios`); `all` is all.

    Exit code: 0 all hold, 1 a violation, 2 interrupted, 4 bad usage or scenario, 5 nothing ran,
    10 unknown or vacuous, 11 the environment failed.
    """
    from harness.catalogue import resolve
    from harness.choices import fresh_seed
    from harness.cli.campaigning import go
    from harness.scenario_file import apply_settings, load_many

    files = resolve(scenarios)
    loaded = [apply_settings(scenario, settings) for scenario in load_many(scenarios)]
    _check_level(loaded, asked["level"])
    _check_sut(asked["sut"], asked["mutant"])
    seed = asked["seed"] if asked["seed"] is not None else fresh_seed()
    orders = [
        _order(scenario, file, seed + turn, settings, asked)
        for file, scenario in zip(files, loaded, strict=True)
        for turn in range(asked["runs"])
    ]
    title = ", ".join(scenario.scenario for scenario in loaded)
    return go(orders, title=title, **_campaign_options(asked)).exit_code


def _campaign_options(asked: dict[str, Any]) -> dict[str, Any]:
    names = ("world", "jobs", "report", "keep", "budget", "offline", "form", "quiet", "verbose", "no_color")
    return {name: asked[name] for name in names}


def _check_level(scenarios: Sequence[Scenario], level: str) -> None:
    from harness.errors import UsageError

    for scenario in scenarios:
        if level not in scenario.levels:
            message = f"scenario {scenario.scenario} does not run at level {level}"
            raise UsageError(message, fix=f"choose --level {' or '.join(scenario.levels)}")


def _check_sut(sut: str, mutant: str | None) -> None:
    """Load both now: a name that does not exist must not cost a world."""
    import sys

    from harness.errors import UsageError
    from harness.sut.mutants import find_mutant
    from harness.sut.registry import REFERENCE, load_lookup

    sys.path.insert(0, str(Path.cwd()))
    load_lookup(sut)
    if mutant is not None:
        find_mutant(mutant)
        if sut != REFERENCE:
            message = f"--mutant {mutant} is a variant of the reference, not of {sut}"
            raise UsageError(message, fix="leave one of the two out")


def _order(
    scenario: Scenario, file: Path, seed: int, settings: Sequence[str], asked: dict[str, Any]
) -> Order:
    from harness.run import Order

    return Order(
        scenario=scenario,
        level=asked["level"],
        seed=seed,
        sut=asked["sut"],
        mutant=asked["mutant"],
        import_path=(str(Path.cwd()),),
        again=_again(file, seed, settings, asked),
    )


def _again(file: Path, seed: int, settings: Sequence[str], asked: dict[str, Any]) -> str:
    """The command line that runs exactly this again: a name finds only what is in the catalogue."""
    import shlex

    from harness.catalogue import catalogue

    scenario = file.stem if catalogue().get(file.stem) == file else str(file)
    words = ["floodmark", "run", scenario, "--level", asked["level"], "--world", asked["world"]]
    words += ["--seed", str(seed)]
    if asked["sut"] != "reference":
        words += ["--sut", asked["sut"]]
    if asked["mutant"]:
        words += ["--mutant", asked["mutant"]]
    for setting in settings:
        words += ["--set", setting]
    return shlex.join(words)
