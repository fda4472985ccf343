"""Tables, keys and versions: the screen vouches for what a right sink leaves, and for no departure from it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.tests.screening import acquitted, both_ways, told
from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    commit,
    ended,
    event,
    history,
    left,
    read,
    restart,
    row,
    settled,
    snap,
    start,
    took,
)
from tools.cases import each

ALL = {checker.name for checker in CHECKERS}
TABLES = {
    "output": {"holds": ["outputs", "effects"], "ordered": True},
    "letters": {"holds": ["dead"]},
    "audit": {"holds": ["audit"]},
}
CLAIMS: dict[str, Any] = {
    "sink": "atomic", "effects": "outputs", "tables": TABLES, "operator": {"on_error": "dead", "mode": "unordered"}
}  # fmt: skip
FAILED = event("res", id="x", **{"try": 1}, r="fail", final=True, error="down")
RUN = [
    start(), took("a", 0), settled("a"), took("x", 1), called("x"), FAILED, event("dead", id="x"),
    snap(1, 2), commit(1), restart(1, 2),
    took("b", 2, a=2), settled("b", a=2), event("end", a=2), snap(2, 3, a=2), commit(2), event("ended", a=2),
]  # fmt: skip
EFFECTS = [event("effect", id=id_, j=0, token=a, seq=a, v="v") for a, id_ in enumerate("ab", start=1)]
ROWS = [row("output", id_, j=0, v="v", token=a, c=a, seq=a) for a, id_ in enumerate("ab", start=1)]
LETTER = row("letters", "x", error="down")


def after_run(
    effects: Any = EFFECTS, rows: Any = ROWS, letters: Any = (LETTER,), *, count: int = 2, more: Any = ()
) -> list[dict[str, Any]]:
    """The run, and what was read: the audit, the outputs (`count` rows by the database) and the dead letters."""
    tables = [
        [*effects, read("audit", len(effects))],
        [*rows, read("output", count)],
        [*letters, read("letters", len(letters))],
    ]
    return history(RUN, *tables, *more, **CLAIMS)


def both(lines: list[dict[str, Any]]) -> tuple[set[str], dict[str, Outcome]]:
    """What the screen vouches for, and each verdict; judging with and without it must agree."""
    found = told(lines)
    assert found is not None
    assert found.sound
    screened, exact = both_ways(found)
    assert screened == exact
    return acquitted(found) or set(), {verdict.invariant: verdict.outcome for verdict in exact.invariants}


def test_what_a_right_sink_leaves_in_three_tables_is_acquitted_whole() -> None:
    vouched, verdicts = both(after_run())

    assert vouched == ALL
    assert {verdicts["V8"], verdicts["V9"], verdicts["V13"], verdicts["V20"]} == {Outcome.PASS}


DEPARTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "a row is missing": ("V8", {"rows": ROWS[:1], "count": 1}),
    "a row is doubled": ("V8", {"rows": [*ROWS, {**ROWS[1], "seq": 3}], "count": 3}),
    "a row is altered": ("V8", {"rows": [ROWS[0], {**ROWS[1], "v": "w"}]}),
    "a row of another attempt": ("V8", {"rows": [ROWS[0], {**ROWS[1], "token": 1}]}),
    "a row of another epoch": ("V8", {"rows": [ROWS[0], {**ROWS[1], "c": 1}]}),
    "rows out of order": ("V8", {"rows": [{**ROWS[0], "seq": 9}, ROWS[1]]}),
    "a row of no output": ("V8", {"rows": [*ROWS, {**ROWS[1], "id": "z", "seq": 3}], "count": 3}),
    "a row that the audit does not show": ("V9", {"effects": EFFECTS[:1]}),
    "a row with another value than in the audit": ("V9", {"effects": [EFFECTS[0], {**EFFECTS[1], "v": "w"}]}),
    "no row of a dead letter": ("V20", {"letters": []}),
    "a dead letter twice": ("V20", {"letters": [LETTER, LETTER]}),
    "a dead letter with another error": ("V20", {"letters": [{**LETTER, "error": "up"}]}),
    "a dead letter of what is visible": ("V20", {"letters": [{**LETTER, "id": "a"}]}),
}


@each("departure", DEPARTURES)
def test_no_departure_of_a_table_is_acquitted(departure: str) -> None:
    invariant, changed = DEPARTURES[departure]

    vouched, verdicts = both(after_run(**changed))

    assert verdicts[invariant] is Outcome.FAIL
    assert invariant not in vouched


def test_two_rows_of_one_place_break_the_format_also_where_the_table_differs_from_the_outputs() -> None:
    """The screen stands for the rules between lines too: such a file is malformed, and gets no verdict."""
    found = told(after_run(rows=[ROWS[0], {**ROWS[1], "seq": 1, "v": "w"}]))
    assert found is not None

    assert not found.sound
    assert acquitted(found) is None


@pytest.mark.parametrize("late", [settled("c", a=2)[:1], commit(3)], ids=["call", "commit"])
def test_a_table_that_was_read_before_the_last_act_is_left_to_the_exact_checkers(late: Any) -> None:
    more = [took("c", 3, a=2), late] if isinstance(late, list) else [late]
    found = told(after_run(more=more))
    assert found is not None

    screened, exact = both_ways(found)

    assert screened == exact
    assert acquitted(found) is None


@pytest.mark.parametrize("unread", [{"count": 3}, {"rows": ROWS[:1]}], ids=str)
def test_a_table_that_was_not_read_whole_is_not_acquitted(unread: dict[str, Any]) -> None:
    vouched, verdicts = both(after_run(**unread))

    assert "V8" not in vouched
    assert verdicts["V8"] is not Outcome.PASS


def test_an_audit_of_a_header_that_claims_no_effects_is_not_acquitted() -> None:
    """Found by comparing both ways of judging: such an audit still must have a row of each record."""
    claims = {**CLAIMS, "effects": None, "tables": {"audit": {"holds": ["audit"]}}}

    vouched, verdicts = both(
        history(RUN, read("audit", 0), **{k: v for k, v in claims.items() if v is not None})
    )

    assert "V9" not in vouched
    assert verdicts["V9"] is Outcome.FAIL


KEYED = [start(), took("a", 0, key="k"), settled("a")]
OTHER = [took("b", 1, key="k", expect=["w"]), called("b"), answered("b", v=["w"]), left("b", v="w")]
SAME = [took("b", 1, key="k"), settled("b")]


@pytest.mark.parametrize(("second", "right"), [(SAME, "pass"), (OTHER, "fail")], ids=["same", "other"])
def test_records_of_one_key_that_differ_are_not_acquitted(second: Any, right: str) -> None:
    vouched, verdicts = both(history(KEYED, second, ended(), by_key=True))

    assert ("V8" in vouched) is (right == "pass")
    assert verdicts["V8"] == right


@pytest.mark.parametrize("ver", [0, 1])
def test_an_answer_from_a_version_that_nobody_announced_is_not_acquitted(ver: int) -> None:
    told_of = [called("a"), answered("a", ver=ver), left("a")]

    vouched, verdicts = both(history(start(), took("a", 0, key="k"), told_of, ended(), versions=True))

    assert ("V8" in vouched) is (ver == 0)
    assert verdicts["V8"] is (Outcome.PASS if ver == 0 else Outcome.FAIL)


def test_changes_that_rise_leave_only_the_values_to_the_exact_checkers() -> None:
    change = [event("change", phase=phase, ver=1) for phase in ("begin", "end")]

    vouched, _ = both(history(start(), took("a", 0, key="k"), settled("a"), change, ended(), versions=True))

    assert vouched == ALL - {"V8"}


def test_without_any_expected_value_nothing_is_acquitted_where_the_header_says_that_there_are_some() -> None:
    bare = {**took("a", 0)}
    del bare["expect"]
    found = told(history(start(), bare, settled("a"), ended(), expect_from="given"))
    assert found is not None

    screened, exact = both_ways(found)

    assert screened == exact
    assert exact.outcome is not Outcome.PASS
    assert acquitted(found) is None
