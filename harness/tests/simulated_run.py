"""A whole run at level `sim` for tests: its verdict alone, and nothing written."""

from __future__ import annotations

from pathlib import Path

from harness.engine.level import Opening, RunRecord, RunSite
from harness.engine.perform import judged
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge
from harness.levels.sim.level import SIMULATED_WORLD, SimulatedLevel
from harness.levels.sim.run import Simulated
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant


def verdict_on(order: Order, *, variant: Variant | None = None) -> Judgement:
    """The judgement of `order`, with `variant` in the place of what its mutant names."""
    with SimulatedLevel(variant=variant).open(Opening()) as play:
        return judged(play(order, RunSite(run_id="test", folder=Path())))


def judgement_of(ran: Simulated, *, variant: Variant = HONEST) -> Judgement:
    """The judgement of a run that a test has made, and looks into."""
    return judged(
        RunRecord(
            header=ran.header,
            events=ran.events,
            whole=ran.whole,
            error=ran.error,
            ran_us=0,
            world=SIMULATED_WORLD,
            faults=(),
            accounting={},
            judge=variant.judge(judge),
        )
    )
