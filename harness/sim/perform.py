"""One simulated run, judged: what `harness.engine.perform` is at the other levels, without a world.

Invariant: a run that was given up, or whose recording has gaps, is never better than `unknown`; what is stored is
what was judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from harness.checkers.judge import judge
from harness.clock import monotonic_us, utc_now
from harness.history.event import Effect, Event, FaultEvent
from harness.history.write import write
from harness.runs.order import Order
from harness.runs.outcome import FaultRecord, FaultTime, RunOutcome, WorldDescription
from harness.sim.fault_schedule import Noted
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
        faults=_faults(order, simulated),
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


def _faults(order: Order, simulated: Simulated) -> tuple[FaultRecord, ...]:
    """What was planned, when it acted, and what it left."""
    acted = [event for event in simulated.events if isinstance(event, FaultEvent)]
    return tuple(
        FaultRecord(
            id=fault.id,
            kind=fault.do,
            plan=fault.model_dump(mode="json", by_alias=True, exclude_none=True),
            times=_times(
                [event for event in acted if event.f == fault.id], simulated.noted.get(fault.id, ())
            ),
        )
        for fault in order.scenario.faults
    )


def _times(acted: Sequence[FaultEvent], noted: Sequence[Noted]) -> tuple[FaultTime, ...]:
    """Each beginning with its end; what an attempt did to itself has no more than these."""
    begins = [event.t for event in acted if event.phase == "begin"]
    ends = [event for event in acted if event.phase == "end"]
    return tuple(
        FaultTime(
            planned_us=note.planned_us if note else None,
            armed_us=begun_us,
            measured_us=note.measured_us if note else None,
            healed_us=end.t if end else None,
            evidence=end.evidence if end and isinstance(end.evidence, dict) else {},
        )
        for begun_us, end, note in zip_longest(begins, ends, noted)
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
