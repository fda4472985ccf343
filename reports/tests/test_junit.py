"""junit.xml: valid for a strict parser, a case for each run and invariant, red exactly where it should be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.history.verdict import InvariantVerdict, Judgement, Outcome
from harness.scenario.outcome import Pitfall
from reports.campaign_view import view_of
from reports.conviction import as_text
from reports.junit import junit_text
from reports.run_section import RunSection, section_of
from reports.tests.sample import HOSTILE, hostile_outcome, judgement_of, lost_outcome, pass_outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("junit")


def root_of(*sections: RunSection) -> ET.Element:
    return ET.fromstring(junit_text(view_of([section.outcome for section in sections]), title="a title"))  # noqa: S314  our own text


def case_of(root: ET.Element, invariant: str) -> ET.Element:
    return next(case for case in root.iter("testcase") if case.get("name", "").startswith(f"{invariant} "))


def judged(folder: Path, **verdicts: InvariantVerdict) -> RunSection:
    return section_of(replace(pass_outcome(folder), judgement=judgement_of(**verdicts)))


def test_there_is_a_case_for_each_invariant_of_each_run(folder: Path) -> None:
    section = section_of(pass_outcome(folder))

    root = root_of(section, section)

    assert len(root.findall("testsuite")) == 2
    assert len(root.findall("testsuite/testcase")) == 2 * (len(section.outcome.judgement.invariants) + 1)


def test_a_suite_carries_seed_level_world_and_run_id(folder: Path) -> None:
    root = root_of(section_of(pass_outcome(folder)))

    properties = {p.get("name"): p.get("value") for p in root.iter("property")}
    assert properties["seed"] == "735121"
    assert properties["level"] == "spark"
    assert properties["world"] == "local: MariaDB 11.8.3, Toxiproxy 2.12.0"
    assert properties["run id"] == "01KAJ3V5Q8"


def test_a_suite_carries_the_guarantee_and_what_disturbances_cost(folder: Path) -> None:
    root = root_of(section_of(lost_outcome(folder)))

    properties = {p.get("name"): p.get("value", "") for p in root.iter("property")}
    assert properties["guarantee"].startswith("Guarantee: at-most-once, ordered; seen under")
    assert "at-least-once: refuted by V8 lost" in properties["guarantee"]
    assert "kill of attempt 1 of subtask 1 at 0.880 s" in properties["recovery"]


def test_a_pass_is_green(folder: Path) -> None:
    root = root_of(section_of(pass_outcome(folder)))

    assert (root.get("failures"), root.get("errors")) == ("0", "0")


def test_a_violation_is_a_failure_with_the_explanation_as_its_text(folder: Path) -> None:
    section = section_of(lost_outcome(folder))

    failure = case_of(root_of(section), "V8").find("failure")

    assert failure is not None
    assert failure.text == as_text(section.convictions[0])


def test_a_planted_defect_that_was_convicted_is_green(folder: Path) -> None:
    root = root_of(section_of(lost_outcome(folder, mutant="planted", convicts=("V8",))))

    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert "as it should be" in (case_of(root, "V8").findtext("system-out") or "")


def test_a_defect_of_the_harness_that_a_vacuous_verdict_convicts_is_green(folder: Path) -> None:
    vacuous = InvariantVerdict(invariant="V23", outcome=Outcome.VACUOUS, why="no evidence")
    section = judged(folder, V23=vacuous)

    root = root_of(section_of(replace(section.outcome, mutant="faults-do-nothing", convicts=("V23",))))

    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert case_of(root, "V23").find("skipped") is None


def test_a_planted_defect_that_was_not_convicted_is_a_failure_of_what_was_meant_for_it(folder: Path) -> None:
    root = root_of(section_of(pass_outcome(folder, mutant="planted", convicts=("V8",))))

    failure = case_of(root, "V8").find("failure")
    assert failure is not None
    assert failure.get("type") == "not-convicted"
    assert root.get("failures") == "1"


@pytest.mark.parametrize(("name", "outcome"), [("V8", Outcome.UNKNOWN), ("V23", Outcome.VACUOUS)])
def test_what_is_undecided_and_counts_is_an_error(folder: Path, name: str, outcome: Outcome) -> None:
    verdict = InvariantVerdict(invariant=name, outcome=outcome, why="nothing was seen")

    error = case_of(root_of(judged(folder, **{name: verdict})), name).find("error")

    assert error is not None
    assert error.get("type") == str(outcome)


def test_what_is_undecided_and_does_not_count_is_skipped(folder: Path) -> None:
    assert case_of(root_of(section_of(pass_outcome(folder))), "V13").find("skipped") is not None


def test_a_run_that_no_invariant_shows_as_undecided_is_an_error_of_the_whole(folder: Path) -> None:
    """A pass without a record becomes vacuous, though each invariant by itself is green."""
    empty = Judgement(outcome=Outcome.VACUOUS, invariants=())

    root = root_of(section_of(replace(pass_outcome(folder), judgement=empty)))

    assert root.get("errors") == "1"


def test_hostile_text_leaves_valid_xml_that_says_what_was_hidden(folder: Path) -> None:
    text = junit_text(view_of([hostile_outcome(folder)]), title=HOSTILE)

    root = ET.fromstring(text)  # noqa: S314  our own text
    assert "]]>" not in text
    assert r"\x00\x1b[2J\u202e" in root.get("name", "")


PITFALL = Pitfall(name="no-pause", says="asked at mine.py:3.", advice="Wait.", evidence={})


def test_a_pitfall_stands_in_the_properties_and_fails_the_whole_run_if_asked_for_u2(folder: Path) -> None:
    shows = replace(pass_outcome(folder), pitfalls=(PITFALL,))

    told, failing = (root_of(section_of(replace(shows, fails_on_pitfall=fails))) for fails in (False, True))

    properties = {p.get("name"): p.get("value") for p in told.iter("property")}
    assert properties["pitfalls"] == "no-pause: asked at mine.py:3. Wait."
    assert (told.get("failures"), failing.get("failures")) == ("0", "1")
    [failure] = failing.iter("failure")
    assert failure.get("type") == "pitfall"
    assert "Pitfall no-pause: asked at mine.py:3." in str(failure.get("message"))


def test_runs_with_one_cause_are_red_and_only_the_first_has_the_details_u3(folder: Path) -> None:
    ended = section_of(lost_outcome(folder, error="the lookup raised ValueError: x for record 7 (mine.py:3)"))

    one, other, _ = root_of(ended, ended).findall("testsuite")

    assert "VIOLATED" in str(next(one.iter("failure")).text)
    (failure,) = other.iter("failure")
    assert failure.get("message") == "the lookup raised ValueError at mine.py:3"
    assert "has the details of this cause" in str(failure.text)


def test_what_ended_a_run_early_is_the_first_line_of_its_failures(folder: Path) -> None:
    section = section_of(
        lost_outcome(folder, error="the lookup raised ValueError: x for record 7 (mine.py:3)")
    )

    found = case_of(root_of(section), "V8").find("failure")

    assert found is not None
    first = "The run stopped early: the lookup raised ValueError: x for record 7 (mine.py:3)"
    assert str(found.get("message")).startswith(first)
    assert str(found.text).startswith(first)
