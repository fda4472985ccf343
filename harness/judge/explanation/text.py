"""An explained judgement as lines of plain text, the same for the terminal, JUnit and the page.

Invariant: no line holds a control byte, whatever the history contains; a line is one sentence or one event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.history.values import visible
from harness.history.verdict import (
    ANOMALIES_IN_FULL,
    Anomaly,
    Cost,
    Explanation,
    Guarantee,
    InvariantVerdict,
    Judgement,
    Outcome,
    Recovery,
)
from harness.judge.explanation.guarantee import next_steps

_EVENTS_SHOWN = 12


def anomaly_lines(anomaly: Anomaly) -> list[str]:
    """An anomaly with the events that show it, and its explanation if it has one."""
    lines = [f"{anomaly.kind}: {anomaly.say} [{events_of(anomaly)}]"]
    if anomaly.explanation is not None:
        lines += [f"  {line}" for line in explanation_lines(anomaly.explanation)]
    return [visible(line) for line in lines]


def explanation_lines(explanation: Explanation) -> list[str]:
    """*Let* and *Then*, one fact per line."""
    let = [f"{'Let: ' if not index else '     '} {line}" for index, line in enumerate(explanation.let)]
    then = [f"{'Then:' if not index else '     '} - {line}" for index, line in enumerate(explanation.then)]
    return [visible(line) for line in (*let, *then)]


def events_of(anomaly: Anomaly) -> str:
    """The numbers of the first events that show it."""
    numbers = [str(n) for n in anomaly.events[:_EVENTS_SHOWN]]
    more = len(anomaly.events) - len(numbers)
    return (
        ("event " if len(anomaly.events) == 1 else "events ")
        + ", ".join(numbers)
        + f" and {more} more" * (more > 0)
    )


def rest_of(verdict: InvariantVerdict, *, told: int = ANOMALIES_IN_FULL) -> str:
    """How many anomalies of which class are not explained; empty if none."""
    rest = Counter(anomaly.kind for anomaly in verdict.anomalies[told:])
    parts = [f"{count} {kind}" for kind, count in sorted(rest.items())]
    parts += [f"{verdict.omitted} that the checker only counted"] if verdict.omitted else []
    found = len(verdict.anomalies) + verdict.omitted
    return visible(f"{found} found in all; not explained: {', '.join(parts)}") if parts else ""


def closing_lines(judgement: Judgement) -> list[str]:
    """The invariants that hold, the guarantee, and the cost of each fault and kill."""
    holds = [verdict.invariant for verdict in judgement.invariants if verdict.outcome is Outcome.PASS]
    lines = [
        f"{'Still holds' if judgement.convicted() else 'Holds'}: {' '.join(holds) or 'nothing was shown'}"
    ]
    if judgement.guarantee is not None:
        lines += guarantee_lines(judgement.guarantee)
    if judgement.recovery is not None:
        lines += recovery_lines(judgement.recovery)
    return lines


def guarantee_lines(guarantee: Guarantee) -> list[str]:
    """The strongest guarantee that is shown, then what keeps it from being stronger."""
    stood = f"seen under {', '.join(guarantee.under)}" if guarantee.under else "seen without faults"
    lines = [f"Guarantee: {guarantee.statement}; {stood}"]
    for step in next_steps(guarantee):
        why = (
            f"refuted by {', '.join(step.refuted_by)}"
            if step.refuted_by
            else f"not shown, because {step.why}"
        )
        lines.append(f"  {step.level}: {why}")
    return [visible(line) for line in (*lines, *(f"  {remark}" for remark in guarantee.remarks))]


def recovery_lines(recovery: Recovery) -> list[str]:
    """V17: one line per fault or kill, or why nothing was measured."""
    if not recovery.costs:
        return [f"Recovery (V17): not measured, because {recovery.why}"]
    more = [f"  and {recovery.omitted} more disturbances"] if recovery.omitted else []
    lines = [f"  {line}" for cost in recovery.costs for line in _cost(cost)]
    return [visible(line) for line in ("Recovery (V17, a measurement):", *lines, *more)]


def _cost(cost: Cost) -> Iterator[str]:
    measures = (
        ("detected after", cost.detect_us),
        ("first result after", cost.first_output_us),
        ("steady after", cost.steady_us),
    )
    parts = [f"{name} {us / 1000:.3f} ms" for name, us in measures if us is not None]
    if cost.replayed is not None and cost.replayed_of is not None:
        share = f" ({100 * cost.replayed / cost.replayed_of:.1f} %)" if cost.replayed_of else ""
        parts.append(f"{cost.replayed} of {cost.replayed_of} records replayed{share}")
    if cost.deficit is not None:
        parts.append(f"{cost.deficit} records behind")
    yield f"{cost.what} at {cost.begin_us / 1_000_000:.3f} s (event {cost.event}): {', '.join(parts) or 'no measure'}"
    absent = reasons_of(cost)
    if absent:
        yield f"  not measured: {'; '.join(absent)}"


def reasons_of(cost: Cost) -> Sequence[str]:
    """Why measures have no number: each reason once, with the measures that it applies to."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in cost.absent.items():
        if name == "replayed" and cost.replayed_of is None:
            continue  # a fault by itself restarts nothing, which is not worth a line
        by_reason.setdefault(reason, []).append(name)
    return [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
