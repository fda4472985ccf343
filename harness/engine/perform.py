"""Performs one run at any level: from the order to the judged history.

Answers to Jepsen's `run!`. Invariant: a run that did not finish, or whose recording has gaps, is never better than
`unknown`; the stored history is the one that was judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from harness.engine.accounting import hold_outside_together, hold_together
from harness.engine.cross_checks import refuse_other_record
from harness.engine.level import OutsideRecord, Play, Ran, RunRecord, RunSite
from harness.history.files import write
from harness.history.verdict import Judgement, Outcome, worst
from harness.judge.checkers.consequences import with_consequences
from harness.judge.explanation.measures import (
    judged_thresholds,
    measures_of,
    measures_of_recovery,
    measures_taken,
)
from harness.scenario.order import AnyOrder, AnyScenario, Order
from harness.scenario.outcome import Measure, PlannedRuns, RunOutcome, Threshold
from harness.scenario.plan import JudgedValues
from harness.system.clock import monotonic_us, utc_now
from harness.system.levels import LEVELS
from harness.system.versions import versions


def judged(record: RunRecord | OutsideRecord) -> Judgement:
    """The verdict; at best `unknown` for a run that did not finish or whose recording has gaps.

    Raises HarnessError if the counts by SQL contradict the history or the verdict.
    """
    if isinstance(record, OutsideRecord):
        verdict = record.judge(record.header, record.events)
        hold_outside_together(record.accounting, record.header, record.events, verdict)
    else:
        verdict = record.judge(record.header, record.events)
        hold_together(record.accounting, record.header, record.events, verdict)
    # A missing line may be the one that shows a violation, so the run cannot pass.
    return verdict if record.whole else replace(verdict, outcome=worst([verdict.outcome, Outcome.UNKNOWN]))


def judged_by_order(order: AnyOrder, record: RunRecord | OutsideRecord) -> Judgement:
    """`judged`, but raises HarnessError if the record's claims, seed or counts are not those of `order`."""
    if isinstance(record, OutsideRecord):
        return judged(record)
    assert isinstance(order, Order), "only a job is seen from outside"
    refuse_other_record(order, record)
    return judged(record)


def convicts_of(order: AnyOrder) -> tuple[str, ...]:
    """The invariants that must detect the planted defect; empty: the run must pass."""
    if order.mutant is None:
        return ()
    from harness.sut.defects import find_defect  # noqa: PLC0415 - most runs plant nothing

    return find_defect(order.mutant).convicted_by


def perform(order: AnyOrder, *, play: Play, site: RunSite) -> RunOutcome:
    """Performs `order` and leaves its history in the site's folder.

    Raises what `play` raises, and HarnessError if the record is not one of the order, or contradicts itself.
    """
    started_at, began_us = utc_now().isoformat(timespec="seconds"), monotonic_us()
    site.folder.mkdir(parents=True, exist_ok=True)
    record = play(order, site)
    history = site.folder / "history.jsonl"
    write(history, record.header, record.events)
    outcome, unnamed = outcome_of(order, record), _unnamed(order.scenario, record)
    judgement = outcome.judgement
    if isinstance(record, RunRecord):
        header, events = record.header, record.events
        judgement = with_consequences(judgement, lambda: (header, events))
    if unnamed:
        judgement = replace(judgement, outcome=worst([judgement.outcome, Outcome.VACUOUS]))
    judged_us = monotonic_us()
    return replace(
        outcome,
        run_id=site.run_id,
        judgement=judgement,
        history=history,
        started_at=started_at,
        duration_s=(judged_us - began_us) / 1e6,
        phases_s={"run": (record.ran_us - began_us) / 1e6, "judge": (judged_us - record.ran_us) / 1e6},
        versions=versions(LEVELS[order.level].packages),
        threats=(*unnamed, *outcome.threats),
        values=_values(record.values, run_s=(judged_us - began_us) / 1e6),
    )


def outcome_of(order: AnyOrder, record: RunRecord | OutsideRecord) -> RunOutcome:
    """The judged outcome, without its time, versions and history."""
    judgement, planned = judged_by_order(order, record), planned_of(order)
    measures = measures_of_run(record, judgement)
    judgement, thresholds = held_to_thresholds(order, judgement, measures)
    return RunOutcome(
        **{field.name: getattr(planned, field.name) for field in fields(planned)},
        run_id="",
        seed=order.seed,
        world=record.world,
        judgement=judgement,
        faults=record.faults,
        history=Path(),
        started_at="",
        duration_s=0.0,
        phases_s={},
        accounting=record.accounting,
        again=order.again.replace("--world auto", f"--world {record.world.kind}"),
        versions={},
        threats=(*(record.values.threats if record.values else ()), *record.threats),
        error=record.error,
        interrupted=record.interrupted,
        pitfalls=record.all_pitfalls,
        values=record.values.says if record.values else "",
        fails_on_pitfall=order.fails_on_pitfall,
        extras=record.extras,
        measures=measures_taken(measures),
        thresholds=thresholds,
    )


def planned_of(order: AnyOrder) -> PlannedRuns:
    """What the runs that differ from `order` in their seeds have in common."""
    names = ("runner", "expected", "cluster", "master") if isinstance(order, Order) else ()
    return PlannedRuns(
        scenario=order.scenario.scenario,
        mutant=order.mutant,
        level=order.level,
        sut=order.sut,
        about=order.scenario.about,
        plan=order.scenario.model_dump(mode="json", by_alias=True),
        convicts=convicts_of(order),
        **{name: getattr(order, name) for name in names},
    )


def measures_of_run(record: RunRecord | OutsideRecord, judgement: Judgement) -> Mapping[str, Measure]:
    """What is measured of a run besides its verdict."""
    if isinstance(record, OutsideRecord):
        return measures_of_recovery(judgement.recovery)
    return measures_of(record.events)


def held_to_thresholds(
    order: AnyOrder, judgement: Judgement, measures: Mapping[str, Measure]
) -> tuple[Judgement, tuple[Threshold, ...]]:
    """The judgement, at best `unknown` if a threshold could not be measured, and the thresholds of the scenario.

    With a planted defect they decide nothing: only a conviction counts.
    """
    limits = order.scenario.thresholds
    judged = () if limits is None else judged_thresholds(limits.limits, measures)
    if not convicts_of(order) and any(threshold.verdict == "unknown" for threshold in judged):
        judgement = replace(judgement, outcome=worst([judgement.outcome, Outcome.UNKNOWN]))
    return judgement, judged


def _values(values: JudgedValues | None, *, run_s: float) -> str:
    """Where the expected results are from; of the calm twin its share of the run, too."""
    if values is None or not values.calls:
        return "" if values is None else values.says
    cost = f"{values.calls} calls took {values.took_s:.2f} s, {100 * values.took_s / run_s:.0f} % of the run"
    return f"{values.says}; {cost}." if not values.says.endswith(".") else f"{values.says[:-1]}; {cost}."


def _unnamed(scenario: AnyScenario, record: Ran) -> tuple[str, ...]:
    """A warning if the scenario expects a pitfall that the run did not show."""
    if scenario.pitfall is None or record.pitfalls is None:
        return ()
    if any(pitfall.name == scenario.pitfall for pitfall in record.pitfalls):
        return ()
    return (
        f"The run did not show the pitfall {scenario.pitfall} that the scenario expects, so it is vacuous.",
    )
