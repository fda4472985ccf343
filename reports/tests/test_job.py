"""A run of a whole job, seen from outside: what it lost comes first, in every form, with the moment."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from junitparser import JUnitXml

from harness.history.verdict import Anomaly, Outcome
from harness.system.errors import HarnessError
from reports.agreement import refuse_other_lines
from reports.campaign_view import view_of
from reports.chart_job import job_timeline_of
from reports.history_view import read_view
from reports.junit import junit_text
from reports.losses import losses_of
from reports.markdown import markdown_text
from reports.page import page_text
from reports.pretty import print_outcomes, terminal
from reports.reading import Tone
from reports.run_document import document_of, document_text
from reports.run_section import RunSection, section_of
from reports.sweep_strip import strips_of
from reports.tests import job_sample
from reports.tests.test_page import parsed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


@pytest.fixture(scope="module")
def doubled(folder: Path) -> RunSection:
    return section_of(job_sample.doubled(folder))


def _losses(section: RunSection) -> list[str]:
    assert section.job is not None
    return [loss.line for loss in section.job.losses]


def test_a_double_names_record_key_transaction_fault_and_the_start_that_it_ended(doubled: RunSection) -> None:
    (line,) = _losses(doubled)

    assert line.startswith("1 doubled (V8 duplicate): record 1 (key 5); transaction 8 of start 2 ")
    assert "after fault kill (kill_driver) took effect" in line
    assert "held answer of INSERT" in line
    assert "start 1 ended (SIGKILL)" in line


def test_a_lost_record_is_told_with_the_fault_between_its_neighbours(folder: Path) -> None:
    outcome = job_sample.killed_twice(folder)
    missing = Anomaly(kind="lost", say="no row", events=(1,), id=62)
    lost = replace(
        outcome.judgement,
        invariants=tuple(
            replace(v, anomalies=(missing,)) if v.invariant == "V8" else v
            for v in outcome.judgement.invariants
        ),
    )
    view = read_view(outcome.history, judgement=lost)
    assert view.outside is not None
    for key in range(60, 70):
        view.outside.first_row.pop(key)

    (loss,) = losses_of(lost, view.outside, kinds={}, origin_us=view.origin_us)

    assert "fault kill-1 took effect" in loss.moment, (
        "kill-2 came later, and did not stand between its neighbours"
    )


def test_records_that_one_moment_doubled_are_one_line(folder: Path) -> None:
    (line,) = _losses(section_of(job_sample.killed_twice(folder)))

    assert line.startswith("10 doubled (V8 duplicate): records 140 (key 20), 141 (key 21)")
    assert "kill-2" in line


def test_a_late_commit_is_named_after_the_start_that_wrote_it(folder: Path) -> None:
    lines = _losses(section_of(job_sample.zombie(folder)))

    assert [line.partition(" (")[0] for line in lines] == [
        "1 doubled",
        "1 written by a start that had been replaced",
    ]
    assert all("transaction 9 of start 1" in line for line in lines)


def _printed(section: RunSection) -> str:
    stream = StringIO()
    print_outcomes([section.outcome], console=terminal(stream, color=False), is_whole=True)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["doubled", "lost", "zombie", "killed_twice"])
def test_every_form_says_first_what_the_table_shows(folder: Path, name: str) -> None:
    section = section_of(getattr(job_sample, name)(folder))
    first = _losses(section)[0].partition(";")[0]

    page = page_text(view_of([section.outcome]), title="t")
    for text, later in (
        (_printed(section), "threats to validity"),
        (markdown_text(view_of([section.outcome]), title="t").replace("\\", ""), "Threats to validity"),
        (junit_text(view_of([section.outcome]), title="t"), "Still holds"),
    ):
        assert 0 <= text.index(first) < text.index(later)
    assert page.index("What the table shows") < page.index("Timeline") < page.index("Threats to validity")


def test_the_page_of_a_job_is_balanced_and_shows_no_subtask(doubled: RunSection) -> None:
    page = page_text(view_of([doubled.outcome]), title="t")

    parser = parsed(page)
    assert not parser.open
    assert "script" not in parser.seen
    assert "subtask" not in page
    assert "Checkpoints" not in page


def test_the_paragraphs_of_a_job_are_indented_to_their_last_line(folder: Path) -> None:
    told = _printed(section_of(job_sample.passed(folder)))

    paragraphs = told[told.index("  seen from outside: ") : told.index("  counted in")].splitlines()

    assert len(paragraphs) > 3
    assert all(line.startswith("  ") and line == line.rstrip() and len(line) <= 110 for line in paragraphs)


def test_a_pass_says_seen_from_outside_what_was_assumed_and_what_is_not_claimed(folder: Path) -> None:
    section = section_of(job_sample.passed(folder))
    page, told = page_text(view_of([section.outcome]), title="t"), _printed(section)

    assert "seen from outside" in section.reading.sentence
    assert section.job is not None
    assert not section.job.losses
    flat = " ".join(told.split())
    for line in (*section.job.assumed, *section.job.not_claimed):
        assert line in flat
    assert "V9 one effect" in " ".join(section.job.not_claimed)
    assert "Not claimed" in page
    assert "What the table shows" not in page


def test_the_document_has_losses_and_view(doubled: RunSection) -> None:
    document = json.loads(document_text(document_of(view_of([doubled.outcome]), title="t")))

    outside = document["runs"][0]["outside"]
    assert outside["view"] == "outside"
    assert outside["losses"][0]["class"] == "duplicate"
    assert outside["losses"][0]["named"] == ["1 (key 5)"]


def test_junit_names_the_view_and_the_loss(doubled: RunSection) -> None:
    properties = {
        told.name: told.value
        for suite in JUnitXml.fromstring(junit_text(view_of([doubled.outcome]), title="t").encode())
        for told in suite.properties()
    }

    assert properties["view"] == "outside"
    assert properties["loss"].startswith("1 doubled")


def test_the_timeline_draws_each_start_its_end_each_effect_and_what_is_cited(folder: Path) -> None:
    outcome = job_sample.killed_twice(folder)
    chart = job_timeline_of(read_view(outcome.history, judgement=outcome.judgement), outcome.faults)

    assert chart is not None
    assert [(bar.label, bar.mark) for bar in chart.lives] == [
        ("start 1", "kill"),
        ("start 2", "kill"),
        ("start 3", "exit"),
    ]
    assert len(chart.held) == 2
    assert len(chart.blamed) == 2
    assert chart.most == 210


def test_starts_that_live_at_once_are_drawn_below_each_other(folder: Path) -> None:
    events = [
        {"n": 1, "t": 0, "k": "start", "start": 1},
        {"n": 2, "t": 500, "k": "start", "start": 2},
        {"n": 3, "t": 900, "k": "exit", "start": 2, "code": 0},
        {"n": 4, "t": 1000, "k": "exit", "start": 1, "code": 0},
    ]
    outcome = job_sample.job_outcome(folder, events, name="beside", faults=())

    chart = job_timeline_of(read_view(outcome.history), ())

    assert chart is not None
    assert chart.lives[0].y < chart.lives[1].y


def test_a_long_history_draws_no_more_shapes_than_slices(folder: Path) -> None:
    outcome = job_sample.killed_twice(folder, records=3000)

    chart = job_timeline_of(read_view(outcome.history), (), slices=50)

    assert chart is not None
    assert chart.commits.count("M") <= 50
    assert chart.offered.count("H") <= 51


def test_an_id_of_several_columns_has_its_events_in_the_excerpt(folder: Path) -> None:
    events = [
        {"n": 1, "t": 0, "k": "start", "start": 1},
        {"n": 2, "t": 1, "k": "offer", "part": 0, "pos": 0, "id": ["a", 1]},
        {
            "n": 3,
            "t": 2,
            "k": "row",
            "op": "insert",
            "tx": 1,
            "start": 1,
            "id": ["a", 1],
            "v": [1],
            "last": True,
        },
    ]
    anomaly = Anomaly(kind="duplicate", say="twice", events=(3,), id=("a", 1))
    section = section_of(job_sample.job_outcome(folder, events, anomalies={"V8": [anomaly]}, name="two"))

    assert '("a", 1)' in _losses(section)[0]
    assert [line.n for line in section.convictions[0].stories[0].lineage] == [2, 3]


def test_a_sweep_names_each_crash_point_that_did_not_hold_in_every_form(folder: Path) -> None:
    outcomes = job_sample.swept(folder, points=12, bad=(7, 8))

    (strip,) = strips_of(outcomes)
    document = json.loads(document_text(document_of(view_of(outcomes), title="t")))

    told = "killed after INSERT enriched (message 7): 1 doubled"
    assert strip.sentence == "24 crash points tried: 2 broke a promise."
    assert next(point.told for point in strip.points if point.tone is Tone.BAD) == told
    stream = StringIO()
    print_outcomes(outcomes, console=terminal(stream, color=False))
    assert told in stream.getvalue()
    assert "   after  n=1    ......XX....\n" in stream.getvalue()
    assert stream.getvalue().count("V8 exactly once: ") == 1, "the second point showed what the first did"
    refuse_other_lines(stream.getvalue(), outcomes)
    for wrong in (
        stream.getvalue().replace("✗ VIOL", "✓ VIOL"),
        stream.getvalue().replace("22 as exp", "23 as exp"),
    ):
        with pytest.raises(HarnessError, match="the printed"):
            refuse_other_lines(wrong, outcomes)
    assert told in markdown_text(view_of(outcomes), title="t")
    assert told in page_text(view_of(outcomes), title="t")
    assert [(p["n"], p["moment"]) for p in document["sweep"] if not p["as_expected"]] == [
        (7, "after"),
        (8, "after"),
    ]


def test_a_point_of_the_strip_leads_to_its_run(folder: Path) -> None:
    page = page_text(view_of(job_sample.swept(folder, points=2, bad=())), title="t")

    parser = parsed(page)
    targets = {value for name, value in parser.attributes if name == "id"}
    links = {value.removeprefix("#") for name, value in parser.attributes if name == "href"}
    assert links <= targets


def test_a_kill_that_left_no_evidence_is_open_in_the_strip(folder: Path) -> None:
    outcomes = job_sample.swept(folder, points=1, bad=())
    vacuous = replace(outcomes[0], judgement=replace(outcomes[0].judgement, outcome=Outcome.VACUOUS))

    (strip,) = strips_of([vacuous, outcomes[1]])

    assert [point.tone for point in strip.points] == [Tone.OPEN, Tone.GOOD]


def test_one_run_at_a_message_is_no_sweep(folder: Path) -> None:
    assert not strips_of(job_sample.swept(folder, points=1, bad=())[:1])
