"""Jobs of `examples` under fire in one world, as `floodmark job` does it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.engine.campaign import carry_out
from harness.engine.level import Observer, Stop
from harness.engine.open_levels import StagePlan
from harness.history.verdict import Outcome
from harness.levels import level_named
from harness.levels.job.job_scenarios import apply_job_settings, load_jobs
from harness.levels.job.order import job_named, job_order
from harness.scenario.outcome import RunOutcome
from harness.tests.real_world import require_world
from harness.world.settings import WorldSettings

__all__ = ["EXAMPLES", "Fire", "convicted", "outcomes"]

EXAMPLES = Path(__file__).parents[1]
SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One job under one scenario; `convicts`: the invariant that the run must breach, or "" for a pass."""

    job: str
    scenario: str
    convicts: str = ""
    settings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.job}-{self.scenario}"


def outcomes(fires: Sequence[Fire], *, report: Path) -> Mapping[Fire, RunOutcome]:
    """Runs them all, one after the other; skips where there is no local world."""
    require_world("local", "own", settings=WorldSettings.from_environment())
    plan = StagePlan(
        run_id="examples", report=report, levels=level_named, world="local", proxy="own", offline=True
    )
    orders = []
    for fire in fires:
        job, named = job_named(EXAMPLES / fire.job)
        ((_, scenario),) = load_jobs([fire.scenario])
        orders.append(
            job_order(
                apply_job_settings(scenario, fire.settings),
                source=fire.scenario,
                job=job,
                named=named,
                seed=SEED,
                environment=os.environ,
                import_path=(str(job.folder),),
            )
        )
    ran = carry_out(orders, plan, observer=Observer(), stop=Stop())
    return dict(zip(fires, ran.outcomes, strict=True))


def convicted(outcome: RunOutcome) -> list[str]:
    """The invariants that the run breaches; the outcome of a run that decides nothing."""
    judgement = outcome.judgement
    breached = [one.invariant for one in judgement.convicted()]
    return breached or ([] if judgement.outcome is Outcome.PASS else [judgement.outcome.value])
