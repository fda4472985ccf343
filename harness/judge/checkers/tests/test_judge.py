"""The judge: a broken checker is no pass, the list is cut, what counts is the worst, and the fold merges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.history.event import Ack, Change, Event, Row, TableRead
from harness.history.header import Header
from harness.history.read import open_text
from harness.history.verdict import InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.exactly_once import ExactlyOnce
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import ANOMALIES_MAX, Invariant
from harness.judge.checkers.judge import Malformed, judge, judge_file, overall
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.tests.legal_histories import legal_history
from tools.cases import each

HEADER = {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}}
START = {"n": 1, "t": 0, "k": "start", "s": 0, "a": 1, "from": None, "pos": 0}


def read(lines: list[dict[str, Any]]) -> tuple[Header, list[Event]]:
    reader = open_text("\n".join(map(json.dumps, lines)).encode())
    events = list(reader.events())
    assert reader.header is not None
    assert reader.breaches == []
    return reader.header, events


class Broken(Invariant):
    """Raises, whatever it is shown."""

    name = "V8"
    vacuous = "never"

    def not_claimed(self, case: IndexedHistory) -> str:
        raise KeyError(case.header.sink)


def test_a_checker_that_raises_is_unknown_with_its_traceback_and_the_others_judge_on() -> None:
    header, events = read(legal_history(3))

    judgement = judge(header, events, checkers=[CHECKERS[0], Broken(), CHECKERS[-1]])

    by_name = {verdict.invariant: verdict for verdict in judgement.invariants}
    assert judgement.outcome is Outcome.UNKNOWN
    assert by_name["V8"].outcome is Outcome.UNKNOWN
    assert "KeyError" in by_name["V8"].why
    assert by_name["V1"].outcome is not Outcome.UNKNOWN


def test_anomalies_are_cut_at_the_stated_number_and_the_rest_is_counted() -> None:
    ghosts = [{"n": n, "t": n, "k": "out", "s": 0, "a": 1, "id": n, "j": 0, "v": 1} for n in range(2, 152)]
    header, events = read([HEADER, START, *ghosts])

    verdict = judge(header, events, checkers=[ExactlyOnce()]).invariants[0]

    assert len(verdict.anomalies) == ANOMALIES_MAX
    assert verdict.omitted == 150 - ANOMALIES_MAX
    assert verdict.anomalies[0].events == (2,)


def test_only_the_checkers_that_were_chosen_are_judged_and_count() -> None:
    header, events = read([{**HEADER, "decisive": ["V3"]}, START])

    judgement = judge(header, events, checkers=[ExactlyOnce()])

    assert [verdict.invariant for verdict in judgement.invariants] == ["V8"]
    assert judgement.warnings == ()


def test_the_trace_files_the_kinds_of_form_1_1_in_order() -> None:
    given: list[Event] = [
        Ack(n=1, t=0, s=4, a=1, c=1),
        Change(n=2, t=0, phase="begin", ver=1),
        Row(n=3, t=0, table="t", id=1),
        Row(n=4, t=0, table="u", id=1),
        TableRead(n=5, t=0, table="u", rows=1),
        Row(n=6, t=0, table="t", id=2),
        Ack(n=7, t=0, s=4, a=2, c=1),
        Change(n=8, t=0, phase="end", ver=1),
        TableRead(n=9, t=0, table="t", rows=2),
    ]
    header, _ = read([HEADER])

    trace = Trace(header).extend(given)

    assert {name: [row.n for row in rows] for name, rows in trace.rows.items()} == {"t": [3, 6], "u": [4]}
    assert [at.n for at in trace.table_reads] == [5, 9]
    assert [ack.n for ack in trace.acks] == [1, 7]
    assert [change.n for change in trace.changes] == [2, 8]
    assert trace.subtasks == {}
    assert trace.events == 9


def test_a_malformed_file_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(HEADER) + "\n{}\n")

    judged = judge_file(path)

    assert isinstance(judged, Malformed)
    assert {breach["line"] for breach in judged.as_json()["breaches"]} == {2}
    assert judged.as_json()["verdict"] == "malformed"
    assert judged.as_json()["invariants"] == []


def test_a_torn_last_line_is_judged_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, legal_history(5))) + '\n{"n":')

    judged = judge_file(path)

    assert isinstance(judged, Judgement)
    assert "cut off" in judged.warnings[0]


def test_the_accounting_counts_what_was_seen() -> None:
    lines = legal_history(8, sink="rollback")
    header, events = read(lines)

    accounting = judge(header, events).accounting

    taken = {event["id"] for event in lines[1:] if event["k"] == "in"}
    assert accounting["events"] == len(lines) - 1
    assert accounting["records"] == len(taken)
    assert accounting["restores"] == sum(event["k"] == "restore" for event in lines[1:])


P, V, U, F, N = Outcome.PASS, Outcome.VACUOUS, Outcome.UNKNOWN, Outcome.FAIL, Outcome.NOT_CLAIMED


@each(
    ("outcomes", "decisive", "expected"),
    [
        ({"V1": P, "V8": P}, None, P),
        ({"V1": P, "V8": F, "V10": U}, None, F),
        ({"V1": P, "V8": F}, ["V1"], F),
        ({"V1": P, "V10": U}, None, U),
        ({"V1": P, "V10": U}, ["V1"], P),
        ({"V1": P, "V10": U}, ["V10"], U),
        ({"V1": P, "V10": U}, [], P),
        ({"V1": P, "V4": V}, None, P),
        ({"V1": P, "V4": V}, ["V4"], V),
        ({"V1": P, "V23": V}, ["V1"], V),
        ({"V1": U, "V23": V}, None, U),
        ({"V1": N, "V8": P}, None, P),
        ({"V1": N, "V8": P}, ["V1"], V),
        ({"V1": N, "V8": F}, ["V1"], F),
        ({"V1": V, "V4": V}, None, V),
        ({"V1": U}, [], V),
        ({}, None, V),
    ],
)
def test_the_overall_verdict_is_the_worst_that_counts(
    outcomes: dict[str, Outcome], decisive: list[str] | None, expected: Outcome
) -> None:
    verdicts = [InvariantVerdict(invariant=name, outcome=outcome) for name, outcome in outcomes.items()]

    assert overall(verdicts, decisive=decisive, took_anything=True) is expected


def test_a_pass_over_nothing_is_vacuous() -> None:
    verdicts = [InvariantVerdict(invariant="V10", outcome=P)]

    assert overall(verdicts, decisive=None, took_anything=False) is V


@pytest.mark.parametrize(("decisive", "expected"), [(None, V), ([], V), (["V1"], V)])
def test_a_vacuous_v8_counts_only_if_no_expected_value_is_known(
    decisive: list[str] | None, expected: Outcome
) -> None:
    verdicts = [
        InvariantVerdict(invariant="V1", outcome=P),
        InvariantVerdict(invariant="V8", outcome=V),
    ]

    with_values = overall(verdicts, decisive=decisive, took_anything=True)

    assert with_values is P
    assert overall(verdicts, decisive=decisive, took_anything=True, without_values=True) is expected
