"""What is measured of a run besides its verdicts, and the thresholds that a scenario sets on it.

Answers to k6's metrics and thresholds. O(n log n) in records. Invariant: a number is never better than what happened:
what was not measured counts as endless for the value, and with the time that it took at least for the lower bound, so
that a threshold holds, or is crossed, only if it does whatever was not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, inf
from typing import Any, Final

import msgspec
from msgspec import UNSET

from harness.history.event import (
    Call,
    Dead,
    Event,
    Failed,
    FaultEvent,
    In,
    Kill,
    Out,
    Res,
    Rescale,
    Restore,
    Start,
)
from harness.history.verdict import Recovery
from harness.judge.explanation.events import NOTHING, EventSummary
from harness.judge.explanation.recovery import RecoveryFold
from harness.scenario.outcome import Measure, Threshold

_PERCENTILES: Final = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
_OUTSIDE: Final = "the run is seen from outside, without the records that the operator took and its calls"
_EMPTY: Final = msgspec.Raw(b"[]")
_FULL: Final = msgspec.Raw(b"[0]")


def measures_of(events: Iterable[Event]) -> Mapping[str, Measure]:
    """All measures of a history, each with a value or the reason why it has none."""
    lags_us: list[int] = []
    fold = RecoveryFold(lags_us=lags_us)
    calls = last_us = 0
    taken: set[int | str] = set()
    rescaled = False
    for event in events:
        last_us, kind = event.t, type(event)
        if kind is Call:
            calls += 1
        elif (summary := _SUMMARIES.get(kind)) is not None:
            fold.step(summary(event), restored=len(event.elements) if isinstance(event, Restore) else 0)
            if isinstance(event, In):
                taken.add(event.id)
        elif kind is Rescale:
            rescaled = True
    recovery = fold.recovery()
    # After a rescale a record may leave a subtask that did not take it: how long it waited is not known.
    waiting_us = [0 if rescaled else last_us - since_us for since_us in fold.waiting_us()]
    return {
        **_of_recovery(recovery, fold.steady_at_least_us),
        **_percentiles("latency", lags_us, waiting_us, nothing="no record left the operator", what="records"),
        "calls_per_record": _calls_for_each(calls, len(taken)),
    }


def measures_of_recovery(recovery: Recovery | None) -> Mapping[str, Measure]:
    """The measures of a run that is seen from outside: its recovery alone."""
    costs = () if recovery is None else recovery.costs
    known = _of_recovery(recovery or Recovery(why=_OUTSIDE), [0] * len(costs))
    names = (*(f"latency_{which}" for which in _PERCENTILES), "calls_per_record")
    return {**known, **dict.fromkeys(names, Measure(value=None, why=_OUTSIDE))}


def measures_taken(measures: Mapping[str, Measure]) -> dict[str, float]:
    """The measures that have a value."""
    return {name: round(m.value, 4) for name, m in measures.items() if m.value is not None}


def judged_thresholds(limits: Mapping[str, float], measures: Mapping[str, Measure]) -> tuple[Threshold, ...]:
    """Each threshold: `crossed` or `holds` only if it is, whatever was not measured; else `unknown`."""
    return tuple(_judged(name, limit, measures[name]) for name, limit in limits.items())


def _judged(name: str, limit: float, measure: Measure) -> Threshold:
    if measure.at_least > limit:
        return Threshold(name=name, limit=limit, value=measure.value, verdict="crossed", why=measure.why)
    if measure.value is not None and measure.value <= limit:
        return Threshold(name=name, limit=limit, value=measure.value, verdict="holds", why=measure.why)
    return Threshold(name=name, limit=limit, value=None, verdict="unknown", why=measure.why)


def _calls_for_each(calls: int, records: int) -> Measure:
    if not records:
        return Measure(value=None, why="no record was taken")
    if not calls:
        return Measure(value=None, why="the history tells of no call")
    return Measure(value=calls / records, at_least=calls / records)


def _of_recovery(recovery: Recovery, steady_at_least_us: Sequence[int]) -> dict[str, Measure]:
    costs = recovery.costs
    nothing = recovery.why or "nothing was disturbed"
    omitted = [0] * recovery.omitted
    steady = [cost.steady_us for cost in costs if cost.steady_us is not None]
    first = [cost.first_output_us for cost in costs if cost.first_output_us is not None]
    never_steady = [
        least for cost, least in zip(costs, steady_at_least_us, strict=True) if cost.steady_us is None
    ]
    never_first = [0 for cost in costs if cost.first_output_us is None]
    measured = (
        ("recovery", "steady", steady, never_steady),
        ("first_result", "first output", first, never_first),
    )
    found: dict[str, Measure] = {}
    for prefix, of, known_us, least_us in measured:
        absent = next((f"{cost.what}: {cost.absent[of]}" for cost in costs if of in cost.absent), "")
        at_least_us = [*least_us, *omitted]
        found |= _percentiles(
            prefix, known_us, at_least_us, nothing=nothing, what="disturbances", absent=absent
        )
    return found


def _percentiles(
    prefix: str,
    known_us: Sequence[int],
    at_least_us: Sequence[int],
    *,
    nothing: str,
    what: str,
    absent: str = "",
) -> dict[str, Measure]:
    """Percentiles by the nearest rank; `at_least_us`: lower bounds of those that were not measured."""
    total = len(known_us) + len(at_least_us)
    if not total:
        return {f"{prefix}_{which}": Measure(value=None, why=nothing) for which in _PERCENTILES}
    why = f"{len(at_least_us)} of {total} {what} were not measured" if at_least_us else ""
    why += f" ({absent})" if why and absent else ""
    highest = [*sorted(known_us), *([inf] * len(at_least_us))]
    lowest = sorted((*known_us, *at_least_us))
    made = {}
    for which, percent in _PERCENTILES.items():
        rank = ceil(total * percent / 100) - 1
        value = highest[rank]
        made[f"{prefix}_{which}"] = Measure(
            value=None if value == inf else value / 1000, at_least=lowest[rank] / 1000, why=why
        )
    return made


def _of_in(event: In) -> EventSummary:
    expect = _EMPTY if event.expect in ([], {}) else NOTHING
    return EventSummary(
        n=event.n, t=event.t, k="in", s=event.s, a=event.a, id=event.id, pos=event.pos, expect=expect
    )


def _of_res(event: Res) -> EventSummary:
    v = NOTHING if event.v is UNSET else _FULL if event.v else _EMPTY
    return EventSummary(
        n=event.n, t=event.t, k="res", s=event.s, a=event.a, id=event.id, r=event.r, final=event.final, v=v
    )


_SUMMARIES: Final[Mapping[type[Event], Callable[[Any], EventSummary]]] = {
    In: _of_in,
    Out: lambda e: EventSummary(n=e.n, t=e.t, k="out", s=e.s, a=e.a, id=e.id),
    Dead: lambda e: EventSummary(n=e.n, t=e.t, k="dead", s=e.s, a=e.a, id=e.id),
    Res: _of_res,
    Start: lambda e: EventSummary(n=e.n, t=e.t, k="start", s=e.s, a=e.a, from_=e.from_),
    Restore: lambda e: EventSummary(n=e.n, t=e.t, k="restore", s=e.s, a=e.a),
    Failed: lambda e: EventSummary(n=e.n, t=e.t, k="failed", s=e.s, a=e.a),
    Kill: lambda e: EventSummary(n=e.n, t=e.t, k="kill", s=e.s, a=e.a),
    FaultEvent: lambda e: EventSummary(n=e.n, t=e.t, k="fault", f=e.f, phase=e.phase),
}
"""Of each kind of event that tells of recovery or latency, the fields that do."""
