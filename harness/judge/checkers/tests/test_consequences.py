"""What follows from wrong results of a lookup is what is gone without them, and nothing else."""

from __future__ import annotations

from typing import Any

from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.consequences import with_consequences
from harness.judge.checkers.judge import judge
from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    ended,
    history,
    left,
    owm,
    settled,
    start,
    text,
    took,
    wm,
)

NOTHING_OF_A = [start(), took("a", 0), wm(1, 1), called("a"), answered("a", v=[]), owm(1)]


def judged(*parts: Any, **header: Any) -> Judgement:
    reader = open_text(text(history(*parts, **header)))
    events = list(reader.events())
    assert reader.header is not None
    found = reader.header
    return with_consequences(judge(found, events), lambda: (found, events))


def following(*parts: Any, **header: Any) -> dict[str, str]:
    """Of each violated invariant the one that it follows from."""
    return {verdict.invariant: verdict.follows for verdict in judged(*parts, **header).convicted()}


def test_what_is_gone_if_a_lookups_results_are_taken_as_right_follows_from_them_l3() -> None:
    assert following(*NOTHING_OF_A, ended()) == {"V5": "V8", "V8": ""}


def test_a_violation_that_another_record_shows_too_follows_from_nothing_l3() -> None:
    other = [took("b", 2), wm(2, 3), called("b"), answered("b"), owm(2), left("b")]

    found = following(*NOTHING_OF_A, other, ended(), operator={"mode": "unordered"})

    assert found == {"V5": "", "V8": ""}


def test_what_the_operator_itself_doubles_follows_from_nothing_l3() -> None:
    assert set(following(start(), took("a", 0), settled("a"), left("a"), wm(1, 1), ended()).values()) == {""}


def test_what_follows_is_told_in_json_l3() -> None:
    told = judged(*NOTHING_OF_A, ended()).as_json()

    assert {one["invariant"]: one["follows"] for one in told["invariants"] if "follows" in one} == {
        "V5": "V8"
    }
