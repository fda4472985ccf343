"""A threshold stands in every form of a report, and decides the run unless a defect is planted."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from junitparser import Error, Failure, JUnitXml

from harness.engine.run_counts import counted_of
from harness.history.verdict import Outcome
from harness.scenario.outcome import RunOutcome, Threshold
from harness.system.errors import Exit
from reports.campaign_view import view_of
from reports.page import page_text
from reports.pretty import print_outcomes, terminal
from reports.reading import Tone, read_run
from reports.run_document import Document
from reports.tests.sample import pass_outcome
from reports.write import write_report

HOLDS = Threshold(name="calls_per_record", limit=1.2, value=1.0, verdict="holds")
CROSSED = Threshold(name="recovery_p95", limit=2000, value=3200, verdict="crossed")
UNKNOWN = Threshold(
    name="latency_p95", limit=50, value=None, verdict="unknown", why="no record left the operator"
)
SENTENCE = "recovery_p95 is 3.2 s, and at most 2 s is allowed"


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    return pass_outcome(tmp_path_factory.mktemp("thresholds"))


def undecided(outcome: RunOutcome) -> RunOutcome:
    """As the engine judges a run of which a threshold could not be measured."""
    judgement = replace(outcome.judgement, outcome=Outcome.UNKNOWN)
    return replace(outcome, judgement=judgement, thresholds=(HOLDS, UNKNOWN))


def test_a_crossed_threshold_makes_a_pass_fail_and_leads_its_sentence(passed: RunOutcome) -> None:
    crossed = replace(passed, thresholds=(HOLDS, CROSSED))

    reading = read_run(crossed)

    assert (reading.tone, reading.word) == (Tone.BAD, "threshold crossed")
    assert reading.sentence.startswith(f"Threshold crossed: {SENTENCE}.")
    assert counted_of(0, crossed).exit_code() is Exit.VIOLATION


def test_an_unknown_threshold_is_no_pass(passed: RunOutcome) -> None:
    outcome = undecided(passed)

    assert read_run(outcome).tone is Tone.OPEN
    assert "no record left the operator" in read_run(outcome).sentence
    assert counted_of(0, outcome).exit_code() is Exit.UNDECIDED


def test_a_planted_defect_that_was_convicted_may_be_slow(passed: RunOutcome) -> None:
    planted = replace(passed, mutant="x", convicts=("V8",), thresholds=(CROSSED, UNKNOWN))

    assert not planted.falls
    assert not planted.unmeasured


def test_each_file_of_the_report_tells_a_crossed_threshold(passed: RunOutcome, tmp_path: Path) -> None:
    crossed = replace(passed, thresholds=(HOLDS, CROSSED), measures={"recovery_p95": 3200.0})

    page = write_report([crossed], tmp_path, title="slow")

    told = msgspec.json.decode((tmp_path / "run.json").read_bytes(), type=Document).runs[0]
    assert [(one.name, one.verdict) for one in told.thresholds] == [
        ("calls_per_record", "holds"),
        ("recovery_p95", "crossed"),
    ]
    assert told.measures == {"recovery_p95": 3200.0}
    assert SENTENCE in page.read_text()
    assert "crossed: recovery" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(("threshold", "kind"), [(CROSSED, Failure), (UNKNOWN, Error)])
def test_junit_has_a_case_for_each_threshold(
    passed: RunOutcome, threshold: Threshold, kind: type[Failure | Error], tmp_path: Path
) -> None:
    outcome = replace(undecided(passed) if kind is Error else passed, thresholds=(HOLDS, threshold))

    write_report([outcome], tmp_path, title="slow")

    cases = {
        case.name: case.result for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml")) for case in suite
    }
    assert cases["threshold calls_per_record"] == []
    assert [type(result) for result in cases[f"threshold {threshold.name}"]] == [kind]


def test_the_terminal_and_the_page_tell_those_that_hold(passed: RunOutcome) -> None:
    outcome, stream = replace(passed, thresholds=(HOLDS,)), io.StringIO()

    print_outcomes([outcome], console=terminal(stream))

    assert "holds: calls_per_record is 1, and at most 1.2 is allowed" in stream.getvalue()
    assert "calls_per_record is 1, and at most 1.2 is allowed" in page_text(view_of([outcome]), title="x")
