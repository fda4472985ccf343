"""V24: what the witnesses of an unexplained failure are, and what the catalogue's small histories leave open."""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    event,
    found,
    history,
    start,
    took,
    verdict,
)

FAILS = {"on_error": "fail", "on_timeout": "fail"}
RAISED = [start(), took("a", 0), called("a"), answered("a", r="fail", error="x")]


def judged(*parts: Any, explained: str = "alone", **header: Any) -> list[tuple[str, tuple[int, ...]]]:
    return found("V24", history(*parts, explained=explained, **header))


def fault(phase: str, **fields: Any) -> dict[str, Any]:
    more: dict[str, Any] = {"evidence": {}} if phase == "end" else {}
    return event("fault", **{"f": "cut", "phase": phase, **more, **fields})


def test_a_function_that_raises_by_itself_is_shown_with_its_record_and_both_events_trust2() -> None:
    lines = history(RAISED, event("failed", error="x"), operator=FAILS, explained="alone")

    (anomaly,) = verdict("V24", lines).anomalies

    assert (anomaly.kind, anomaly.id, anomaly.events) == ("unexplained-failure", "a", (4, 5))


def test_an_unexplained_failure_is_told_with_its_error_trust2() -> None:
    lines = history(start(), event("failed", error="KeyError: 'k'"), explained="alone")

    (anomaly,) = verdict("V24", lines).anomalies

    assert anomaly.say.startswith("attempt 1 of subtask 0 fails with \"KeyError: 'k'\", and neither a fault")


def test_of_several_failed_calls_one_that_was_asked_for_explains_a_failure_without_an_id_trust2() -> None:
    second = [took("b", 1), called("b"), answered("b", r="fail", error="x", by="planted")]

    assert judged(RAISED, second, event("failed", error="x"), operator=FAILS) == []
    assert judged(RAISED, second, event("failed", error="x", id="b"), operator=FAILS) == []
    assert judged(RAISED, second, event("failed", error="x", id="a"), operator=FAILS) == [
        ("unexplained-failure", (4, 8))
    ]


def test_a_failure_that_is_not_final_explains_nothing_trust2() -> None:
    parts = [start(), took("a", 0), called("a"), answered("a", r="fail", final=False, by="planted")]

    assert judged(parts, event("failed", error="x"), operator={**FAILS, "max_tries": 2}) == [
        ("unexplained-failure", (5,))
    ]


def test_a_call_that_failed_only_after_the_attempt_explains_nothing_trust2() -> None:
    parts = [
        start(),
        took("a", 0),
        called("a"),
        event("failed", error="x"),
        answered("a", r="fail", by="planted"),
    ]

    assert judged(parts, operator=FAILS) == [("unexplained-failure", (4,))]


def test_a_fault_of_one_name_explains_though_an_older_one_of_that_name_has_ended_trust2() -> None:
    twice = [fault("begin"), fault("begin"), start(), fault("end"), event("kill", by="cut")]

    assert judged(twice) == []
    assert judged(fault("begin"), fault("end"), start(), event("kill", by="cut")) == [
        ("unexplained-failure", (4,))
    ]


def test_a_restart_is_shown_with_the_start_of_the_attempt_that_it_replaced_trust2() -> None:
    assert judged(start(), start(a=3)) == [("unexplained-failure", (1, 2))]


def test_a_kill_is_explained_by_another_subtasks_failure_only_if_that_came_first_trust2() -> None:
    both = [start(), start(s=1)]
    failed, kill = event("failed", error="x", by="planted"), event("kill", s=1)

    assert judged(both, failed, kill, explained="together") == []
    assert judged(both, kill, failed, explained="together") == [("unexplained-failure", (3,))]


def test_fields_of_causes_are_not_read_without_the_claim_trust2() -> None:
    lines = history(start(), fault("begin", can="anything"), event("kill", by=7))

    assert verdict("V24", lines).outcome == "not-claimed"
