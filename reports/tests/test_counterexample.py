"""The counterexample stands on the timeline, in its lane, and links with the text that explains it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from harness.scenario.outcome import FaultTime, RunOutcome
from reports.campaign_view import view_of
from reports.chart_latency import latency_of
from reports.chart_scale import LinearScale
from reports.chart_timeline import strip_of, timeline_of
from reports.conviction import Counterexample, Step, counterexample_of, linked
from reports.history_view import HistoryView
from reports.page import page_text
from reports.run_section import RunSection, section_of
from reports.tests.sample import lost_outcome


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> RunSection:
    return section_of(lost_outcome(tmp_path_factory.mktemp("counterexample")))


@pytest.fixture(scope="module")
def told(section: RunSection) -> Counterexample:
    found = counterexample_of(section.convictions[0].stories[0])
    assert found is not None
    return found


@pytest.fixture(scope="module")
def view(section: RunSection) -> HistoryView:
    return section.view


@pytest.fixture(scope="module")
def outcome(section: RunSection) -> RunOutcome:
    return section.outcome


def test_in_call_answer_snapshot_kill_and_restore_of_the_record_are_steps(told: Counterexample) -> None:
    labels = [step.label for step in told.steps]

    assert told.subject == "record 1194"
    assert [name for name in labels if name in {"in", "call", "res", "snap 8", "kill", "restore 8"}] == [
        "in", "call", "res", "snap 8", "kill", "restore 8",
    ]  # fmt: skip
    assert [step.n for step in told.steps] == sorted(step.n for step in told.steps)


def test_a_step_has_the_name_that_the_explanation_gives_its_event(
    section: RunSection, told: Counterexample
) -> None:
    explanation = section.convictions[0].stories[0].explanation
    assert explanation is not None

    named = {step.name: step.n for step in told.steps if step.name}
    let = {
        line.partition(" = ")[0]: int(re.findall(r"\(event (\d+)", line)[-1])
        for line in explanation.let
        if line[0] == "e"
    }
    assert named.items() <= let.items()
    assert len(named) >= 3


def test_marks_link_to_the_lines_and_the_lines_back(section: RunSection) -> None:
    page = page_text(view_of([section.outcome]), title="one")

    marks = dict(re.findall(r'<a id="(run-1-at-\d+)" class="step" href="#(run-1-e\d+)"', page))
    lines = dict(re.findall(r'<li id="(run-1-e\d+)"><a href="#(run-1-at-\d+)">', page))
    assert marks
    assert lines == {line: mark for mark, line in marks.items()}


def test_the_labels_keep_their_order_and_do_not_overlap() -> None:
    scale = LinearScale(low=0, high=10, start=100, end=700)
    steps = tuple(
        Step(n=n, at_s=at, s=0, label="restore 10", name=f"e{n}", told="")
        for n, at in enumerate((1, 1, 1.1, 9.9, 10))
    )

    strip = strip_of(
        Counterexample(subject="x", steps=steps), scale=scale, top=0, lanes={0: (60, 90)}, whole=(60, 200)
    )

    assert strip is not None
    lefts = [(mark.left, mark.left + mark.width) for mark in strip.marks]
    assert all(one[1] < two[0] for one, two in pairwise(lefts))
    assert lefts[0][0] >= 100
    assert lefts[-1][1] <= 700
    assert [(mark.top, mark.bottom) for mark in strip.marks] == [(60, 90)] * 5


def test_a_hostile_line_is_escaped_where_its_names_become_links() -> None:
    assert linked("e1 = <b>e2</b>", {"e2": "#x"}) == 'e1 = &lt;b&gt;<a href="#x">e2</a>&lt;/b&gt;'


def test_a_death_is_drawn_in_the_lane_that_died_and_in_no_other(
    outcome: RunOutcome, view: HistoryView
) -> None:
    timeline = timeline_of(view, outcome.faults)

    assert timeline is not None
    one, two = timeline.lanes
    assert one.dead == ()
    assert [(span.begin_us, span.end_us) for span in two.dead] == [(880_000, 1_040_000)]
    spike, crash = timeline.bands
    assert (spike.spans, crash.spans) == (None, ())


def test_a_fault_of_one_subtask_shades_its_lane_only(outcome: RunOutcome, view: HistoryView) -> None:
    paused = replace(
        outcome.faults[1],
        kind="pause_worker",
        times=(FaultTime(armed_us=100_000, healed_us=200_000, evidence={"subtask": 1}),),
    )

    timeline, latency = timeline_of(view, [paused]), latency_of(view, [paused])

    assert timeline is not None
    assert latency is not None
    lane = timeline.lanes[1]
    assert timeline.bands[0].spans == ((lane.top, lane.bottom - lane.top),)
    assert latency.bands[0].spans == ()


def test_the_words_for_the_timeline_tell_the_counterexample_and_the_deaths(
    outcome: RunOutcome, view: HistoryView, told: Counterexample
) -> None:
    timeline = timeline_of(view, outcome.faults, told=told)

    assert timeline is not None
    assert timeline.says.startswith("Counterexample, record 1194: e1 in at ")
    assert "Dead from 0.880 s to 1.040 s." in timeline.says
