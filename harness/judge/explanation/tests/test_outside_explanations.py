"""Claims about the explanations of jobs seen from outside: each class has sentences that name events of the history."""

from __future__ import annotations

import re

from harness.history.verdict import Anomaly, Judgement
from harness.judge.canaries.of_jobs import OF_JOBS
from harness.judge.canaries.outside_canary import OutsideCanary
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.explanation.explain import explained_events
from harness.judge.explanation.text import anomaly_lines, recovery_lines
from tools.cases import each

CONVICTED = [canary for canary in OF_JOBS if canary.kind]


def explained(canary: OutsideCanary) -> Judgement:
    header, events = canary.history()
    return explained_events(judge_outside(header, events), header, events)


def anomaly_of(canary: OutsideCanary) -> Anomaly:
    found = [one for verdict in explained(canary).convicted() for one in verdict.anomalies]
    return next(one for one in found if one.kind == canary.kind)


def of_kind(kind: str) -> OutsideCanary:
    return next(canary for canary in CONVICTED if canary.kind == kind)


@each("canary", CONVICTED, ids=lambda canary: canary.name)
def test_each_class_is_a_contradiction_that_names_its_events(canary: OutsideCanary) -> None:
    explanation = anomaly_of(canary).explanation

    assert explanation is not None
    assert explanation.then[-1].startswith("However, ")
    assert explanation.then[-1].endswith(": a contradiction.")
    names = {line.partition(" = ")[0] for line in explanation.let}
    told = set(re.findall(r"\b(e\d+)\b", " ".join(explanation.then)))
    assert told <= names
    assert "{}" not in " ".join(explanation.then)
    assert told or canary.kind == "swallowed"


def test_an_explanation_changes_no_verdict() -> None:
    for canary in OF_JOBS:
        before = judge_outside(*canary.history())
        after = explained(canary)

        assert (after.outcome, after.warnings) == (before.outcome, before.warnings)
        assert [v.outcome for v in after.invariants] == [v.outcome for v in before.invariants]


def test_a_duplicate_is_told_by_offer_log_and_table() -> None:
    told = "\n".join(anomaly_lines(anomaly_of(of_kind("duplicate"))))

    assert 'it must yield the row ["a"]' in told
    assert "insert of a row of record 1" in told
    assert "transaction 2 of start 1" in told


def test_what_is_lost_is_in_neither_log_nor_table() -> None:
    told = "\n".join(anomaly_lines(anomaly_of(of_kind("lost"))))

    assert "The log of changes shows no row of it." in told
    assert "In reading 1 the table holds no row of it." in told
    assert "the harness holds the job to be finished, by exit" in told


def test_a_phantom_was_never_offered() -> None:
    told = "\n".join(anomaly_lines(anomaly_of(of_kind("phantom"))))

    assert "The source never offered record 2." in told


def test_what_was_done_to_the_job_in_between_is_told() -> None:
    killed = OutsideCanary(
        invariant="V8",
        kind="duplicate",
        events=(
            'start\noffer id=1 expect=[["a"]]\ninsert id=1 v=["a"]\nfault f="kill" phase="begin"\n'
            'exit start=1 signal=9 by="kill"\nstart\ninsert id=1 v=["a"]\n'
        ),
    )

    told = "\n".join(anomaly_lines(anomaly_of(killed)))

    assert 'fault "kill" takes hold' in told
    assert 'start 1 exits, signal 9, by "kill"' in told
    assert "In between: " in told


def test_the_time_to_recover_is_that_to_the_next_commit() -> None:
    killed = OutsideCanary(
        invariant="",
        events=(
            'start\noffer id=1 expect=[["a"]]\nfault f="kill" phase="begin" at=1\n'
            'exit start=1 signal=9 by="kill" at=2\n'
            'fault f="kill" phase="end" evidence={"pid":1} at=3\nstart\ninsert id=1 v=["a"] at=5\n'
            'fault f="kill" phase="begin"\nexit start=2 code=0\n'
        ),
    )

    recovery = explained(killed).recovery

    assert recovery is not None
    found = [(cost.what, cost.event, cost.first_output_us, dict(cost.absent)) for cost in recovery.costs]
    assert found == [
        ('fault "kill"', 3, 2002, {}),
        ("exit of start 1", 4, 3003, {}),
        ('fault "kill"', 8, None, {"first result": "the fault had not ended"}),
    ]
    assert "records behind" not in " ".join(recovery_lines(recovery))


def test_an_id_of_several_columns_and_a_hidden_character_are_shown() -> None:
    odd = OutsideCanary(
        invariant="V8",
        kind="phantom",
        sink={"id": ["p", "q"]},
        events='start\ninsert id=[1,"\\u202e"] v=["\\u001b"]\n',
    )

    told = "\n".join(anomaly_lines(anomaly_of(odd)))

    assert '[1, "\\u202e"]' in told
    assert "\x1b" not in told
    assert "\u202e" not in told
