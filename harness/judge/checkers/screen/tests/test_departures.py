"""Each way to leave the regular life, by itself: the checkers convict it, and the screen does not vouch for it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.judge import judge
from harness.judge.checkers.screen.tests.departures import AGAIN, CUT, KILL, OF_OUTPUT, ROW, A, row
from harness.judge.checkers.screen.tests.departures_of_calls import OF_CALLS
from harness.judge.checkers.screen.tests.screening import acquitted, told
from harness.judge.checkers.tests.small_histories import (
    ended,
    event,
    history,
    left,
    owm,
    restart,
    settled,
    snap,
    stall,
    start,
    took,
    wm,
)
from tools.cases import each

CONVICTED = OF_OUTPUT | OF_CALLS
MALFORMED: dict[str, list[Any]] = {
    "a position left out": [start(), took("a", 1), settled("a"), ended()],
    "a watermark at another position": [start(), wm(1, 1), owm(1), ended()],
    "a watermark at one position twice": [start(), wm(1, 0), wm(1, 0), owm(1), owm(1)],
    "a record after the end": [start(), event("end"), took("a", 0), settled("a"), event("ended")],
    "a second end": [start(), event("end"), event("end"), event("ended")],
    "drained before the end": [start(), event("ended"), event("end")],
    "a start from nothing at another position": [start(pos=3), ended()],
    "attempts out of order": [start(a=2), event("kill", a=2), start(a=1), ended()],
    "a record at two positions": [start(), [[took("a", pos), settled("a")] for pos in (0, 1)], ended()],
    "another id at a position": [
        start(),
        [took("a", 0), settled("a"), AGAIN, took("b", 0, a=2), settled("b", a=2), ended(a=2)],
    ],
    "another key": [
        start(),
        [took("a", 0, key=1), settled("a"), AGAIN, took("a", 0, a=2), settled("a", a=2), ended(a=2)],
    ],
    "another timestamp": [
        start(),
        [took("a", 0, ts=1), settled("a"), AGAIN, took("a", 0, a=2), settled("a", a=2), ended(a=2)],
    ],
    "another expectation": [
        [start(), took("a", 0, expect=[1]), settled("a")[:2], left("a", v=1)],
        [AGAIN, took("a", 0, a=2, expect=[2]), settled("a", a=2)[:2], left("a", v=2, a=2), ended(a=2)],
    ],
    "another watermark": [start(), wm(1, 0), owm(1), AGAIN, wm(2, 0, a=2), owm(2, a=2), ended(a=2)],
    "a watermark for a record": [start(), took("a", 0), AGAIN, wm(2, 0, a=2), owm(2, a=2), ended(a=2)],
    "a snap of one number twice": [start(), snap(1, 0), snap(1, 0), ended()],
    "reading on without a restore": [CUT, KILL, start(1, 1, a=2), took("b", 1, a=2), ended(a=2)],
    "a second restore": [CUT, restart(1, 1, A), restart(1, 1, A)[-1], settled("a", a=2), ended(a=2)],
    "a restore after a start from nothing": [CUT, AGAIN, restart(1, 1, A)[-1], ended(a=2)],
    "a life after the kill": [start(), KILL, event("end")],
    "a life after the close": [start(), event("close"), event("end")],
    "a fault that ends without a begin": [start(), stall("end"), ended()],
}


@each("departure", CONVICTED)
def test_the_screen_does_not_vouch_for_what_the_checkers_convict(departure: str) -> None:
    invariant, parts, header = CONVICTED[departure]
    found = told(history(*parts, **header))
    assert found is not None
    assert found.sound

    exact = judge(found.header, found.events, screened=False)

    verdict = next(verdict for verdict in exact.invariants if verdict.invariant == invariant)
    assert verdict.outcome is (Outcome.VACUOUS if invariant == "V23" else Outcome.FAIL), verdict
    assert judge(found.header, found.events) == exact
    assert invariant == "V23" or invariant not in (acquitted(found) or ())  # V23 never convicts


@each("departure", MALFORMED)
def test_the_screen_vouches_for_no_history_that_breaks_the_rules(departure: str) -> None:
    found = told(history(*MALFORMED[departure]))
    assert found is not None

    assert not found.sound
    assert acquitted(found) is None


@pytest.mark.parametrize("field", ["n", "t"])
def test_the_screen_vouches_for_no_history_whose_events_are_out_of_order(field: str) -> None:
    lines = history(start(), took("a", 0), settled("a"), ended())
    lines[3][field] = 0
    found = told(lines)
    assert found is not None

    assert acquitted(found) is None


def test_the_screen_vouches_for_no_rows_of_one_sequence_number() -> None:
    parts: list[Any] = [start(), [[took(x, pos), settled(x)] for pos, x in enumerate("ab")], ended()]
    found = told(history(*parts, ROW, row(id="b"), effects="records"))
    assert found is not None

    assert not found.sound
    assert acquitted(found) is None


def test_the_screen_vouches_for_no_row_without_the_number_of_its_output() -> None:
    found = told(history(start(), took("a", 0), settled("a"), ended(), ROW, effects="outputs"))
    assert found is not None

    assert not found.sound
    assert acquitted(found) is None
