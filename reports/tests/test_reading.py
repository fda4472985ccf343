"""The first words of a run: green for a pass, or for a planted defect convicted by what is meant for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.history.verdict import InvariantVerdict, Outcome
from harness.scenario.outcome import Pitfall, RunOutcome
from reports.reading import Tone, headline_of, read_run
from reports.run_section import limits_of, threats_to
from reports.tests.sample import judgement_of, outcome_of
from tools.cases import each

NO_HISTORY = Path("none.jsonl")
PASS = outcome_of(NO_HISTORY, judgement_of())
FAIL = outcome_of(NO_HISTORY, judgement_of(V8=InvariantVerdict(invariant="V8", outcome=Outcome.FAIL)))
NO_EVIDENCE = InvariantVerdict(invariant="V23", outcome=Outcome.VACUOUS, why="spike left none")
VACUOUS = outcome_of(NO_HISTORY, judgement_of(V23=NO_EVIDENCE))


def planted(outcome: object, *convicts: str, **changed: object) -> object:
    return replace(outcome, mutant="planted", convicts=convicts, **changed)  # type: ignore[type-var]  # a dataclass


@each(
    ("outcome", "tone", "word"),
    [
        (PASS, Tone.GOOD, "conformant"),
        (FAIL, Tone.BAD, "violated"),
        (VACUOUS, Tone.OPEN, "undecided"),
        (replace(PASS, interrupted=True), Tone.OPEN, "undecided"),
        (replace(PASS, error="the budget is over"), Tone.OPEN, "undecided"),
        (replace(FAIL, interrupted=True), Tone.BAD, "violated"),
        (planted(FAIL, "V8", "V10"), Tone.GOOD, "defect convicted"),
        (planted(FAIL, "V1"), Tone.BAD, "defect not convicted"),
        (planted(PASS, "V8"), Tone.BAD, "defect not convicted"),
        (planted(PASS, "V8", interrupted=True), Tone.OPEN, "undecided"),
    ],
)
def test_a_run_reads_as_what_it_showed(outcome: object, tone: Tone, word: str) -> None:
    reading = read_run(outcome)  # type: ignore[arg-type]  # parametrized

    assert (reading.tone, reading.word) == (tone, word)


def test_a_planted_defect_that_was_convicted_is_said_to_be_as_it_should_be() -> None:
    reading = read_run(replace(FAIL, mutant="planted", convicts=("V8",)))

    assert reading.sentence == "Planted defect planted convicted by V8, as it should be."


def test_a_defect_of_the_harness_is_convicted_by_a_vacuous_verdict() -> None:
    reading = read_run(replace(VACUOUS, mutant="faults-do-nothing", convicts=("V23",)))

    assert reading.tone is Tone.GOOD
    assert reading.sentence.endswith("convicted by V23 (vacuous), as it should be.")


PITFALL = Pitfall(name="swallowed-error", says="caught at mine.py:3.", advice="Let it through.", evidence={})


def test_a_pitfall_is_part_of_the_first_sentence_and_no_failure_by_itself_u2() -> None:
    reading = read_run(replace(PASS, pitfalls=(PITFALL,)))

    assert reading.tone is Tone.GOOD
    assert reading.sentence.endswith("none is violated. Pitfall swallowed-error: caught at mine.py:3.")


@pytest.mark.parametrize(
    ("outcome", "word"), [(PASS, "pitfall"), (VACUOUS, "pitfall"), (FAIL, "violated"), (PASS, "conformant")]
)
def test_a_pitfall_makes_a_run_fail_if_that_was_asked_for_u2(outcome: object, word: str) -> None:
    has = () if word == "conformant" else (PITFALL,)
    assert isinstance(outcome, RunOutcome)
    fallen = replace(outcome, pitfalls=has, fails_on_pitfall=True)

    assert read_run(fallen).word == word
    assert fallen.as_expected is (word == "conformant")


def test_an_undecided_run_names_the_invariant_and_is_no_pass() -> None:
    sentence = read_run(VACUOUS).sentence

    assert "V23" in sentence
    assert "not a pass" in sentence


def test_over_several_runs_bad_beats_undecided_beats_good() -> None:
    tones = [headline_of(runs).tone for runs in ([PASS, PASS], [PASS, VACUOUS], [PASS, VACUOUS, FAIL], [])]

    assert tones == [Tone.GOOD, Tone.OPEN, Tone.BAD, Tone.OPEN]


def test_a_fault_that_left_no_evidence_is_a_threat() -> None:
    idle = replace(PASS.faults[0], times=(replace(PASS.faults[0].first, evidence={}),))
    never = replace(PASS.faults[1], times=())

    threats = threats_to(replace(PASS, faults=(idle, never)))

    assert threats[0] == "Fault spike (latency) began and left no evidence that it took effect."
    assert threats[1] == "Fault crash (kill_worker) never began: its trigger did not occur."


def test_the_world_a_run_had_is_a_threat_where_it_is_not_the_real_one() -> None:
    threats = " ".join(limits_of(replace(PASS, level="live")))

    for word in ("not MySQL", "not containers", "without Spark"):
        assert word in threats


def test_a_simulated_run_is_a_threat_to_what_it_says_of_a_real_one() -> None:
    assert any("are models" in line for line in limits_of(replace(PASS, level="sim")))


def test_a_pass_in_containers_with_everything_observed_has_no_threat_of_its_world() -> None:
    world = replace(PASS.world, kind="containers", server="MySQL 9.7.4")

    assert not any("MySQL" in line or "containers" in line for line in limits_of(replace(PASS, world=world)))


def test_each_threat_is_said_once() -> None:
    twice = replace(PASS, threats=("a gap", "a gap"))

    assert threats_to(twice, reading_problems=("a gap",)).count("a gap") == 1


def test_a_run_that_stopped_early_says_why_in_its_first_sentence() -> None:
    early = "subtask 1 has failed 4 times: the lookup raised ValueError: one\ntwo for record 7 (mine.py:3)"

    violated, undecided = read_run(replace(FAIL, error=early)), read_run(replace(PASS, error=early))

    assert early in violated.sentence
    assert early in undecided.sentence
