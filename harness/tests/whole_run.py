"""A whole run at level `live` for tests, in a folder of its own, and what a failing assertion should show of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from harness.database.endpoint import Endpoint
from harness.database.table_hand import TableHand
from harness.engine.in_world import record_in_world
from harness.engine.level import Observer, RunSite, Stop
from harness.engine.perform import perform
from harness.levels.live.fork_server import ForkServer
from harness.levels.live.supervisor import LiveRunner
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.world.world import World

__all__ = ["links_are_free", "told", "whole_run"]

_numbers = count(1)
_server = ForkServer()
"""Forks the workers of all whole runs of this process; it ends when this process does."""


def whole_run(
    scenario: Scenario,
    *,
    world: World,
    within: Path,
    seed: int = 7,
    observer: Observer | None = None,
    stop: Stop | None = None,
    limit_s: float | None = None,
    inspect: Callable[[Endpoint], None] = lambda root: None,
    before_reading: Callable[[TableHand], None] | None = None,
    **order: Any,
) -> RunOutcome:
    """Perform it; what it records is left in a new folder `within`."""
    run_id = f"test-{next(_numbers):03d}"
    folder = within / run_id
    folder.mkdir()
    return perform(
        Order(scenario=scenario, level="live", seed=seed, **order),
        play=partial(record_in_world, runner=LiveRunner(_server, note_process=world.enrol), inspect=inspect),
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
