"""A whole run at level `sim` for tests: its verdict alone, and nothing written."""

from __future__ import annotations

from pathlib import Path

from harness.engine.level import Opening, Site
from harness.engine.perform import judged
from harness.levels.sim.level import SimulatedLevel
from harness.runs.order import Order
from harness.sim.variant import Variant
from harness.verdict import Judgement

__all__ = ["verdict_on"]


def verdict_on(order: Order, *, variant: Variant | None = None) -> Judgement:
    """The judgement of `order`, with `variant` in the place of what its mutant names."""
    with SimulatedLevel(variant=variant).open(Opening()) as play:
        return judged(play(order, Site(run_id="test", folder=Path())))
