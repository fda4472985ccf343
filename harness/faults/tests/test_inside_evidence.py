"""A stall and a clock's jump are believed by what was measured, never by what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.model.fault import FoundFault
from harness.faults.tests.entries import made
from harness.history.notes import Acted, Line, Measured
from harness.history.tests.lines import line

STALL: FoundFault = made("loop_stall", subtask=1, **{"for": "300ms"})


def acted(what: str, *, fault: str = "f", **facts: Any) -> Line:
    return line(Acted, 1000, fault=fault, what=what, facts=facts)


def measured(what: str, t: int, **facts: Any) -> Line:
    return line(Measured, t, fault="f", what=what, facts=facts)


def stalled(lag_ms: float) -> list[Line]:
    return [acted("stall"), measured("loop lag", 9000, lag_ms=lag_ms)]


def test_a_stall_is_believed_when_the_loop_was_that_late() -> None:
    found = STALL.recorded(stalled(301.5))

    assert found is not None
    assert (found.began_us, found.measured_us, found.ended_us) == (1000, 9000, 9000)
    assert found.evidence == {"subtask": 1, "asked_ms": 300, "loop_lag_ms": 301.5, "times": 1}


@pytest.mark.parametrize(
    "lines",
    [stalled(12.0), stalled(301.0) + stalled(12.0), [acted("stall")]],
    ids=["too short", "one of two too short", "never measured"],
)
def test_a_stall_that_did_nothing_is_not_believed(lines: list[Line]) -> None:
    found = STALL.recorded(lines)

    assert found is not None
    assert (found.measured_us, found.evidence) == (None, {})


def test_a_stall_that_never_began_is_none() -> None:
    assert STALL.recorded([acted("stall", fault="other")]) is None


def jump(**fields: Any) -> FoundFault:
    fault: FoundFault = made("clock_jump", **fields)
    return fault


def moved(how: str, *offsets: tuple[str, float, float]) -> list[Line]:
    offsets_measured = [
        measured("offset", 2000 + 1000 * n, when=when, before_ms=before_ms, after_ms=after_ms)
        for n, (when, before_ms, after_ms) in enumerate(offsets)
    ]
    return [acted("clock", how=how), *offsets_measured]


@pytest.mark.parametrize(
    ("fault", "lines", "changed_ms"),
    [
        (jump(shift="60m"), moved("jump", ("begin", 0, 3_600_000)), 3_600_000),
        (
            jump(shift="-10s", **{"for": "1s"}),
            moved("jump", ("begin", 0, -10_000), ("end", -10_000, 0)),
            -10_000,
        ),
        (jump(how="freeze", **{"for": "1s"}), moved("freeze", ("begin", 0, 0), ("end", -1003, 0)), -1003),
        (
            jump(how="smear", shift="2s", **{"for": "1s"}),
            moved("smear", ("begin", 0, 1), ("end", 2000, 0)),
            2000,
        ),
    ],
    ids=["forward", "back", "freeze", "smear"],
)
def test_a_clock_is_believed_to_have_moved_as_far_as_was_measured(
    fault: FoundFault, lines: list[Line], changed_ms: float
) -> None:
    found = fault.recorded(lines)

    assert found is not None
    assert found.evidence["offset_changed_ms"] == changed_ms
    assert found.measured_us is not None


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (jump(shift="60m"), moved("jump", ("begin", 0, 0))),
        (jump(shift="60m"), moved("jump", ("begin", 0, -3_600_000))),
        (jump(shift="60m"), moved("jump")),
        (jump(how="freeze", **{"for": "1s"}), moved("freeze", ("begin", 0, 0))),
    ],
    ids=["not at all", "the other way", "not measured", "its end was not seen"],
)
def test_a_clock_that_did_not_move_as_asked_is_not_believed(fault: FoundFault, lines: list[Line]) -> None:
    found = fault.recorded(lines)

    assert found is not None
    assert (found.measured_us, found.evidence) == (None, {})


def test_a_clock_that_nobody_touched_is_none() -> None:
    assert jump(shift="60m").recorded([]) is None
