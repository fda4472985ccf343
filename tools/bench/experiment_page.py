"""Generates the page of the experiments: tables of times, sentences made from the numbers, and the chart.

Answers to the figures of articles on Flink's asynchronous I/O. Invariant: every number was measured in the run that
wrote the page, and a sentence that compares names the number of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from reports.chart_scale import quantile
from tools.bench.chart_spread import Panel, spread_svg
from tools.bench.experiment import DrawnTimes, ExperimentPlan, Times
from tools.bench.lookup_forms import FORMS

_Measure = Callable[[Times], float]

_HEAD = (
    "| form | all records, ms: median | 5 % - 95 % | against synchronous | first result, ms | mean to a result, ms |",
    "|---|---|---|---|---|---|",
)


def section(plan: ExperimentPlan, drawn: Sequence[DrawnTimes]) -> str:
    """The table and the sentences of one experiment."""
    low, high = plan.service_ms
    head = (
        f"{plan.records} records, {plan.at_once} at once, each {low} to {high} ms in the server; {len(drawn)} draws, "
        f"seed {plan.seed}."
    )
    return "\n\n".join([head, "\n".join(_table(drawn)), "\n".join(_sentences(plan, drawn))])


def _table(drawn: Sequence[DrawnTimes]) -> Iterator[str]:
    yield from _HEAD
    for form in FORMS:
        totals = sorted(_of(drawn, form, _total))
        ratio = median(
            ours / theirs
            for ours, theirs in zip(_of(drawn, form, _total), _of(drawn, FORMS[0], _total), strict=True)
        )
        cells = [
            form,
            f"{median(totals):.2f}",
            f"{quantile(totals, 0.05):.2f} - {quantile(totals, 0.95):.2f}",
            f"{ratio:.2f} x",
            f"{median(_of(drawn, form, _first)):.2f}",
            f"{median(_of(drawn, form, _mean)):.2f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _sentences(plan: ExperimentPlan, drawn: Sequence[DrawnTimes]) -> Iterator[str]:
    pairs = [(draw.of["ordered"], draw.of["unordered"]) for draw in drawn]
    ordered_won = sum(ordered.total_ms < unordered.total_ms for ordered, unordered in pairs)
    later = median(ordered.mean_ms / unordered.mean_ms for ordered, unordered in pairs)
    longest = median(max(draw.service_ms) for draw in drawn)
    in_a_row = median(sum(draw.service_ms) for draw in drawn)
    lucky = sum(max(draw.service_ms) < plan.service_ms[1] for draw in drawn)
    yield (
        f"- No form can be quicker than the server: one by one not than the sum of a draw (median {in_a_row:g} ms), "
        f"the others not than its longest record (median {longest:g} ms), nor than {in_a_row / plan.at_once:g} ms, "
        f"the sum over {plan.at_once} slots."
    )
    yield f"- In {ordered_won} of {len(drawn)} draws ordered was done before unordered."
    yield f"- Ordered keeps a result {later:.2f} times as long as unordered (mean of a draw, median of the ratios)."
    yield f"- In {lucky} of {len(drawn)} draws no record took the {plan.service_ms[1]} ms that the slowest may take."


def chart(experiments: Sequence[tuple[ExperimentPlan, Sequence[DrawnTimes]]]) -> str:
    """An SVG with the total and mean times of each experiment."""
    panels = [
        Panel(
            title=f"{plan.records} records, {plan.at_once} at once: {title}",
            unit="ms",
            values={form: _of(drawn, form, measure) for form in FORMS},
        )
        for plan, drawn in experiments
        for title, measure in (("all records", _total), ("mean time to a result", _mean))
    ]
    return spread_svg(panels)


def _of(drawn: Sequence[DrawnTimes], form: str, measure: _Measure) -> list[float]:
    return [measure(draw.of[form]) for draw in drawn]


def _total(times: Times) -> float:
    return times.total_ms


def _first(times: Times) -> float:
    return times.first_ms


def _mean(times: Times) -> float:
    return times.mean_ms
