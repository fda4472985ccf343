"""Rows of keys: a conviction names the key, the column, both values, and the transaction that made the row wrong."""

from __future__ import annotations

from harness.history.tests.job_lines import HEADER, Json, job_history
from harness.judge.checkers.outside.judge import judge_outside

SINK: Json = {"write": "upsert", "id": ["k"], "values": ["orders", "total"], "rows": "key"}
BEGIN = "expect id=7 v=[2,30]\nstart\noffer id=1\ninsert id=7 v=[1,10]\n"
RIGHT = 'update id=7 v=[2,30] was={"id":7,"v":[1,10]}\n'
END = 'exit start=%s code=0\nfinished how="exit"\n%s\nwhole reading=1'


def said(events: str, **header: object) -> list[str]:
    verdicts = judge_outside(*job_history(events, **{**HEADER, "sink": SINK, **header})).convicted()
    return [anomaly.say for verdict in verdicts for anomaly in verdict.anomalies]


def test_a_row_that_was_right_is_told_with_the_transaction_and_the_start_that_changed_it() -> None:
    again = "start\n" + 'update id=7 v=[3,30] was={"id":7,"v":[2,30]}\n'

    assert said(BEGIN + RIGHT + again + END % (2, "table id=7 v=[3,30]")) == [
        "in the table key 7 has orders = 3 where 2 is right; it was right until transaction 3 of start 2 changed it"
    ]


def test_a_row_that_was_never_right_is_told_with_its_last_transaction_and_every_column_that_differs() -> None:
    (say,) = said(BEGIN + END % (1, "table id=7 v=[1,10]"))

    assert say.startswith("in the table key 7 has orders = 1 where 2 is right, total = 10 where 30 is right")
    assert say.endswith("; no transaction made it right, and transaction 1 of start 1 changed it last")


def test_a_key_without_its_row_is_told_with_the_values_that_it_must_have() -> None:
    wanted = "expect id=8 v=[1,5]\n"

    assert said(wanted + BEGIN + RIGHT + END % (1, "table id=7 v=[2,30]")) == [
        "key 8 has no row in the table, where orders = 1, total = 5 is right; no transaction ever wrote it"
    ]


def test_without_a_log_no_transaction_is_named() -> None:
    events = 'expect id=7 v=[2,30]\nstart\noffer id=1\nexit start=1 code=0\nfinished how="exit"\n'

    assert said(events + "table id=7 v=[3,30]\nwhole reading=1", sink={**SINK, "changes": False}) == [
        "in the table key 7 has orders = 3 where 2 is right"
    ]


def test_a_job_that_is_stuck_is_told_with_the_values_of_the_first_key_that_differs() -> None:
    (say,) = said(BEGIN + 'giveup why="silence"\ntable id=7 v=[1,10]\nwhole reading=1')

    assert "in the table key 7 has orders = 1 where 2 is right" in say


def test_a_wrong_value_of_a_record_is_told_with_both_values_too() -> None:
    events = (
        'start\noffer id=1 expect=[["a"]]\ninsert id=1 v=["b"]\nexit start=1 code=0\nfinished how="exit"\n'
    )
    verdicts = judge_outside(*job_history(events + 'table id=1 v=["b"]\nwhole reading=1')).convicted()

    assert [one.say for verdict in verdicts for one in verdict.anomalies] == [
        'after transaction 1 record 1 has v = "b" where "a" is right'
    ]
