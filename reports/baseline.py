"""A report beside an earlier one: verdicts that changed, new and mended violations, times that left the noise.

Answers to CTRF's baselines and to pytest-benchmark's compare. Invariant: runs are compared by scenario, level and
planted defect; what has no counterpart is named, and a difference of times is told with the band that it left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from harness.scenario.outcome import measure_text
from harness.system.json_types import Json
from harness.system.whole_file import disk_errors_told, write_whole
from reports.markdown import plain_text
from reports.over_time import SHOWN, NoiseBand, band_of, least_change
from reports.past_report import Kind, PastReport, PastRun, report_of, title_of

_ASSUMED: Final = 0.25
"""The share of the median that is taken for noise if the earlier report has too few runs to say."""
_SEEDS_TOLD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One measure in both reports, each that of the median run."""

    name: str
    before: float
    now: float
    band: NoiseBand
    assumed: bool
    """Whether the band is assumed, because the earlier report has fewer than three runs."""

    @property
    def verdict(self) -> str:
        if self.now > self.band.high:
            return "slower"
        return "quicker" if self.now < self.band.low else "within noise"

    @property
    def says(self) -> str:
        before, now, low, high = (
            measure_text(self.name, value) for value in (self.before, self.now, self.band.low, self.band.high)
        )
        change = f" ({self.now / self.before:.2f} times)" if self.before else ""
        band = f"{low} to {high} by noise" + (", assumed" if self.assumed else "")
        return f"{self.name} {before} -> {now}{change}: {self.verdict} ({band})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One scenario in both reports."""

    title: str
    runs: tuple[int, int]
    verdicts: tuple[Mapping[str, int], Mapping[str, int]]
    """Before and now: how many runs have which verdict."""
    changed: tuple[tuple[int, str, str], ...]
    """The verdict before and now of each common seed whose verdict changed."""
    new: tuple[str, ...]
    """Violations of now that the earlier report has in no run of it."""
    mended: tuple[str, ...]
    deltas: tuple[Delta, ...]
    unmeasured: tuple[str, ...]
    """Measures that fewer of its runs have now: what was not measured may be the slowest."""

    def lines(self) -> Iterator[str]:
        before, now = (
            ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
            for verdicts in self.verdicts
        )
        yield f"{self.title}: {before} -> {now}" if before != now else f"{self.title}: {now}, as before"
        for seed, was, became in self.changed[:_SEEDS_TOLD]:
            yield f"  seed {seed}: {was} -> {became}"
        if len(self.changed) > _SEEDS_TOLD:
            yield f"  and {len(self.changed) - _SEEDS_TOLD} more seeds whose verdict changed"
        yield from (f"  new violation: {name}" for name in self.new)
        yield from (f"  mended: {name}" for name in self.mended)
        yield from (f"  {delta.says}" for delta in self.deltas)
        yield from (f"  {sentence}" for sentence in self.unmeasured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A report beside an earlier one."""

    baseline: str
    scenarios: tuple[Compared, ...]
    only_now: tuple[str, ...]
    only_before: tuple[str, ...]
    remark: str = ""

    def lines(self) -> Iterator[str]:
        changed = sum(bool(one.changed or one.new or one.mended) for one in self.scenarios)
        slower = sum(any(delta.verdict == "slower" for delta in one.deltas) for one in self.scenarios)
        yield f"beside {self.baseline}: {changed} of {len(self.scenarios)} scenarios changed, {slower} slower"
        if self.remark:
            yield f"  {self.remark}"
        for one in self.scenarios:
            yield from (f"  {line}" for line in one.lines())
        yield from (f"  only now: {title}" for title in self.only_now)
        yield from (f"  only before: {title}" for title in self.only_before)

    def markdown(self) -> str:
        first, *others = self.lines()
        depths = [(len(line) - len(line.lstrip(" "))) // 2 for line in others]
        rows = "".join(
            f"{'  ' * (d - 1)}- {plain_text(line)}\n" for d, line in zip(depths, others, strict=True)
        )
        return f"\n### {plain_text(first)}\n\n{rows}"

    def as_json(self) -> Json:
        return {
            "baseline": self.baseline,
            "remark": self.remark,
            "scenarios": [
                {
                    "scenario": one.title,
                    "runs": {"before": one.runs[0], "now": one.runs[1]},
                    "verdicts": {"before": dict(one.verdicts[0]), "now": dict(one.verdicts[1])},
                    "changed": [
                        {"seed": seed, "before": was, "now": became} for seed, was, became in one.changed
                    ],
                    "new_violations": list(one.new),
                    "mended_violations": list(one.mended),
                    "less_measured": list(one.unmeasured),
                    "measures": [
                        {
                            "measure": delta.name,
                            "before": delta.before,
                            "now": delta.now,
                            "low": delta.band.low,
                            "high": delta.band.high,
                            "noise_assumed": delta.assumed,
                            "verdict": delta.verdict,
                        }
                        for delta in one.deltas
                    ],
                }
                for one in self.scenarios
            ],
            "only_now": list(self.only_now),
            "only_before": list(self.only_before),
        }


def compared(now: PastReport, *, baseline: PastReport) -> Comparison:
    """`now` beside `baseline`; if no system under test is in both, by scenario and level alone, which is remarked."""
    before: Mapping[Kind, Sequence[PastRun]] = {**baseline.by_kind}
    after: Mapping[Kind, Sequence[PastRun]] = {**now.by_kind}
    remark = ""
    if not before.keys() & after.keys():
        before, after = _without_sut(baseline.runs), _without_sut(now.runs)
        if before.keys() & after.keys():
            suts = " and ".join(
                ", ".join(dict.fromkeys(run.kind[2] for run in report.runs)) for report in (baseline, now)
            )
            remark = f"the systems under test differ: {suts}"
    return Comparison(
        baseline=baseline.name,
        scenarios=tuple(_compared(kind, before[kind], after[kind]) for kind in after if kind in before),
        only_now=tuple(title_of(kind) for kind in after if kind not in before),
        only_before=tuple(title_of(kind) for kind in before if kind not in after),
        remark=remark,
    )


def write_comparison(folder: Path, *, baseline: PastReport) -> Comparison:
    """Compares the report in `folder` with an earlier one: `baseline.json` there, and a section of its `summary.md`.

    Raises WorldError if they cannot be written.
    """
    comparison = compared(report_of(folder), baseline=baseline)
    with disk_errors_told(f"the comparison cannot be written to {folder}"):
        write_whole(folder / "baseline.json", json.dumps(comparison.as_json(), indent=2) + "\n")
        with (folder / "summary.md").open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(comparison.markdown())
    return comparison


def _without_sut(runs: Sequence[PastRun]) -> Mapping[Kind, Sequence[PastRun]]:
    found: dict[Kind, list[PastRun]] = {}
    for run in runs:
        scenario, level, _, mutant = run.kind
        found.setdefault((scenario, level, "", mutant), []).append(run)
    return found


def _compared(kind: Kind, before: Sequence[PastRun], now: Sequence[PastRun]) -> Compared:
    was = {run.seed: run.verdict for run in before}
    violations = [
        list(dict.fromkeys(" ".join(violation) for run in runs for violation in run.found))
        for runs in (before, now)
    ]
    return Compared(
        title=title_of(kind),
        runs=(len(before), len(now)),
        verdicts=(Counter(run.verdict for run in before), Counter(run.verdict for run in now)),
        changed=tuple(
            (run.seed, was[run.seed], run.verdict)
            for run in now
            if was.get(run.seed, run.verdict) != run.verdict
        ),
        new=tuple(name for name in violations[1] if name not in violations[0]),
        mended=tuple(name for name in violations[0] if name not in violations[1]),
        deltas=tuple(_deltas(before, now)),
        unmeasured=tuple(_unmeasured(before, now)),
    )


def _unmeasured(before: Sequence[PastRun], now: Sequence[PastRun]) -> Iterator[str]:
    for name in SHOWN:
        was, became = (sum(name in run.measures for run in runs) for runs in (before, now))
        if became * len(before) < was * len(now):
            yield (
                f"{name} was measured in {was} of {len(before)} runs before, and in {became} of {len(now)} now: "
                "the others may be the slowest"
            )


def _deltas(before: Sequence[PastRun], now: Sequence[PastRun]) -> Iterator[Delta]:
    for name in SHOWN:
        was, became = ([run.measures[name] for run in runs if name in run.measures] for runs in (before, now))
        if not was or not became:
            continue
        band = band_of(name, was)
        middle = median(was)
        width = max(_ASSUMED * middle, least_change(name))
        yield Delta(
            name=name,
            before=middle,
            now=median(became),
            band=band or NoiseBand(middle=middle, low=max(0.0, middle - width), high=middle + width),
            assumed=band is None,
        )
