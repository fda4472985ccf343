"""Tables that were read after the run: what an anomaly of a row says, and when a table was read whole."""

from __future__ import annotations

import pytest

from harness.history.verdict import Anomaly, Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    Part,
    answered,
    called,
    commit,
    done,
    ended,
    event,
    found,
    history,
    left,
    read,
    restart,
    row,
    settled,
    snap,
    start,
    took,
    verdict,
)
from tools.cases import each

OUTPUT = {"output": {"holds": ["outputs"]}}
DEAD = {"dead_letter": {"holds": ["dead"]}}
FAILURE = event("res", id="a", **{"try": 1}, r="fail", final=True, error="down")


def run(*after: Part, s: int = 0, **header: object) -> list[Json]:
    """Record `a` yields `v` (event 5), the run ends (event 7), and then what was read."""
    told = [start(s=s), took("a", 0, s=s), settled("a", s=s), ended(s=s)]
    return history(told, *after, **{"tables": OUTPUT, **header})


def dead_run(*after: Part, **header: object) -> list[Json]:
    """Record `a` fails with `down` (event 4) and goes to the dead letters (event 5); the run ends (event 7)."""
    told = [start(), took("a", 0), called("a"), FAILURE, event("dead", id="a"), ended()]
    return history(told, *after, **{"tables": DEAD, **header})


def only(invariant: str, lines: list[Json]) -> Anomaly:
    (anomaly,) = verdict(invariant, lines).anomalies
    return anomaly


def test_a_missing_row_names_table_record_and_value_trust1() -> None:
    anomaly = only("V8", run(read("output", 0), s=3))

    assert (anomaly.kind, anomaly.table, anomaly.id, anomaly.j, anomaly.s) == (
        "row-missing", "output", "a", 0, 3,
    )  # fmt: skip
    assert (
        anomaly.say
        == 'table "output" holds no row of output 0 of record "a", but "v" left and should stand there'
    )
    assert anomaly.events == (5, 8)


def test_an_altered_row_names_both_values_trust1() -> None:
    anomaly = only("V8", run(row("output", "a", j=0, v="w"), read("output", 1)))

    assert (
        anomaly.say
        == 'table "output" holds a row of output 0 of record "a" with "w", but "v" should stand there'
    )
    assert anomaly.events == (5, 8)


def test_an_anomaly_of_a_record_that_was_never_accepted_names_no_subtask() -> None:
    anomaly = only("V8", run(row("output", "a", j=0), row("output", "z", j=4), read("output", 2)))

    assert (anomaly.kind, anomaly.id, anomaly.j, anomaly.s) == ("row-foreign", "z", 4, None)


def test_a_table_by_record_names_no_output_number() -> None:
    lines = run(read("effects", 0), tables={"effects": {"holds": ["effects"]}})

    anomaly = only("V9", lines)

    assert (anomaly.kind, anomaly.j, anomaly.s) == ("row-missing", None, 0)


def test_each_key_is_told_once_however_many_rows_show_it() -> None:
    altered = [row("output", "a", j=0, v=value) for value in ("w", "x", "y")]

    assert found("V8", run(altered, read("output", 3))) == [
        ("row-doubled", (5, 8, 9, 10)),
        ("row-altered", (5, 8, 9, 10)),
    ]


def test_each_table_is_judged_by_itself() -> None:
    tables = {**OUTPUT, "copy": {"holds": ["outputs"]}}

    lines = run(read("output", 0), read("copy", 0), tables=tables)

    assert [anomaly.table for anomaly in verdict("V8", lines).anomalies] == ["output", "copy"]


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        ([row("output", "a", j=0)], "was not read to its end"),
        ([row("output", "a", j=0), read("output", 3)], "has 3 rows by the database's count, but the history holds 1"),
        ([row("output", "a", j=0), commit(1), read("output", 1)],
         "was read (event 8) before the run's last act (event 9)"),
    ],
)  # fmt: skip
def test_a_table_that_was_not_read_whole_leaves_v8_unknown_trust1(reading: list[Json], why: str) -> None:
    said = verdict("V8", run(reading))

    assert (said.outcome, said.why) == (Outcome.UNKNOWN, f'table "output" {why}')


@pytest.mark.parametrize("later", [snap(1, 1), done(1), event("end"), event("close"), event("kill")])
def test_what_changes_no_table_may_follow_its_reading(later: Json) -> None:
    lines = history(
        start(), took("a", 0), settled("a"), row("output", "a", j=0), read("output", 1), later, tables=OUTPUT
    )

    assert verdict("V8", lines).outcome is Outcome.PASS


@each("act", [start(a=2), called("a"), answered("a"), left("a", j=1), event("dead", id="a"), commit(1)])
def test_whatever_may_change_a_table_makes_an_earlier_reading_partial(act: Json) -> None:
    lines = history(
        start(), took("a", 0, expect=["v", "v"]), settled("a"), read("output", 0), act, tables=OUTPUT
    )

    said = verdict("V8", lines)

    assert said.outcome is Outcome.UNKNOWN
    assert 'table "output" was read (event 6) before the run\'s last act (event 7)' in said.why


def test_a_history_in_which_only_a_row_was_seen_exposes_v8() -> None:
    lines = history(
        start(), took("a", 0, expect=[]), ended(), row("output", "z", j=0), read("output", 1), tables=OUTPUT
    )

    assert found("V8", lines) == [("row-foreign", (5,))]


def test_an_epoch_that_was_committed_twice_calls_for_two_rows() -> None:
    parts = [start(), took("a", 0), settled("a"), snap(1, 1), commit(1), commit(1), ended()]
    two = [row("output", "a", j=0)] * 2

    twice = history(parts, two, read("output", 2), sink="atomic", tables=OUTPUT)
    thrice = history(parts, two, row("output", "a", j=0), read("output", 3), sink="atomic", tables=OUTPUT)

    assert [kind for kind, _ in found("V8", twice)] == ["duplicate"]
    assert [kind for kind, _ in found("V8", thrice)] == ["duplicate", "row-doubled"]


def test_an_output_that_is_visible_twice_is_not_compared_in_order() -> None:
    parts = [start(), took("a", 0), settled("a"), left("a"), took("b", 1), settled("b"), ended()]
    rows = [row("output", "b", j=0, seq=1), row("output", "a", j=0, seq=2)]
    tables = {"output": {"holds": ["outputs"], "ordered": True}}

    kinds = [
        kind for kind, _ in found("V8", history(parts, rows, read("output", 2), tables=tables, sink="append"))
    ]

    assert "row-disordered" not in kinds


def test_a_missing_dead_letter_names_its_error_trust5() -> None:
    anomaly = only("V20", dead_run(read("dead_letter", 0)))

    assert (anomaly.kind, anomaly.table, anomaly.id, anomaly.j, anomaly.s) == (
        "row-missing", "dead_letter", "a", None, 0,
    )  # fmt: skip
    assert anomaly.say.endswith('but 1 should stand there, with the error "down"')


def test_the_failure_behind_a_dead_letter_is_the_latest_before_it_trust5() -> None:
    again = {**FAILURE, "error": "later"}
    told = [start(), took("a", 0), called("a"), FAILURE, again, event("dead", id="a"), ended()]

    def judged(error: str) -> list[tuple[str, tuple[int, ...]]]:
        rows = [row("dead_letter", "a", error=error), read("dead_letter", 1)]
        return found("V20", history(told, rows, tables=DEAD))

    assert judged("later") == []
    assert [kind for kind, _ in judged("down")] == ["row-altered"]


def test_a_dead_letter_of_a_record_with_an_output_is_foreign_in_an_unfinished_run_too_trust5() -> None:
    parts = [
        start(),
        took("a", 0),
        settled("a"),
        event("dead", id="a"),
        row("dead_letter", "a"),
        read("dead_letter", 1),
    ]

    assert [kind for kind, _ in found("V20", history(parts, tables=DEAD))] == ["row-foreign"]


def test_a_dead_letter_belongs_to_the_epoch_that_its_snaps_enclose_trust5() -> None:
    """Of two epochs only the first is committed; a letter of the second is in no D*."""
    first = [
        start(),
        took("a", 0, expect=[]),
        called("a"),
        FAILURE,
        event("dead", id="a"),
        snap(1, 1),
        done(1),
        commit(1),
    ]
    second = [took("b", 1, expect=[]), called("b"), {**FAILURE, "id": "b"}, event("dead", id="b"), snap(2, 2)]
    rows = [row("dead_letter", "a"), row("dead_letter", "b"), read("dead_letter", 2)]

    lines = history(first, second, ended(), rows, tables=DEAD, sink="two-phase")

    assert [(anomaly.kind, anomaly.id) for anomaly in verdict("V20", lines).anomalies] == [
        ("row-foreign", "b")
    ]


def test_a_rolled_back_dead_letter_may_still_stand_while_the_run_goes_on_trust5() -> None:
    parts = [
        start(), took("a", 0, expect=[]), snap(1, 1, {"id": "a"}), done(1), called("a"), FAILURE,
        event("dead", id="a"), restart(1, 1, {"id": "a"}), row("dead_letter", "a"), read("dead_letter", 1),
    ]  # fmt: skip

    assert verdict("V20", history(parts, tables=DEAD)).outcome is Outcome.UNKNOWN
    assert [kind for kind, _ in found("V20", history(parts, ended(a=2), tables=DEAD))] == ["row-foreign"]
