"""A trend: the runs of one scenario over several reports, which of them are slower than the others, what is flaky.

Answers to Allure's trends and to pytest-benchmark's compare. Invariant: a report is called slower only if its median
run leaves a band of noise that the other reports set, and the band is told beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Final

from harness.scenario.outcome import measure_text
from harness.system.json_types import Json
from reports.past_report import PastReport, PastRun, title_of

SHOWN: Final = ("recovery_p95", "latency_p50", "latency_p95", "calls_per_record")
"""The measures of a trend, in the order of its columns."""
_BEFORE_MIN: Final = 3
"""Fewer other values say nothing about noise."""
_RANGES: Final = 1.5
"""Tukey's fences: so many interquartile ranges beyond the quartiles."""
_SHARE_MIN: Final = 0.1
"""The band is at least so much of the median to each side: less is no regression, however still the others are."""
_LEAST: Final = {"calls_per_record": 0.01}
_LEAST_MS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseBand:
    """What a value may be by noise."""

    middle: float
    low: float
    high: float

    def text(self, name: str) -> str:
        """`64 ms, 50.7 ms to 77.3 ms by noise`."""
        middle, low, high = (measure_text(name, value) for value in (self.middle, self.low, self.high))
        return f"{middle}, {low} to {high} by noise"


def least_change(name: str) -> float:
    return _LEAST.get(name, _LEAST_MS)


def band_of(name: str, values: Sequence[float]) -> NoiseBand | None:
    """The band that `values` of the measure `name` set: Tukey's fences, and at least a tenth around the median.

    None: they are fewer than three.
    """
    if len(values) < _BEFORE_MIN:
        return None
    first, middle, third = quantiles(values, n=4, method="inclusive")
    least = max(_SHARE_MIN * middle, least_change(name))
    beyond = _RANGES * (third - first)
    return NoiseBand(
        middle=middle,
        low=max(0.0, min(first - beyond, middle - least)),
        high=max(third + beyond, middle + least),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A value that left its band."""

    name: str
    value: float
    band: NoiseBand

    @property
    def is_worse(self) -> bool:
        return self.value > self.band.high

    @property
    def says(self) -> str:
        """`recovery_p95 is 640 ms (the others 60 ms, 54 ms to 66 ms by noise)`."""
        return (
            f"{self.name} is {measure_text(self.name, self.value)} (the others {self.band.text(self.name)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The runs of one scenario in one report."""

    report: str
    started_at: str
    runs: int
    as_expected: int
    verdicts: Mapping[str, int]
    values: Mapping[str, float]
    """The median run's value of each measure; a measure that no run has is left out."""
    lacking: Mapping[str, int]
    """The number of runs that lack each measure."""
    departures: tuple[Departure, ...] = ()

    @property
    def slower(self) -> tuple[Departure, ...]:
        return tuple(one for one in self.departures if one.is_worse)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendSeries:
    """One scenario over all reports that have it, the oldest first."""

    scenario: str
    level: str
    sut: str
    mutant: str
    points: tuple[Point, ...]
    bands: Mapping[str, NoiseBand]
    """The noise band of each measure over all reports."""
    vacuous_of: Mapping[str, int]
    """How many runs were vacuous, for each invariant that was; `the run` counts whole runs."""
    flips: tuple[int, ...]
    """Seeds that were vacuous in one report and passed in another."""

    @property
    def runs(self) -> int:
        return sum(point.runs for point in self.points)

    @property
    def vacuous(self) -> int:
        return sum(point.verdicts.get("vacuous", 0) for point in self.points)

    @property
    def is_flaky(self) -> bool:
        """Whether some of its runs were vacuous and others not."""
        return 0 < self.vacuous < self.runs

    @property
    def title(self) -> str:
        return title_of((self.scenario, self.level, self.sut, self.mutant))

    def told(self) -> Iterator[str]:
        """Sentences: which reports are slower or quicker, and what of vacuous verdicts."""
        for point in self.points:
            for one in point.departures:
                yield f"{point.report} is {'slower' if one.is_worse else 'quicker'}: {one.says}"
        for name in SHOWN:
            lacking = {point.report: point.lacking[name] for point in self.points if point.lacking[name]}
            if lacking and sum(lacking.values()) < self.runs:
                yield (
                    f"{name} was not measured in {sum(lacking.values())} of {self.runs} runs "
                    f"({', '.join(lacking)}), which may be the slowest"
                )
        if self.vacuous:
            reports = sum(bool(point.verdicts.get("vacuous")) for point in self.points)
            word = "flaky: " if self.is_flaky else ""
            sentence = f"{word}{self.vacuous} of {self.runs} runs were vacuous"
            sentence += f", in {reports} of {len(self.points)} reports"
            seeds = ", ".join(map(str, self.flips[:10]))
            yield sentence + (f"; not always with the same seed: {seeds}" if seeds else "")
        if len(self.points) <= _BEFORE_MIN:
            yield f"{len(self.points)} reports are too few to tell noise from a change: four are needed"


def series_of(reports: Sequence[PastReport]) -> tuple[TrendSeries, ...]:
    """A series for each scenario, level, system under test and planted defect, in the order of their appearance."""
    kinds = dict.fromkeys(kind for report in reports for kind in report.by_kind)
    made = []
    for kind in kinds:
        mine = [(report, report.by_kind[kind]) for report in reports if kind in report.by_kind]
        scenario, level, sut, mutant = kind
        bare = [_point(report, runs) for report, runs in mine]
        # A measure departs from the band of the points before it; where they are too few, of all others.
        points = tuple(
            replace(
                point, departures=tuple(_departures(point, bare[:place], bare[:place] + bare[place + 1 :]))
            )
            for place, point in enumerate(bare)
        )
        every = [run for _, runs in mine for run in runs]
        verdicts: dict[int, set[str]] = {}
        for run in every:
            verdicts.setdefault(run.seed, set()).add(run.verdict)
        known = {name: [point.values[name] for point in points if name in point.values] for name in SHOWN}
        bands = {name: band_of(name, values) for name, values in known.items()}
        made.append(
            TrendSeries(
                scenario=scenario,
                level=level,
                sut=sut,
                mutant=mutant,
                points=points,
                bands={name: band for name, band in bands.items() if band is not None},
                vacuous_of=Counter(name for run in every for name in run.vacuous),
                flips=tuple(seed for seed, seen in verdicts.items() if {"vacuous", "pass"} <= seen),
            )
        )
    return tuple(made)


def _point(report: PastReport, runs: Sequence[PastRun]) -> Point:
    values = {
        name: median(found)
        for name in SHOWN
        if (found := [run.measures[name] for run in runs if name in run.measures])
    }
    return Point(
        report=report.name,
        started_at=report.started_at,
        runs=len(runs),
        as_expected=sum(run.as_expected for run in runs),
        verdicts=Counter(run.verdict for run in runs),
        values=values,
        lacking={name: sum(name not in run.measures for run in runs) for name in SHOWN},
    )


def _departures(point: Point, before: Sequence[Point], others: Sequence[Point]) -> Iterator[Departure]:
    for name, value in point.values.items():
        known = [[one.values[name] for one in of if name in one.values] for of in (before, others)]
        band = band_of(name, known[0]) or band_of(name, known[1])
        if band is not None and not band.low <= value <= band.high:
            yield Departure(name=name, value=value, band=band)


def trend_document(series: Sequence[TrendSeries]) -> Json:
    return {"trend": 1, "series": [_series_as_json(one) for one in series]}


def _series_as_json(series: TrendSeries) -> Json:
    return {
        "scenario": series.scenario,
        "level": series.level,
        "sut": series.sut,
        "mutant": series.mutant or None,
        "runs": series.runs,
        "vacuous": {
            "runs": series.vacuous,
            "flaky": series.is_flaky,
            "invariants": dict(series.vacuous_of),
            "seeds_that_differ": list(series.flips),
        },
        "bands": {
            name: {"middle": band.middle, "low": band.low, "high": band.high}
            for name, band in series.bands.items()
        },
        "points": [
            {
                "report": point.report,
                "started_at": point.started_at,
                "runs": point.runs,
                "as_expected": point.as_expected,
                "verdicts": dict(point.verdicts),
                "measures": dict(point.values),
                "not_measured": {name: count for name, count in point.lacking.items() if count},
                "departures": [
                    {
                        "measure": one.name,
                        "value": one.value,
                        "middle": one.band.middle,
                        "low": one.band.low,
                        "high": one.band.high,
                        "slower": one.is_worse,
                    }
                    for one in point.departures
                ],
            }
            for point in series.points
        ],
        "told": list(series.told()),
    }
