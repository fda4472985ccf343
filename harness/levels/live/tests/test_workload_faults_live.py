"""Records that go wrong and sources that misbehave: what was done is found in the run, and the others live on."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.event import Dead, Failed, In, Kill, Owm, Res, Wm
from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.levels.live.tests.faulty_scenario import faulty, what_bit
from harness.scenario.outcome import RunOutcome
from harness.tests.whole_run import told

pytestmark = pytest.mark.real

RECORD = 60
ID = (RECORD - 1) * 2 + 1
"""The sixtieth record of subtask 1 of two."""


def picked(do: str, **fields: Any) -> dict[str, Any]:
    return {"id": "fault", "do": do, "subtask": 1, "when": {"record": RECORD}, **fields}


def passes(outcome: RunOutcome) -> None:
    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


def test_a_poisoned_record_that_raises_once_fails_the_task_and_then_goes_through(
    performed: Performed,
) -> None:
    outcome, lines = performed(faulty(picked("poison", how="raises"), decisive=["V8", "V20"]))

    passes(outcome)
    assert what_bit(outcome).evidence["records"] == [ID]
    (failed,) = (line for line in lines if isinstance(line, Failed))
    assert (failed.id, failed.a) == (ID, 1)
    assert outcome.accounting["missing"] == 0


def test_a_poisoned_record_goes_to_the_dead_letters_and_the_others_live(performed: Performed) -> None:
    """Once, in the table of the database too, although a later crash restores the checkpoint before it."""
    killed = {"id": "kill", "do": "kill_worker", "subtask": 1, "when": {"phase": "emit", "hit": 62}}
    scenario = faulty(
        picked("poison", how="raises", times=100),
        killed,
        operator={"on_error": "dead-letter"},
        decisive=["V8", "V20"],
    )

    outcome, lines = performed(scenario)

    passes(outcome)
    assert all(fault.bites for fault in outcome.faults), told(outcome)
    dead = [(line.id, line.a) for line in lines if isinstance(line, Dead)]
    assert {id_ for id_, _ in dead} == {ID}
    assert not any(isinstance(line, Failed) for line in lines)
    counted = {name: outcome.accounting[name] for name in ("dead_letters", "missing", "doubled")}
    assert counted == {"dead_letters": 1, "missing": 0, "doubled": 0}


def test_a_poisoned_record_is_tried_as_often_as_the_operator_may(performed: Performed) -> None:
    scenario = faulty(
        picked("poison", how="raises", times=2),
        operator={"tries": 3, "retry_delay": "20ms"},
        decisive=["V8", "V15"],
    )

    outcome, lines = performed(scenario)

    passes(outcome)
    tries = [(line.try_, line.r, line.final) for line in lines if isinstance(line, Res) and line.id == ID]
    assert tries == [(1, "fail", False), (2, "fail", False), (3, "ok", True)]


def test_tries_that_all_fail_end_in_one_dead_letter(performed: Performed) -> None:
    scenario = faulty(
        picked("poison", how="raises", times=9),
        operator={"tries": 3, "retry_delay": "20ms", "on_error": "dead-letter"},
        decisive=["V8", "V15", "V20"],
    )

    outcome, lines = performed(scenario)

    passes(outcome)
    tries = [(line.try_, line.r, line.final) for line in lines if isinstance(line, Res) and line.id == ID]
    assert tries == [(1, "fail", False), (2, "fail", False), (3, "fail", True)]
    assert [line.id for line in lines if isinstance(line, Dead)] == [ID]


def test_a_silent_record_times_out_and_its_default_stands_in(performed: Performed) -> None:
    scenario = faulty(
        picked("poison", how="silent"),
        operator={"timeout": "300ms", "on_timeout": ["none"]},
        decisive=["V8", "V15"],
    )

    outcome, lines = performed(scenario)

    passes(outcome)
    assert what_bit(outcome).evidence["records"] == [ID]
    (answer,) = (line for line in lines if isinstance(line, Res) and line.id == ID)
    assert (answer.r, answer.v) == ("timeout", ["none"])


def test_a_record_that_kills_its_worker_is_restored_and_goes_through(performed: Performed) -> None:
    outcome, lines = performed(faulty(picked("poison", how="kills", times=2), decisive=["V8", "V9"]))

    passes(outcome)
    assert what_bit(outcome).evidence["calls"] == 2
    assert [line.a for line in lines if isinstance(line, Kill)] == [1, 2]


def test_completions_that_come_twice_count_once(performed: Performed) -> None:
    outcome, _ = performed(faulty(picked("duplicate_completion", times=20), decisive=["V8", "V15"]))

    passes(outcome)
    assert what_bit(outcome).evidence["calls"] == 20


def test_completions_that_never_come_are_timed_out(performed: Performed) -> None:
    scenario = faulty(
        picked("missing_completion", times=3),
        operator={"timeout": "300ms", "on_timeout": ["none"]},
        decisive=["V8", "V15"],
    )

    outcome, lines = performed(scenario)

    passes(outcome)
    assert what_bit(outcome).evidence["calls"] == 3
    timed_out = {line.id for line in lines if isinstance(line, Res) and line.r == "timeout"}
    assert {ID, ID + 2, ID + 4} <= timed_out


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_a_hot_key_is_asked_for_more_often_and_slows_its_records(performed: Performed, mode: str) -> None:
    fault = picked("hot_key", share="80%", delay="60ms", count=60)

    outcome, _ = performed(faulty(fault, operator={"mode": mode}, decisive=["V8"]))

    passes(outcome)
    evidence = what_bit(outcome).evidence
    assert evidence["share_percent"] >= 56 > evidence["share_before_percent"]


def test_a_burst_of_watermarks_passes_whole(performed: Performed) -> None:
    outcome, lines = performed(faulty(picked("watermark_burst", count=2000), decisive=["V5", "V6", "V7"]))

    passes(outcome)
    assert what_bit(outcome).evidence["watermarks"] >= 2000
    assert sum(isinstance(line, Owm) and line.s == 1 for line in lines) == 2000 + 20


def test_a_silent_source_delays_nobody_else(performed: Performed) -> None:
    fault = picked("idle_input", **{"for": "700ms"})

    still_at_work = {"records": 800}  # the other subtask, although its worker may have started earlier
    outcome, lines = performed(faulty(fault, workload=still_at_work, decisive=["V5", "V8"]))

    passes(outcome)
    silent_ms = what_bit(outcome).evidence["silent_ms"]  # enough of what was asked for, or it did not bite
    taken = [line for line in lines if isinstance(line, In)]
    woke_us = next(line.t for line in taken if line.id == ID)
    fell_silent_us = woke_us - silent_ms * 1000
    assert sum(fell_silent_us < line.t < woke_us for line in taken if line.s == 0) > 20


def test_wild_watermarks_skew_fanout_and_wide_rows_are_borne(performed: Performed) -> None:
    """No fault, but everything that a source and a database may do that is not the usual."""
    workload = {"watermarks": "wild", "skew": "50%", "fanout": 4, "row_bytes": 20_000}

    outcome, lines = performed(faulty(workload=workload, decisive=["V1", "V5", "V8", "V9"]))

    passes(outcome)
    assert 0 < outcome.accounting["offered"] < 400
    assert outcome.accounting["missing"] == 0
    results = [len(line.v or ()) for line in lines if isinstance(line, Res)]
    assert {0, 1, 2, 3, 4} >= set(results) > {1}
    marks = [line.w for line in lines if isinstance(line, Wm) and line.s == 0]
    assert marks != sorted(marks)
    assert len(marks) > len(set(marks))


@pytest.mark.parametrize(
    "fault",
    [
        picked("poison", how="raises", times=1) | {"subtask": 0, "when": {"record": 1}},
        picked("duplicate_completion") | {"subtask": 0, "when": {"record": 1}},
    ],
    ids=["poison", "duplicate"],
)
def test_a_call_fault_that_the_attempts_never_hear_of_is_vacuous(
    performed: Performed, fault: dict[str, Any]
) -> None:
    """The planted defect of the harness: it arms nothing."""
    outcome, _ = performed(faulty(fault), draws=1, mutant="faults-do-nothing")

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert not outcome.faults[0].bites
