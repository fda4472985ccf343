"""The catalogue at level sim with the pool and with real clients: their verdicts side by side.

`python -m tools.trials.clients_trial --jobs 2 --write docs/reference/own-clients.md` writes the page; needs a database
server. Invariant: a verdict that differs from the pool's is in the page with what it found.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from harness.engine.run_counts import Counted, count, unbroken
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.file import load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.system.errors import Exit

CLIENTS: Final = {
    "pool": "tools.trials.lookups.clients:by_pool",
    "asyncmy": "tools.trials.lookups.clients:ByAsyncmy",
    "aiomysql": "tools.trials.lookups.clients:ByAiomysql",
}
_OPENING: Final = """\
# Own clients in the catalogue

Made by `python -m tools.trials.clients_trial --write docs/reference/own-clients.md`; do not edit.

One lookup with three clients, which asks again after a loss, in each scenario of level sim with seed {seed}: the pool,
whose SQL SQLite answers, and [two drivers](../how-to/own-driver.md#at-level-sim), which a real server answers.
`vacuous`: the fault does not touch such a lookup.

The drivers' pools have 20 connections. `circuit-closes-again` sends 60 calls a second of 2 s each, so with such a pool
it fails at level live too; Floodmark's pool has the 120 that the scenario names.
"""


def verdicts(scenarios: Sequence[Scenario], sut: str, *, seed: int, jobs: int) -> list[Counted]:
    """One run of each scenario."""
    orders = [Order(scenario=scenario, level="sim", seed=seed, sut=sut) for scenario in scenarios]
    return list(unbroken(count(orders, SimulatedLevel(), jobs=jobs)))


def said(run: Counted) -> str:
    """The verdict, with what was found if it is no pass."""
    found = ", ".join(f"{invariant} {kind}" for invariant, kind in run.violations)
    return f"{run.verdict} ({found})" if found else str(run.verdict)


def page_text(scenarios: Sequence[Scenario], runs: dict[str, list[Counted]], *, seed: int) -> str:
    """The page `docs/reference/own-clients.md`."""
    rows = [f"| scenario | {' | '.join(runs)} |", f"| {' | '.join(['---'] * (1 + len(runs)))} |"]
    for place, scenario in enumerate(scenarios):
        rows.append(f"| {scenario.scenario} | {' | '.join(said(of[place]) for of in runs.values())} |")
    return _OPENING.format(seed=seed) + "\n" + "\n".join(rows) + "\n"


def differing(scenarios: Sequence[Scenario], runs: dict[str, list[Counted]]) -> list[str]:
    """The scenarios in which a client's verdict is not the pool's."""
    pool = runs["pool"]
    return [
        scenario.scenario
        for place, scenario in enumerate(scenarios)
        if any(of[place].verdict is not pool[place].verdict for of in runs.values())
    ]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--write", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to it."
)
def main(names: tuple[str, ...], seed: int, jobs: int, page: Path | None) -> None:
    """Run the scenarios NAMES (default: all that level sim has) with each client."""
    scenarios = [scenario for scenario in load_many(names or ["all"]) if "sim" in scenario.levels]
    runs = {name: verdicts(scenarios, sut, seed=seed, jobs=jobs) for name, sut in CLIENTS.items()}
    text = page_text(scenarios, runs, seed=seed)
    if page is not None:
        page.write_text(text, encoding="utf-8")
    click.echo(text)
    others = differing(scenarios, runs)
    click.echo(f"{len(scenarios) - len(others)} of {len(scenarios)} verdicts are those of the pool")
    if others:
        click.echo(f"not in: {', '.join(others)}")
    sys.exit(Exit.HOLD)


if __name__ == "__main__":
    main()
