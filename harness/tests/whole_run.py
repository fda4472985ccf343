"""A whole run at a real level for tests, in a folder of its own, and what a failing assertion should show of it.

Invariant: a run whose faults found nothing to meet is drawn again, `DRAWS` times at most; any other verdict stands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from harness.database.endpoint import Endpoint
from harness.database.table_editor import TableEditor
from harness.engine.in_world import record_in_world
from harness.engine.level import LevelRunner, Observer, RunSite, Stop
from harness.engine.perform import perform
from harness.history.verdict import Outcome
from harness.levels.live.fork_server import ForkServer
from harness.levels.live.supervisor import LiveRunner
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.system.levels import Level
from harness.world.world import World

DRAWS = 3
"""As often as `--floodmark-repeat=2` lets a scenario file run (docs/decisions/0038)."""

_numbers = count(1)
_server = ForkServer()
"""Forks the workers of all whole runs of this process; it ends when this process does."""


def whole_run(
    scenario: Scenario,
    *,
    world: World,
    within: Path,
    level: Level = "live",
    performer: LevelRunner | None = None,
    draws: int = DRAWS,
    seed: int = 7,
    observer: Observer | None = None,
    stop: Stop | None = None,
    limit_s: float | None = None,
    inspect: Callable[[Endpoint], None] = lambda root: None,
    before_reading: Callable[[TableEditor], None] | None = None,
    **order: Any,
) -> RunOutcome:
    """Perform it, by default by workers of level `live`; what it records is left in a new folder `within`.

    `draws`: 1 where a vacuous run is meant, or where `inspect` adds up what it finds.
    """
    runner = performer or LiveRunner(_server, note_process=world.enrol)
    for _ in range(draws):
        run_id = f"test-{next(_numbers):03d}"
        folder = within / run_id
        folder.mkdir()
        outcome = perform(
            Order(scenario=scenario, level=level, seed=seed, **order),
            play=partial(record_in_world, runner=runner, inspect=inspect),
            site=RunSite(
                run_id=run_id,
                folder=folder,
                world=world,
                observer=observer or Observer(),
                stop=stop or Stop(),
                limit_s=limit_s,
                before_reading=before_reading,
            ),
        )
        if outcome.judgement.outcome is not Outcome.VACUOUS or outcome.error is not None:
            break
    return outcome


def links_are_free(world: World) -> bool:
    """Whether nothing acts on a link any more."""
    return all(world.proxy.toxics(link) == [] and world.proxy.enabled(link) for link in world.links)


def told(outcome: RunOutcome) -> str:
    """What a failing assertion should show."""
    verdicts = [
        (str(verdict.invariant), str(verdict.outcome), verdict.why, verdict.anomalies[:1])
        for verdict in outcome.judgement.invariants
        if str(verdict.outcome) not in {"pass", "not-claimed"}
    ]
    return f"{outcome.judgement.outcome} {verdicts} {outcome.faults} {outcome.accounting} {outcome.error}"
