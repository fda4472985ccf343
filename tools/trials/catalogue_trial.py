"""Tries the catalogue at level sim: the reference must pass each scenario, and its planted defect must fail.

Answers to Jepsen's self-tests of a workload: a scenario that convicts no defect shows nothing. `python -m
tools.trials.catalogue_trial --write docs/reference/catalogue.md` writes the page. Invariant: a scenario holds
only if every seed of the reference passed and the invariants named for its defect convicted at least one seed
of that defect; a scenario that cannot run at sim is reported as untried, never as passed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from harness.engine.run_counts import Counted, count, unbroken
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.catalogue import catalogue, catalogue_folder
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.system.errors import Exit, worst_code
from tools.defects import mutant_named

_SEEDS: Final = 10
_OPENING: Final = """\
# The catalogue on trial

Made by `python -m tools.trials.catalogue_trial --write docs/reference/catalogue.md`; do not edit.

Each scenario at level sim with {seeds} seeds: the reference, which must pass every one, and the planted defect that
the scenario names, which the invariants named for it must convict at least once. What each does: `floodmark list
scenarios`. The other levels run the same files: `floodmark run NAME --level live`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of one scenario."""

    scenario: Scenario
    folder: str
    passed: int
    """Runs of the reference that passed."""
    convicted: int | None
    """Runs of the scenario's defect that the invariants named for it convicted; None: it has none."""
    seeds: int
    exit_code: Exit
    """As that of `floodmark run` of the reference; an overlooked defect is a violation."""

    @property
    def tried(self) -> bool:
        return "sim" in self.scenario.levels

    @property
    def holds(self) -> bool:
        """Whether the scenario passed its trial; an untried scenario does not fail it."""
        return self.exit_code is Exit.HOLD


def try_catalogue(paths: Sequence[Path], *, seeds: int = _SEEDS, jobs: int = 1) -> list[Trial]:
    """Runs each scenario and its defect with seeds 1 to `seeds`."""
    scenarios = [load(path) for path in paths]
    orders = [order for scenario in scenarios for order in _orders(scenario, seeds)]
    counted = list(unbroken(count(orders, SimulatedLevel(), jobs=jobs)))
    return [
        _trial(scenario, path.parent.name, orders, counted, seeds)
        for scenario, path in zip(scenarios, paths, strict=True)
    ]


def _orders(scenario: Scenario, seeds: int) -> list[Order]:
    if "sim" not in scenario.levels:
        return []
    suspects = dict.fromkeys([None, scenario.mutant and mutant_named(scenario.mutant)])
    return [
        Order(scenario=scenario, level="sim", seed=seed, mutant=mutant)
        for mutant in suspects
        for seed in range(1, seeds + 1)
    ]


def _trial(
    scenario: Scenario, folder: str, orders: Sequence[Order], counted: Sequence[Counted], seeds: int
) -> Trial:
    mine = [run for run in counted if orders[run.order].scenario is scenario]
    passed = sum(run.as_expected for run in mine if orders[run.order].mutant is None)
    convicted = sum(run.as_expected for run in mine if orders[run.order].mutant is not None)
    codes = {run.exit_code() for run in mine if orders[run.order].mutant is None}
    overlooked = scenario.mutant is not None and "sim" in scenario.levels and not convicted
    return Trial(
        exit_code=Exit.VIOLATION if overlooked else worst_code(codes),
        scenario=scenario,
        folder=folder,
        passed=passed,
        convicted=None if scenario.mutant is None else convicted,
        seeds=seeds,
    )


def page_text(trials: Sequence[Trial], *, seeds: int) -> str:
    """The page `docs/reference/catalogue.md`."""
    rows = [
        "| scenario | levels | reference passes | planted defect | convicted |",
        "| --- | --- | --- | --- | --- |",
        *(_row(trial) for trial in trials),
    ]
    return _OPENING.format(seeds=seeds) + "\n" + "\n".join(rows) + "\n"


def _row(trial: Trial) -> str:
    scenario = trial.scenario
    name = f"{trial.folder}/{scenario.scenario}"
    passed = f"{trial.passed} of {trial.seeds}" if trial.tried else "not at sim"
    convicted = "" if trial.convicted is None else f"{trial.convicted} of {trial.seeds}" * trial.tried
    cells = (name, ", ".join(scenario.levels), passed, scenario.mutant or "none", convicted)
    return f"| {' | '.join(cells)} |"


@click.command()
@click.argument("names", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seeds", type=click.IntRange(min=1), default=_SEEDS, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--write", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to it."
)
def main(names: tuple[Path, ...], seeds: int, jobs: int, page: Path | None) -> None:
    """Try the scenario files NAMES (default: the whole catalogue) at level sim."""
    paths = names or _by_folder()
    trials = try_catalogue(paths, seeds=seeds, jobs=jobs)
    text = page_text(trials, seeds=seeds)
    if page is not None:
        page.write_text(text, encoding="utf-8")
    click.echo(text)
    failed = [trial.scenario.scenario for trial in trials if not trial.holds]
    click.echo(f"{len(trials) - len(failed)} of {len(trials)} scenarios hold")
    if failed:
        click.echo(f"not: {', '.join(failed)}", err=True)
    sys.exit(worst_code(trial.exit_code for trial in trials))


def _by_folder() -> tuple[Path, ...]:
    """All catalogue files in the order of `floodmark list scenarios`."""
    folder = catalogue_folder()
    return tuple(sorted(catalogue().values(), key=lambda path: str(path.relative_to(folder))))


if __name__ == "__main__":
    main()
