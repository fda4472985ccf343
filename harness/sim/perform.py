"""One simulated run, judged: what `harness.run.perform` is at the other levels, without a world.

Invariant: a run that was given up, or whose recording has gaps, is never better than `unknown`; what is stored is
what was judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.checkers.judge import judge
from harness.clock import monotonic_us, utc_now
from harness.history.event import Effect, Event, FaultEvent
from harness.history.write import write
from harness.order import Order
from harness.outcome import FaultRecord, RunOutcome, WorldDescription
from harness.sim.scenario_run import Simulated, simulate_scenario
from harness.sim.variant import HONEST, Variant
from harness.verdict import Judgement, Outcome, worst
from harness.versions import versions

__all__ = ["SIMULATED_WORLD", "judged", "perform"]

SIMULATED_WORLD = WorldDescription(
    kind="simulated",
    why="--level sim needs no other",
    server="simulated database",
    proxy="simulated proxy",
    ready_s=0.0,
)


def judged(
    simulated: Simulated, *, variant: Variant = HONEST, among: Callable[..., Judgement] = judge
) -> Judgement:
    """The verdict on a simulated run."""
    verdict: Judgement = variant.judge(among)(simulated.header, simulated.events)
    whole = simulated.error is None and simulated.numbered == len(simulated.events)
    return verdict if whole else replace(verdict, outcome=worst([verdict.outcome, Outcome.UNKNOWN]))


def perform(
    order: Order, *, run_id: str, folder: Path, variant: Variant = HONEST, convicts: tuple[str, ...] = ()
) -> RunOutcome:
    """Run `order`, write its history to `folder`, judge it."""
    started_at, began_us = utc_now().isoformat(timespec="seconds"), monotonic_us()
    simulated = simulate_scenario(order, variant=variant)
    ran_us = monotonic_us()
    folder.mkdir(parents=True)
    history = folder / "history.jsonl"
    write(history, simulated.header, simulated.events)
    judgement = judged(simulated, variant=variant)
    judged_us = monotonic_us()
    scenario, lost = order.scenario, simulated.numbered - len(simulated.events)
    return RunOutcome(
        run_id=run_id,
        scenario=scenario.scenario,
        about=scenario.about,
        plan=scenario.model_dump(mode="json", by_alias=True),
        level="sim",
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        convicts=convicts,
        world=SIMULATED_WORLD,
        judgement=judgement,
        faults=_faults(order, simulated.events),
        history=history,
        started_at=started_at,
        duration_s=(judged_us - began_us) / 1e6,
        phases_s={"run": (ran_us - began_us) / 1e6, "judge": (judged_us - ran_us) / 1e6},
        accounting=_counted(order, simulated.events),
        again=order.again,
        versions=versions("sim"),
        threats=(f"the recording has gaps: {lost} events are missing",) if lost else (),
        error=simulated.error,
    )


def _faults(order: Order, events: Sequence[Event]) -> tuple[FaultRecord, ...]:
    """What was planned, when it acted, and what it left."""
    acted = [event for event in events if isinstance(event, FaultEvent)]
    return tuple(
        _fault(fault.id, fault.do, fault.model_dump(mode="json", by_alias=True, exclude_none=True), acted)
        for fault in order.scenario.faults
    )


def _fault(name: str, kind: str, plan: dict[str, Any], acted: Sequence[FaultEvent]) -> FaultRecord:
    begun = next((event for event in acted if event.f == name and event.phase == "begin"), None)
    ended = next((event for event in acted if event.f == name and event.phase == "end"), None)
    evidence = ended.evidence if ended is not None and isinstance(ended.evidence, dict) else {}
    return FaultRecord(
        id=name,
        kind=kind,
        plan=plan,
        armed_us=begun.t if begun else None,
        healed_us=ended.t if ended else None,
        evidence=evidence,
        bites=bool(evidence),
    )


def _counted(order: Order, events: Sequence[Event]) -> dict[str, int]:
    """What the simulated tables hold, counted beside the checkers."""
    workload = order.scenario.workload
    rows = [(event.id, event.j) for event in events if isinstance(event, Effect)]
    offered, records = workload.records * workload.subtasks, len({id_ for id_, _ in rows})
    return {
        "offered": offered,
        "rows": len(rows),
        "records": records,
        "doubled": len(rows) - len(set(rows)),
        "missing": max(0, offered - records),
    }
