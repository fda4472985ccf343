"""The text of a failure leads from the invariant to the events, and says no more than they do."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.history.verdict import ANOMALIES_IN_FULL, Anomaly, Guarantee, InvariantVerdict, Outcome
from harness.judge.explanation.events import describe_event
from harness.scenario.outcome import RunOutcome
from reports.campaign_view import view_of
from reports.conviction import Conviction, as_text, conviction_of, convictions_of, variant_in_words
from reports.history_view import read_view
from reports.junit import junit_text
from reports.markdown import markdown_text
from reports.page import page_text
from reports.pretty import print_outcomes, terminal
from reports.run_document import document_of, document_text
from reports.run_section import RunSection, section_of
from reports.tests.sample import HOSTILE, hostile_outcome, judgement_of, lost_outcome, outcome_of
from reports.write import render
from tools.cases import each


def explained(outcome: RunOutcome) -> tuple[Conviction, ...]:
    return convictions_of(outcome, read_view(outcome.history, judgement=outcome.judgement))


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    return lost_outcome(tmp_path_factory.mktemp("explain"))


@pytest.fixture(scope="module")
def section(lost: RunOutcome) -> RunSection:
    return section_of(lost)


def test_the_text_names_invariant_class_scenario_seed_and_command(lost: RunOutcome) -> None:
    text = as_text(explained(lost)[0])

    for word in ("V8 VIOLATED", "lost", lost.scenario, f"seed {lost.seed}", f"Again:        {lost.again}"):
        assert word in text


def test_what_follows_from_another_violation_is_folded_everywhere_l3(tmp_path: Path) -> None:
    plain = lost_outcome(tmp_path)
    follows = InvariantVerdict(invariant="V5", outcome=Outcome.FAIL, anomalies=(), follows="V8")
    kept = [v for v in plain.judgement.invariants if v.invariant != "V5"]
    judgement = replace(
        plain.judgement, invariants=(*kept, follows), guarantee=Guarantee(delivery="x", order="x")
    )
    section = section_of(replace(plain, judgement=judgement))
    out, line = io.StringIO(), "and 1 that follows from V8"

    print_outcomes([section.outcome], console=terminal(out))
    view = view_of([section.outcome])
    texts = (out.getvalue(), markdown_text(view, title="t"), html.unescape(page_text(view, title="t")))

    assert section.reading.sentence.startswith(
        "This run violates V8 and V10, and 1 that follows from V8 (V5)."
    )
    assert all(line in text for text in texts)
    assert "V5 VIOLATED" not in texts[0]
    document = json.loads(document_text(document_of(view, title="t")))
    assert [v.get("follows") for v in document["runs"][0]["invariants"] if v["invariant"] == "V5"] == ["V8"]


def test_the_text_says_what_still_holds(lost: RunOutcome) -> None:
    assert "Still holds:  V1 V4 V5 V11 V23" in as_text(explained(lost)[0])


def test_the_lineage_shows_the_snapshot_that_does_not_hold_the_record(lost: RunOutcome) -> None:
    story = explained(lost)[0].stories[0]

    told = [line.text for line in story.lineage]
    assert any(text.startswith("snapshot 8") and "does not hold this record" in text for text in told)
    assert any(text.startswith("checkpoint 8 is restored") for text in told)


def test_each_witness_is_marked_and_has_neighbours_of_its_subtask(lost: RunOutcome) -> None:
    anomaly = lost.judgement.convicted()[0].anomalies[0]

    story = explained(lost)[0].stories[0]

    assert tuple(line.n for line in story.around if line.marked) == anomaly.events
    assert len(story.around) > len(anomaly.events)
    assert all(line.s in {anomaly.s, None} for line in story.around)


def test_excerpts_keep_the_order_of_the_history(lost: RunOutcome) -> None:
    for explanation in explained(lost):
        for story in explanation.stories:
            numbers = [line.n for line in story.around]
            assert numbers == sorted(set(numbers))


def test_an_event_named_by_no_subtask_is_shown_among_all(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    start = '{"n":1,"t":0,"k":"start","s":0,"a":1,"from":null,"pos":0}'
    path.write_text(f'{{"history":1}}\n{start}\n{{"n":2,"t":1,"k":"done","c":4}}\n')
    anomaly = Anomaly(kind="incomplete", say="checkpoint 4 lacks a part", events=(2,), c=4)
    verdict = InvariantVerdict(invariant="V10", outcome=Outcome.FAIL, anomalies=(anomaly,))

    (explanation,) = explained(outcome_of(path, judgement_of(V10=verdict)))

    assert [line.n for line in explanation.stories[0].around] == [1, 2]


def test_at_most_ten_anomalies_are_told_and_the_rest_are_counted_by_class(lost: RunOutcome) -> None:
    one = lost.judgement.convicted()[0].anomalies[0]
    many = (one,) * 12 + (replace(one, kind="duplicate"),) * 3
    verdict = InvariantVerdict(invariant="V8", outcome=Outcome.FAIL, anomalies=many, omitted=40)

    explanation = conviction_of(lost, verdict, read_view(lost.history, judgement=lost.judgement))

    assert len(explanation.stories) == ANOMALIES_IN_FULL
    rest = "55 found in all; not explained: 3 duplicate, 2 lost, 40 that the checker only counted"
    assert rest in as_text(explanation)


def test_without_a_history_the_text_says_that_its_events_are_not_at_hand(lost: RunOutcome) -> None:
    gone = replace(lost, history=lost.history.with_name("gone.jsonl"))

    assert "not in the history that this report could read" in as_text(explained(gone)[0])


def test_a_conviction_that_was_wanted_says_so(lost: RunOutcome) -> None:
    planted = replace(lost, mutant="snapshot-omits-completed", convicts=("V8",))

    assert "this conviction is expected: the run has a planted defect" in as_text(explained(planted)[0])


def test_hostile_ids_and_values_reach_the_text_visibly(tmp_path: Path) -> None:
    text = as_text(explained(hostile_outcome(tmp_path))[0])

    assert not {"\x00", "\x1b", "\u202e", "\ud800"} & set(text)
    assert HOSTILE[:25] in text


@each("kind", ["start", "in", "res", "snap", "restore", "commit", "effect", "later"])
def test_an_event_that_lacks_its_fields_is_described_all_the_same(kind: str) -> None:
    assert describe_event({"n": 1, "t": 2, "k": kind, "elements": "not a list"})


def test_let_and_then_stand_in_the_text_between_the_sentence_and_the_events(section: RunSection) -> None:
    text = as_text(section.convictions[0])

    places = [text.index(word) for word in ("visible in no epoch", "Let:", "Then:", "events of this record")]
    assert places == sorted(places)
    assert "e3 restored e2" in text
    assert "Guarantee:    at-most-once, ordered" in text


def test_every_form_of_a_report_tells_the_same_let_and_then(section: RunSection) -> None:
    (told, *_) = section.convictions
    explanation = told.stories[0].explanation
    assert explanation is not None
    stream, view = io.StringIO(), view_of([section.outcome])
    print_outcomes([section.outcome], console=terminal(stream), is_whole=True)
    forms = {
        "terminal": stream.getvalue(),
        "junit": html.unescape(junit_text(view, title="t")),
        "page": html.unescape(re.sub(r"</?a\b[^>]*>", "", page_text(view, title="t"))),
        "markdown": markdown_text(view, title="t"),
        "json": json.loads(document_text(document_of(view, title="t")))["runs"][0]["invariants"][4][
            "explanation"
        ],
        "github": render([section.outcome], "github").replace("%0A", "\n"),
    }

    for name, text in forms.items():
        missing = [line for line in (*explanation.let, *explanation.then) if line not in text]
        assert not missing, (name, missing)


def test_every_form_of_a_report_names_the_guarantee(section: RunSection) -> None:
    stream, view = io.StringIO(), view_of([section.outcome])
    print_outcomes([section.outcome], console=terminal(stream), is_whole=True)

    for text in (
        stream.getvalue(),
        page_text(view, title="t"),
        markdown_text(view, title="t"),
    ):
        assert "at-most-once, ordered" in text
        assert "refuted" in text
    (run,) = json.loads(document_text(document_of(view, title="t")))["runs"]
    assert run["guarantee"]["delivery"] == "at-most-once"
    assert run["recovery"]["costs"][1]["what"] == "kill of attempt 1 of subtask 1"


def test_an_operator_of_yours_is_not_called_a_planted_defect() -> None:
    assert variant_in_words("commits-blindly") == "planted defect commits-blindly"
    assert variant_in_words("mine:build_operator") == "variant mine:build_operator"
    assert variant_in_words(None) == ""
