"""The charts draw what the history holds: lanes, bands, points and their counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.scenario.outcome import RunOutcome
from reports.chart_latency import latency_of
from reports.chart_scale import LinearScale, bands_of
from reports.chart_timeline import timeline_of
from reports.history_view import Excerpts, HistoryView, read_view
from reports.tests.sample import pass_outcome

SECOND = LinearScale(low=0, high=1, start=0, end=1000)
"""A second of time on a thousand pixels."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    return pass_outcome(tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="module")
def view(outcome: RunOutcome) -> HistoryView:
    return read_view(outcome.history)


def test_the_timeline_has_a_lane_for_each_subtask(outcome: RunOutcome, view: HistoryView) -> None:
    timeline = timeline_of(view, outcome.faults)

    assert timeline is not None
    assert [lane.s for lane in timeline.lanes] == [0, 1]


def test_kill_and_restore_are_marked_on_their_own_lane(outcome: RunOutcome, view: HistoryView) -> None:
    timeline = timeline_of(view, outcome.faults)

    assert timeline is not None
    assert [(len(lane.kills), len(lane.restores)) for lane in timeline.lanes] == [(0, 0), (1, 1)]


def test_each_commit_has_its_tick(outcome: RunOutcome, view: HistoryView) -> None:
    timeline = timeline_of(view, outcome.faults)

    assert timeline is not None
    assert sum(len(lane.commits) for lane in timeline.lanes) == len(view.checkpoints)


def test_the_number_of_shapes_does_not_grow_with_the_history(outcome: RunOutcome, view: HistoryView) -> None:
    timeline = timeline_of(view, outcome.faults, slices=20)

    assert timeline is not None
    assert all(lane.outputs.count("M") <= 20 for lane in timeline.lanes)
    assert all(lane.in_flight.count("V") <= 21 for lane in timeline.lanes)


def test_an_empty_history_has_no_charts() -> None:
    empty = HistoryView(excerpts=Excerpts())

    assert timeline_of(empty, ()) is None
    assert latency_of(empty, ()) is None


def test_a_band_spans_from_armed_to_healed(outcome: RunOutcome) -> None:
    spike, crash = bands_of(outcome.faults, scale=SECOND, origin_us=0, end_us=1_000_000)

    assert (spike.x, spike.width) == pytest.approx((300, 320))
    assert crash.x == pytest.approx(880)


def test_a_fault_that_never_began_has_no_band(outcome: RunOutcome) -> None:
    never = replace(outcome.faults[0], times=())

    assert bands_of([never], scale=SECOND, origin_us=0, end_us=10) == ()


def test_a_fault_that_was_not_healed_reaches_to_the_end(outcome: RunOutcome) -> None:
    open_end = replace(outcome.faults[0], times=(replace(outcome.faults[0].first, healed_us=None),))

    (band,) = bands_of([open_end], scale=SECOND, origin_us=0, end_us=1_000_000)

    assert band.x + band.width == pytest.approx(1000)


def test_a_fault_without_evidence_is_drawn_apart_and_says_so(outcome: RunOutcome) -> None:
    idle = replace(outcome.faults[0], times=(replace(outcome.faults[0].first, evidence={}),))

    (band,) = bands_of([idle], scale=SECOND, origin_us=0, end_us=1_000_000)

    assert not band.bites
    assert "no evidence" in band.label


def test_labels_of_faults_at_one_time_stand_in_rows_of_their_own(outcome: RunOutcome) -> None:
    twins = [replace(outcome.faults[0], id=name) for name in ("a", "b", "c")]

    bands = bands_of(twins, scale=SECOND, origin_us=0, end_us=1_000_000)

    assert [band.row for band in bands] == [0, 1, 2]


def test_a_call_whose_attempt_died_counts_as_lost(outcome: RunOutcome, view: HistoryView) -> None:
    chart = latency_of(view, outcome.faults)

    assert chart is not None
    counts = {series.result: series.count for series in chart.series}
    assert counts["lost"] == sum(c.result == "lost" for c in view.lanes[1].calls) > 0


def test_points_are_thinned_out_and_those_shown_are_counted(outcome: RunOutcome, view: HistoryView) -> None:
    chart = latency_of(view, outcome.faults, shown=150)

    assert chart is not None
    ok = next(series for series in chart.series if series.result == "ok")
    assert ok.shown == ok.path.count("h0") <= 150 < ok.count


def test_the_median_rises_while_the_spike_lasts(outcome: RunOutcome, view: HistoryView) -> None:
    """The line is drawn upwards, so that a smaller y is a longer latency."""
    chart = latency_of(view, outcome.faults)

    assert chart is not None
    places = [tuple(map(float, p.split())) for p in chart.median[1:].replace("M", "L").split("L")]
    spike = chart.bands[0]
    inside = [y for x, y in places if spike.x + 20 < x < spike.x + spike.width - 20]
    before = [y for x, y in places if x < spike.x - 20]
    assert max(inside) < min(before)


def test_charts_of_a_single_event_do_not_divide_by_nothing(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"history":1}\n{"n":1,"t":7,"k":"call","s":0,"a":1,"id":1,"try":1}\n')

    view = read_view(path)

    assert timeline_of(view, ()) is not None
    assert latency_of(view, ()) is not None


def test_the_timeline_names_host_executor_and_driver_of_each_attempt(
    outcome: RunOutcome, view: HistoryView
) -> None:
    placed = [{"s": 1, "a": 2, "host": "127.0.0.2", "executor": "3", "driver": 1, "at_us": 0}]

    timeline = timeline_of(view, outcome.faults, placed=placed)

    assert timeline is not None
    assert [[place.label for place in lane.places] for lane in timeline.lanes] == [
        [],
        ["attempt 2: host 127.0.0.2, executor 3, driver 1"],
    ]
    assert "host 127.0.0.2, executor 3, driver 1." in timeline.says
