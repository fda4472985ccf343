"""Of an answer and its record's timer in one turn the first wins, once; an operator that errs is convicted."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.event import Call, Res
from harness.history.verdict import Outcome
from harness.levels.sim.tests.fault_samples import sample, simulated
from harness.scenario.mistakes import validated
from harness.scenario.model import Scenario
from harness.sut.defects.twelve import OperatorOfSettlements, building
from harness.sut.variant import Variant
from harness.tests.simulated_run import judgement_of
from reference_impl.operator.result import Settlement
from tools.defects import IN_RUNS

TIMEOUT_US = 500_000
BESIDE = IN_RUNS["substitute-beside-answer"].variant
HOW = ("before", "at", "after")
WHEN: dict[str, Any] = {"subtask": 0, "times": 3, "when": {"record": 20}}


def raced(how: str, **operator: Any) -> Scenario:
    fault = {"id": "f0", "do": "answer_at_timeout", "how": how, **WHEN}
    return sample(operator=operator, faults=[fault])


class _TimedOutAnyway(Settlement):
    def time_out(self) -> None:
        self.outcome = None
        super().time_out()

    def action(self) -> None:
        if self.results is None:
            super().action()


class _TimerWins(OperatorOfSettlements):
    """Times out a record whose answer has been accepted, if the answer's mail has not run."""

    settlement = _TimedOutAnyway


@pytest.mark.parametrize(("how", "ends"), [("before", "ok"), ("at", "ok"), ("after", "timeout")])
@pytest.mark.parametrize("mode", ["ordered", "unordered", "keyed"])
def test_the_first_of_answer_and_timeout_counts_and_only_it_a36_a43(mode: str, how: str, ends: str) -> None:
    ran = simulated(raced(how, mode=mode))

    began = {event.id: event.t for event in ran.events if isinstance(event, Call)}
    at_the_timeout = [
        event.r for event in ran.events if isinstance(event, Res) and event.t - began[event.id] == TIMEOUT_US
    ]
    assert at_the_timeout == [ends] * 3
    assert judgement_of(ran).outcome is Outcome.PASS


RETRIES: dict[str, Any] = {"tries": 3, "retry_delay": "20ms"}


@pytest.mark.parametrize(
    "operator",
    [
        {"cancels": False},
        {"on_timeout": "dead-letter"},
        {"on_timeout": "fail"},
        {**RETRIES},
        {**RETRIES, "on_timeout": "dead-letter", "cancels": False},
    ],
    ids=["the call goes on", "a letter", "a failure", "retries", "retries and a letter"],
)
@pytest.mark.parametrize("how", HOW)
def test_the_reference_passes_whatever_a_timeout_yields(how: str, operator: dict[str, Any]) -> None:
    assert judgement_of(simulated(raced(how, **operator))).outcome is Outcome.PASS


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@pytest.mark.parametrize("how", HOW)
def test_an_operator_that_emits_both_is_convicted_where_both_wait_and_only_there(how: str, mode: str) -> None:
    judged = judgement_of(simulated(raced(how, mode=mode), variant=BESIDE), variant=BESIDE)

    failed = {one.invariant for one in judged.invariants if one.outcome is Outcome.FAIL}
    assert failed & {"V8", "V15"} == failed - {"V1", "V9"} == ({"V8", "V15"} if how == "at" else set())


def test_a_timeout_that_beats_an_accepted_answer_has_no_cause_a43() -> None:
    variant = Variant(build_operator=building(_TimerWins))

    judged = judgement_of(simulated(raced("at", on_timeout="fail"), variant=variant), variant=variant)

    assert "V24" in {one.invariant for one in judged.invariants if one.outcome is Outcome.FAIL}


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        ({}, "the operator has none"),
        ({"timeout": "1s", "tries": 2, "retry_delay": "10ms"}, "a right operator may fail there"),
    ],
    ids=["no timeout", "a judged answer that may fail the task"],
)
def test_a_race_that_cannot_be_or_has_no_right_end_is_refused(operator: dict[str, Any], why: str) -> None:
    settings: dict[str, Any] = {"mode": "ordered", **operator}

    mistakes: Any = validated(
        {
            "scenario": "race",
            "about": "An answer races with a timeout.",
            "levels": ["sim"],
            "operator": settings,
            "workload": {"records": 60, "checkpoint_every": 11},
            "decisive": ["V8"],
            "faults": [{"id": "f0", "do": "answer_at_timeout", "how": "at", **WHEN}],
        }
    )

    assert [why in one.say for one in mistakes] == [True]
