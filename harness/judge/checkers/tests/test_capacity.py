"""V14: what is in flight fits into the capacity, and one record at most waits to enter."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    done,
    ended,
    event,
    found,
    history,
    left,
    owm,
    restart,
    settled,
    snap,
    start,
    took,
    verdict,
    wm,
)


def operator(capacity: int, **fields: Any) -> Json:
    return {"operator": {"capacity": capacity, "mode": "unordered", **fields}}


def taken_and_called(*ids: str, since: int = 0) -> list[Any]:
    return [[took(id_, pos), called(id_)] for pos, id_ in enumerate(ids, start=since)]


def test_exactly_the_capacity_may_be_in_flight_and_not_one_more() -> None:
    lines = history(start(), taken_and_called("a", "b"), **operator(2))
    over = history(start(), taken_and_called("a", "b", "c"), **operator(2))

    assert verdict("V14", lines).outcome is Outcome.PASS
    assert found("V14", over) == [("over-capacity", (3, 5, 7))]


def test_each_call_that_finds_no_slot_is_told() -> None:
    lines = history(start(), taken_and_called("a", "b", "c"), **operator(1))

    assert [kind for kind, _ in found("V14", lines)] == ["over-capacity"] * 2


def test_a_slot_is_free_when_the_result_has_left_and_not_when_it_has_come() -> None:
    """A slot released on the answer is the defect."""
    early = history(
        start(), taken_and_called("a"), answered("a"), taken_and_called("b", since=1), **operator(1)
    )
    late = history(start(), took("a", 0), settled("a"), taken_and_called("b", since=1), **operator(1))

    assert found("V14", early) == [("over-capacity", (3, 6))]
    assert found("V14", late) == []


def test_a_slot_is_free_only_when_the_last_of_several_results_has_left() -> None:
    two = [took("a", 0, expect=["v", "v"]), called("a"), answered("a", v=["v", "v"]), left("a")]
    behind = taken_and_called("b", since=1)

    assert found("V14", history(start(), two, behind, **operator(1))) == [("over-capacity", (3, 7))]
    assert found("V14", history(start(), two, left("a", j=1), behind, **operator(1))) == []


@pytest.mark.parametrize("how", ["nothing", "dead", "unknown"])
def test_an_outcome_without_results_or_with_unknown_ones_frees_the_slot(how: str) -> None:
    outcome = {
        "nothing": answered("a", v=[]),
        "dead": event("dead", id="a"),
        "unknown": {name: v for name, v in answered("a").items() if name != "v"},
    }[how]
    first = {name: v for name, v in took("a", 0).items() if name != "expect"}

    lines = history(start(), first, called("a"), outcome, taken_and_called("b", since=1), **operator(1))

    assert found("V14", lines) == []


def test_another_try_of_a_record_in_flight_takes_no_slot() -> None:
    retried = [answered("a", r="fail", final=False), called("a", **{"try": 2})]

    assert found("V14", history(start(), taken_and_called("a"), retried, **operator(1, max_tries=2))) == []


def test_a_watermark_takes_a_slot_once_something_behind_it_is_called() -> None:
    parts = [start(), taken_and_called("a"), wm(5, 1), took("b", 2)]

    assert found("V14", history(parts, called("b"), **operator(2))) == [("over-capacity", (3, 6))]
    assert found("V14", history(parts, **operator(1))) == []
    assert found("V14", history(parts, called("b"), **operator(3))) == []
    assert found("V14", history(parts, called("b"), **operator(2, watermark_slots=False))) == []


def test_a_watermark_gives_its_slot_back_when_it_leaves() -> None:
    parts = [start(), wm(5, 0), owm(5), taken_and_called("a", since=1)]

    assert found("V14", history(parts, **operator(1))) == []


def test_with_coalescing_neighbours_share_a_slot_and_a_record_parts_them() -> None:
    neighbours = [
        start(),
        taken_and_called("a"),
        wm(5, 1),
        wm(6, 2),
        wm(7, 3),
        taken_and_called("b", since=4),
    ]
    parted = [start(), taken_and_called("a"), wm(5, 1), taken_and_called("b", since=2), wm(6, 3)]

    assert found("V14", history(neighbours, **operator(3, coalesces_watermarks=True))) == []
    assert found("V14", history(neighbours, **operator(4))) == [("over-capacity", (3, 8))]
    behind = taken_and_called("c", since=4)
    apart = history(parted, behind, **operator(4, coalesces_watermarks=True))
    assert found("V14", apart) == [("over-capacity", (3, 6, 9))]


def test_with_coalescing_a_later_position_of_a_value_that_left_holds_no_slot() -> None:
    equal = [start(), taken_and_called("a"), wm(5, 1), taken_and_called("b", since=2), wm(5, 3), owm(5)]

    lines = history(equal, taken_and_called("c", since=4), **operator(3, coalesces_watermarks=True))

    assert found("V14", lines) == []


def test_restored_elements_wait_for_slots_like_any_other() -> None:
    """All of them called at once is the defect."""
    saved = snap(1, 2, {"id": "a"}, {"id": "b"})
    parts = [start(), taken_and_called("a"), took("b", 1), saved, done(1)]
    again = restart(1, 2, {"id": "a"}, {"id": "b"})

    thundering = history(parts, again, called("a", a=2), called("b", a=2), **operator(1))
    calm = history(parts, again, settled("a", a=2), called("b", a=2), **operator(1))

    assert found("V14", thundering) == [("over-capacity", (10, 11))]
    assert found("V14", calm) == []


def test_attempts_have_slots_of_their_own_also_a_zombie() -> None:
    second = [start(a=2), took("a", 0, a=2), called("a", a=2)]

    lines = history(start(), taken_and_called("a"), second, took("b", 1), **operator(1))

    assert found("V14", lines) == []


def test_one_record_may_wait_and_a_second_may_not_be_taken_meanwhile() -> None:
    one = history(start(), taken_and_called("a"), took("b", 1), wm(5, 2), **operator(1))
    two = history(start(), taken_and_called("a"), took("b", 1), took("c", 2), took("d", 3), **operator(1))

    assert found("V14", one) == []
    assert found("V14", two) == [("over-admitted", (4, 5)), ("over-admitted", (4, 6))]


def test_who_has_an_outcome_waits_no_more() -> None:
    given_up = [took("b", 1), event("dead", id="b"), took("c", 2)]

    assert found("V14", history(start(), taken_and_called("a"), given_up, **operator(1))) == []


def test_a_restored_record_that_waits_lets_one_be_taken() -> None:
    """Only records taken from the source count for `over-admitted`."""
    parts = [start(), taken_and_called("a"), took("b", 1), snap(1, 2, {"id": "a"}, {"id": "b"}), done(1)]

    lines = history(parts, restart(1, 2, {"id": "a"}, {"id": "b"}), took("c", 2, a=2), **operator(9))

    assert found("V14", lines) == []


def test_without_a_call_it_is_vacuous() -> None:
    assert verdict("V14", history(start(), wm(5, 0), owm(5), ended())).outcome is Outcome.VACUOUS
