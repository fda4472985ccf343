"""Trouble with the store is believed by what a writer met and a restore found, never by what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.model.fault import FoundFault
from harness.faults.registry import fault_of
from harness.history.event import Ended
from harness.history.notes import Acted, Line, Measured, RestoreFallback
from harness.history.tests.lines import line

SLOW = {"id": "f", "do": "store_slow", "delay": "300ms", "for": "1s", "when": {"at": "100ms"}}
FAILING = {"id": "f", "do": "store_failing", "for": "1s", "when": {"at": "100ms"}}
TORN = {"id": "f", "do": "store_torn", "subtask": 1, "when": {"checkpoint": 3}}
MISSING = {"id": "f", "do": "store_newest_missing", "subtask": 1, "when": {"checkpoint": 3}}


def acted(t_ms: int, what: str = "", **facts: Any) -> Line:
    return line(Acted, t_ms * 1000, fault="f", what=what, facts=facts)


def measured(t_ms: int, **facts: Any) -> Line:
    return line(Measured, t_ms * 1000, fault="f", facts=facts)


def found(fault: dict[str, Any], lines: list[Line]) -> Any:
    kind = fault_of(fault)
    assert isinstance(kind, FoundFault)
    return kind.recorded([*lines, line(Ended, 5_000_000)])


def test_a_slow_store_shows_how_long_writes_were_held() -> None:
    lines = [acted(100), measured(500, took_ms=301.0), measured(900, took_ms=350.5)]

    slow = found(SLOW, lines)

    assert (slow.began_us, slow.measured_us, slow.ended_us) == (100_000, 500_000, 1_100_000)
    assert slow.evidence == {"writes": 2, "slowest_ms": 350.5}


def test_a_failing_store_shows_the_errors_that_writers_got() -> None:
    lines = [acted(100), measured(500, errno="ENOSPC"), measured(600, errno="ENOSPC")]

    failing = found(FAILING, lines)

    assert (failing.began_us, failing.measured_us) == (100_000, 500_000)
    assert failing.evidence == {"writes": 2, "errors": {"ENOSPC": 2}}


@pytest.mark.parametrize(
    ("fault", "what"),
    [(TORN, "torn"), (MISSING, "missing")],
    ids=["torn", "missing"],
)
def test_a_damaged_file_counts_when_a_restore_met_it(fault: dict[str, Any], what: str) -> None:
    lines = [
        acted(100, what=what, file="c3", bytes=40, of=80),
        line(RestoreFallback, 900_000, a=2, what=what, c=3, file="c3", to=2),
    ]

    damage = found(fault, lines)

    assert (damage.began_us, damage.measured_us, damage.ended_us) == (100_000, 900_000, 900_000)
    assert (damage.evidence["checkpoints"], damage.evidence["restored"]) == ([3], 2)


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        pytest.param(SLOW, [acted(100)], id="slow, and nothing was written"),
        pytest.param(SLOW, [acted(100), measured(200, took_ms=12.0)], id="slow, and not by much"),
        pytest.param(FAILING, [acted(100)], id="failing, and nothing was written"),
        pytest.param(TORN, [acted(100, what="torn", file="c3", bytes=4, of=8)], id="torn, never read"),
        pytest.param(
            TORN,
            [
                acted(100, what="torn", file="c3", bytes=4, of=8),
                line(RestoreFallback, 9000, what="torn", c=4, file="c4", to=3),
            ],
            id="another file was torn",
        ),
    ],
)
def test_trouble_that_nobody_met_is_not_believed(fault: dict[str, Any], lines: list[Line]) -> None:
    nothing = found(fault, lines)

    assert (nothing.began_us, nothing.measured_us, nothing.evidence) == (100_000, None, {})
    assert nothing.ended_us is not None


@pytest.mark.parametrize(
    "fault",
    [SLOW, FAILING, TORN, MISSING],
    ids=["slow", "failing", "torn", "missing"],
)
def test_trouble_that_never_began_is_none(fault: dict[str, Any]) -> None:
    assert found(fault, []) is None
