"""The numbers beside a verdict: what is offered, missing, and without a result that somebody expected."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from harness.engine.accounting import accounting_of
from harness.history.event import Event, In, Res, Row
from harness.scenario.model import Scenario
from harness.tests.scenario_drafts import sound

ROWS: list[list[Any]] = [[0, "name", "city", 1]]
"""Of the keys of the looked-up table only key 0 has rows."""


def scenario() -> Scenario:
    """Two records in all, each of some key."""
    plain = sound().model_dump(mode="json", by_alias=True)
    workload = {**plain["workload"], "records": 2, "subtasks": 1}
    expects = {"records": 2}
    changed = {**plain, "workload": workload, "expects": expects, "faults": [], "decisive": ["V8"]}
    return Scenario.model_validate(changed)


def taken(record: int, *, key: int, answer: list[Any] | None, expect: Any = UNSET) -> list[Event]:
    """A record and the end of its call; `answer`: its results, of which the first is in the table."""
    subtask: dict[str, Any] = {"s": 0, "a": 1, "n": record, "t": 0}
    events: list[Event] = [
        In(pos=record, id=record, key=key, expect=expect, **subtask),
        Res(id=record, try_=1, r="ok", final=True, v=answer or [], **subtask),
    ]
    return [*events, Row(n=record, t=0, table="output", id=record, j=0)] if answer else events


def counted(events: list[Event]) -> dict[str, int]:
    """The accounting of these events; SQL counts their rows."""
    rows = len({event.id for event in events if isinstance(event, Row)})
    counts = {"rows": rows, "records": rows, "dead_letters": 0}
    return accounting_of(counts, events, scenario=scenario(), seed=1, rows=ROWS)


def test_an_empty_answer_of_a_users_lookup_is_told_beside_what_is_missing() -> None:
    accounting = counted([*taken(0, key=0, answer=["v"]), *taken(1, key=0, answer=None)])

    assert (accounting["offered"], accounting["missing"], accounting["without_result"]) == (2, 0, 1)


def test_an_empty_answer_for_a_key_without_rows_hides_no_missing_row() -> None:
    lost = [event for event in taken(0, key=0, answer=["v"]) if not isinstance(event, Row)]

    accounting = counted([*lost, *taken(1, key=5, answer=None)])

    assert accounting["missing"] == 2
    assert "without_result" not in accounting


def test_a_substitute_of_no_rows_for_an_expected_result_is_told() -> None:
    accounting = counted([*taken(0, key=0, answer=["v"]), *taken(1, key=0, answer=None, expect=["v"])])

    assert accounting["without_result"] == 1


def test_without_the_tables_nothing_is_counted() -> None:
    assert accounting_of({}, [], scenario=scenario(), seed=1, rows=ROWS) == {}
