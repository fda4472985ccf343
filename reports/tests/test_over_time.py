"""Ten reports, one made slower on purpose: the trend names it, and nothing else; a report beside an earlier one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.system.errors import HistoryError, UsageError
from reports.baseline import compared
from reports.over_time import band_of, series_of, trend_document
from reports.past_report import load_past, past_reports, report_of
from reports.trend_page import trend_text
from tools.cases import each

Measures = Mapping[str, float]
USUAL: Measures = {"recovery_p95": 60.0, "latency_p50": 20.0, "latency_p95": 200.0, "calls_per_record": 1.0}


def run(seed: int, verdict: str = "pass", measures: Measures = USUAL, **more: Any) -> dict[str, Any]:
    """A run as a `run.json` has it, with what is read of it."""
    vacuous = [{"invariant": "V23", "verdict": "vacuous", "anomalies": []}] if verdict == "vacuous" else []
    failed = (
        [{"invariant": "V8", "verdict": "fail", "anomalies": [{"class": "lost"}] * 2}]
        if verdict == "fail"
        else []
    )
    return {
        "run_id": f"r{seed}",
        "scenario": "slow",
        "level": "sim",
        "seed": seed,
        "verdict": verdict,
        "as_expected": verdict == "pass",
        "sut": "reference",
        "mutant": None,
        "invariants": vacuous + failed,
        "started_at": "2026-01-01T00:00:00+00:00",
        "measures": dict(measures),
        "a field of a later version": 1,
        **more,
    }


def report(folder: Path, name: str, runs: Sequence[Mapping[str, Any]], **more: Any) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "run.json").write_text(json.dumps({"schema_version": 1, "runs": runs, **more}))
    return folder / name


def ten(folder: Path, slow: int, times: float) -> Path:
    """Ten reports with three runs each and a little noise; number `slow` is slower by `times`."""
    for number in range(10):
        factor = (times if number == slow else 1.0) * (1 + 0.01 * (number % 3))
        measures = {**USUAL, "recovery_p95": 60 * factor, "latency_p95": 200 * factor}
        started_at = f"2026-01-{number + 1:02}T00:00:00+00:00"
        runs = [run(seed, measures=measures, started_at=started_at) for seed in range(3)]
        report(folder, f"r{number}", runs)
    return folder


@each("slow", range(10))
def test_of_ten_reports_the_slower_one_is_named_wherever_it_stands(tmp_path: Path, slow: int) -> None:
    (series,) = series_of(past_reports([ten(tmp_path, slow, times=1.5)]))

    assert [point.report for point in series.points if point.slower] == [f"r{slow}"]
    assert {one.name for one in series.points[slow].slower} == {"recovery_p95", "latency_p95"}
    assert any(f"r{slow} is slower: recovery_p95" in line for line in series.told())


def test_noise_alone_names_none(tmp_path: Path) -> None:
    (series,) = series_of(past_reports([ten(tmp_path, 0, times=1.0)]))

    assert [point.report for point in series.points if point.departures] == []
    assert list(series.told()) == []


def test_a_run_that_never_recovered_is_named_for_it_may_be_the_slowest(tmp_path: Path) -> None:
    never = {name: value for name, value in USUAL.items() if name != "recovery_p95"}
    places = [report(tmp_path, f"r{n}", [run(1, measures=never if n == 2 else USUAL)]) for n in range(5)]

    (series,) = series_of(past_reports(places))

    assert list(series.told()) == [
        "recovery_p95 was not measured in 1 of 5 runs (r2), which may be the slowest"
    ]


def test_three_reports_are_too_few_to_tell(tmp_path: Path) -> None:
    places = [report(tmp_path, name, [run(1)]) for name in ("a", "b")]
    places.append(report(tmp_path, "c", [run(1, measures={**USUAL, "latency_p95": 900.0})]))

    (series,) = series_of(past_reports(places))

    assert not any(point.slower for point in series.points)
    assert any("too few" in line for line in series.told())


def test_the_band_is_wider_the_noisier_the_others_are() -> None:
    still, noisy = (
        band_of("latency_p95", [100, 100, 100, 100]),
        band_of("latency_p95", [60, 100, 140, 100, 80]),
    )

    assert still is not None
    assert noisy is not None
    assert still.high == 110
    assert noisy.high == 130
    assert band_of("latency_p95", [1, 2]) is None


def test_a_machine_with_two_speeds_makes_no_report_slower() -> None:
    """As measured at level live on a busy machine: a deviation around the median would call each second one slower."""
    values = [1121.0, 1201, 606, 720, 1119, 673, 676, 1052, 761]
    band = band_of("latency_p95", values)

    assert band is not None
    assert all(band.low <= value <= band.high for value in values)


def test_vacuous_runs_among_others_are_flaky_and_their_seeds_are_named(tmp_path: Path) -> None:
    places = [report(tmp_path, f"r{n}", [run(1), run(2, "vacuous" if n == 3 else "pass")]) for n in range(4)]

    (series,) = series_of(past_reports(places))

    assert series.is_flaky
    assert series.flips == (2,)
    assert dict(series.vacuous_of) == {"V23": 1}
    assert list(series.told())[-1].startswith("flaky: 1 of 8 runs were vacuous, in 1 of 4 reports")


def test_reports_go_by_their_beginning_and_have_names_that_tell_them_apart(tmp_path: Path) -> None:
    late = report(tmp_path / "x", "run", [run(1, started_at="2026-02-01T00:00:00+00:00")])
    early = report(tmp_path / "y", "run", [run(1)])

    assert [one.name for one in past_reports([late, early, late])] == ["y/run", "x/run"]


def test_each_run_of_a_campaign_counts_not_only_those_shown(tmp_path: Path) -> None:
    rows = [
        {**{name: run(seed)[name] for name in ("scenario", "mutant", "level", "seed", "verdict", "as_expected")},
         "events": 1, "measures": {"latency_p95": float(seed)}}
        for seed in range(40)
    ]  # fmt: skip
    place = report(tmp_path, "many", [run(0, measures={})], counted=rows)

    (series,) = series_of([report_of(place)])

    assert series.runs == 40
    assert series.points[0].values["latency_p95"] == 19.5


def test_an_older_report_tells_of_recovery_and_not_of_what_was_not_measured(tmp_path: Path) -> None:
    older = run(1, measures={}, recovery={"costs": [{"steady_us": 40_000}, {"steady_us": 90_000}]})
    unsteady = run(2, measures={}, recovery={"costs": [{"steady_us": 40_000}, {"steady_us": None}]})

    (first, second) = load_past(report(tmp_path, "older", [older, unsteady]) / "run.json").runs

    assert first.measures == {"recovery_p95": 90}
    assert second.measures == {}


@each(
    "text",
    ["", "[]", "{}", '{"schema_version":1,"runs":[]}', '{"schema_version":1,"runs":[{"seed":"x"}]}', "\0"],
)
def test_what_is_no_report_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)

    with pytest.raises(HistoryError, match="run.json"):
        past_reports([tmp_path])


def test_a_place_without_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no run.json"):
        past_reports([tmp_path])
    with pytest.raises(UsageError, match="does not exist"):
        past_reports([tmp_path / "nowhere"])


def test_the_page_marks_the_slower_report_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    series = series_of(past_reports([ten(tmp_path, 6, times=2.0)]))

    page = trend_text(series)

    assert page.count('class="dot bad"') == 2  # recovery and latency
    assert "10 reports: 1 slower, 0 flaky" in page
    assert "r6 is slower: recovery_p95" in page
    assert "://" not in page
    assert "<script" not in page


def test_the_document_has_each_point(tmp_path: Path) -> None:
    (series,) = trend_document(series_of(past_reports([ten(tmp_path, 6, times=2.0)])))["series"]

    assert len(series["points"]) == 10
    assert [
        point["report"] for point in series["points"] if any(d["slower"] for d in point["departures"])
    ] == ["r6"]


def test_beside_a_baseline_changes_violations_and_times_are_told(tmp_path: Path) -> None:
    before = report_of(report(tmp_path, "before", [run(1), run(2), run(3, "fail"), run(4)]))
    slow = {**USUAL, "recovery_p95": 120.0}
    now = report_of(
        report(tmp_path, "now", [run(seed, "vacuous" if seed == 1 else "pass", slow) for seed in (1, 2, 3)])
    )

    (told,) = compared(now, baseline=before).scenarios

    assert told.changed == ((1, "pass", "vacuous"), (3, "fail", "pass"))
    assert (told.new, told.mended) == ((), ("V8 lost",))
    assert {delta.name: delta.verdict for delta in told.deltas} == {
        "recovery_p95": "slower",
        "latency_p50": "within noise",
        "latency_p95": "within noise",
        "calls_per_record": "within noise",
    }


def test_beside_a_baseline_a_new_violation_is_told(tmp_path: Path) -> None:
    before = report_of(report(tmp_path, "before", [run(1)]))
    now = report_of(report(tmp_path, "now", [run(1, "fail"), run(9, scenario="other")]))

    comparison = compared(now, baseline=before)

    assert comparison.scenarios[0].new == ("V8 lost",)
    assert comparison.only_now == ("other at sim",)
    assert "  new violation: V8 lost" in "\n".join(comparison.lines())


def test_beside_a_baseline_what_is_no_more_measured_is_told(tmp_path: Path) -> None:
    before = report_of(report(tmp_path, "before", [run(1)]))
    now = report_of(report(tmp_path, "now", [run(1, measures={"latency_p95": 200.0})]))

    told = compared(now, baseline=before).scenarios[0].unmeasured

    assert told[0] == (
        "recovery_p95 was measured in 1 of 1 runs before, and in 0 of 1 now: the others may be the slowest"
    )


def test_another_system_under_test_is_compared_and_remarked(tmp_path: Path) -> None:
    before = report_of(report(tmp_path, "before", [run(1)]))
    now = report_of(report(tmp_path, "now", [run(1, sut="enrich:lookup")]))

    assert (
        compared(now, baseline=before).remark == "the systems under test differ: reference and enrich:lookup"
    )


def test_with_one_earlier_run_the_noise_is_assumed_and_said_so(tmp_path: Path) -> None:
    before = report_of(report(tmp_path, "before", [run(1)]))
    now = report_of(report(tmp_path, "now", [run(1, measures={"latency_p95": 251.0})]))

    (delta,) = compared(now, baseline=before).scenarios[0].deltas

    assert delta.verdict == "slower"
    assert (
        delta.says == "latency_p95 200 ms -> 251 ms (1.25 times): slower (150 ms to 250 ms by noise, assumed)"
    )
