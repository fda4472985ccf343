"""Kills executors, drivers and hosts of a Spark cluster, wakes zombies and lets copies race, many times on one cluster.

`python -m tools.trials.cluster_trial --runs 30` prints a table. Answers to Jepsen's long runs of a nemesis. Invariants:
moments and victims are drawn from the seed; after each run the table is read by plain SQL, apart from every checker; a
run whose fault has left no evidence counts as vacuous, never as good; at the end nothing is left running.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from harness.engine.in_world import record_in_world
from harness.engine.level import RunSite
from harness.engine.perform import perform
from harness.history.verdict import Outcome
from harness.levels.spark.cluster_run import open_cluster_runner
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.system.choices import fresh_seed
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import FloodmarkError
from harness.system.process_identity import marked_processes
from harness.tests.table_seen import TableSeen
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world

SCENARIOS: Final = ("executor-lost", "driver-lost", "host-lost", "executor-zombie", "speculated")
_END_S: Final = 5.0
_RUNS: Final = {"speculated": 10}
_MARK: Final = "FLOODMARK_CLUSTER_TRIAL"
"""In the environment of everything that a trial starts."""


@dataclass(slots=True, kw_only=True)
class _Row:
    """The runs of one scenario. Mutable: counts."""

    runs: int = 0
    passed: int = 0
    bitten: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    restart_ms: list[float] = field(default_factory=list)
    refused: int = 0
    """Runs in which a replaced attempt tried to commit, and was refused."""
    others: list[str] = field(default_factory=list)

    def take(self, outcome: RunOutcome, table: TableSeen) -> None:
        self.runs += 1
        self.passed += outcome.judgement.outcome is Outcome.PASS
        self.bitten += all(fault.bites for fault in outcome.faults)
        self.lost, self.doubled = self.lost + table.lost, self.doubled + table.doubled
        self.reordered += table.reordered
        evidence = outcome.faults[0].evidence if outcome.faults[0].times else {}
        if "restart_ms" in evidence:
            self.restart_ms.append(evidence["restart_ms"])
        self.refused += "refused" in str(evidence)
        if outcome.judgement.outcome is not Outcome.PASS:
            self.others.append(f"{outcome.run_id}: {outcome.judgement.outcome}: {outcome.error or ''}")

    def cells(self, name: str) -> str:
        waits = sorted(self.restart_ms)
        restart = (
            f"{waits[len(waits) // 2] / 1000:.1f} ({waits[0] / 1000:.1f} to {waits[-1] / 1000:.1f})"
            if waits
            else "-"
        )
        numbers = (self.runs, self.passed, self.bitten, self.lost, self.doubled, self.reordered, self.refused)
        return f"| {name} | {' | '.join(map(str, numbers))} | {restart} |"


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=30, show_default=True)
@click.option("--minutes", type=float, default=24 * 60.0, help="After so long no further run is started.")
@click.option("--workers", type=click.IntRange(min=2), default=2, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--scenario", "names", multiple=True, type=click.Choice(SCENARIOS))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE")
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    default=None,
    help="A folder for logs and raw events that stays.",
)
def main(
    runs: int,
    minutes: float,
    workers: int,
    seed: int,
    names: tuple[str, ...],
    settings: tuple[str, ...],
    logs: Path | None,
) -> None:
    """Prints a row for each scenario, and what is left running."""
    os.environ[_MARK] = mark = str(fresh_seed())  # noqa: TID251 - so that everything that is started has it
    rows: dict[str, _Row] = {}
    with ExitStack() as stack:
        folder = logs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        play = _opened(stack, workers=workers, folder=folder / "spark")
        limit = Deadline(60 * minutes)
        chosen = {name: apply_settings(load(catalogue()[name]), settings) for name in names or SCENARIOS}
        rows = {name: _Row() for name in chosen}
        for number in range(runs):  # in turn, so that a short trial has tried each
            for name, scenario in chosen.items():
                if not limit.passed and number < _RUNS.get(name, runs):
                    _one(play, scenario, seed=seed + number, workers=workers, folder=folder, row=rows[name])
    wait_until(lambda: not marked_processes(f"{_MARK}={mark}"), deadline=Deadline(_END_S))
    _print(rows, left=[who.pid for who in marked_processes(f"{_MARK}={mark}")])


def _opened(stack: ExitStack, *, workers: int, folder: Path) -> Any:
    """A world and a cluster for all runs; makes a run of an order."""
    world = stack.enter_context(
        open_world(
            "local",
            announce=lambda text: click.echo(text, err=True),
            proxy="auto",
            needs=frozenset(),
            offline=True,
            settings=WorldSettings.from_environment(),
        )
    )
    first = Order(scenario=load(catalogue()[SCENARIOS[0]]), level="spark", seed=1, cluster=workers)
    runner = stack.enter_context(open_cluster_runner(first, folder=folder, note_process=lambda pid: None))

    def play(order: Order, *, table: TableSeen, folder: Path, run_id: str) -> RunOutcome:
        site = RunSite(run_id=run_id, folder=folder, world=world)
        return perform(order, play=partial(record_in_world, runner=runner, inspect=table.read), site=site)

    return play


def _one(play: Any, scenario: Scenario, *, seed: int, workers: int, folder: Path, row: _Row) -> None:
    table = TableSeen(scenario=scenario, seed=seed)
    order = Order(scenario=scenario, level="spark", seed=seed, cluster=workers)
    began_us, run_id = monotonic_us(), f"{scenario.scenario}-{seed}"
    home = folder / run_id
    home.mkdir(parents=True)
    try:
        outcome = play(order, table=table, folder=home, run_id=run_id)
    except FloodmarkError as error:
        row.runs += 1
        row.others.append(f"{run_id}: {error}")
        click.echo(f"{run_id}: {error}", err=True)
        return
    row.take(outcome, table)
    took_s = (monotonic_us() - began_us) / 1e6
    shown = f"lost {table.lost} doubled {table.doubled} reordered {table.reordered} of {table.rows} rows"
    evidence: Mapping[str, Any] = outcome.faults[0].evidence if outcome.faults[0].times else {}
    click.echo(
        f"{scenario.scenario} seed {seed}: {outcome.judgement.outcome}, {shown}, {took_s:.1f} s, {dict(evidence)}",
        err=True,
    )


def _print(rows: Mapping[str, _Row], *, left: Sequence[int]) -> None:
    click.echo(
        "| scenario | runs | pass | with evidence | lost | doubled | reordered | late commit refused | restart, s |"
    )
    click.echo("|---|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        click.echo(row.cells(name))
    for name, row in rows.items():
        for other in row.others:
            click.echo(f"{name}, {other}")
    click.echo(f"left running: {', '.join(map(str, left)) or 'nothing'}")
    bad = any(row.lost or row.doubled or row.reordered or row.others for row in rows.values())
    sys.exit(1 if bad or left else 0)


if __name__ == "__main__":
    main()
