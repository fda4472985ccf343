"""Claims about V22: what the database lost is found in its probe's history, and is asked for or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from harness.history.probe import ProbeOperation
from harness.history.verdict import Outcome
from harness.judge.checkers.substrate import LossAsked, judge_substrate
from tools.cases import each

SWITCH = LossAsked(fault="switch", ended_us=350)


def appended(
    value: int, *, outcome: Literal["ok", "fail", "unknown"] = "ok", server: int = 1
) -> ProbeOperation:
    return ProbeOperation(
        began=100 * value, ended=100 * value + 10, do="append", outcome=outcome, value=value, server=server
    )


def reading(at: int, *seen: int, isolation: str = "REPEATABLE-READ") -> ProbeOperation:
    return ProbeOperation(
        began=at, ended=at + 10, do="read", outcome="ok", seen=list(seen), isolation=isolation
    )


KEPT = [appended(1), appended(2), appended(3)]


def test_a_database_that_has_all_in_the_end_is_honest() -> None:
    verdict = judge_substrate([*KEPT, reading(900, 1, 2, 3)])

    assert verdict.outcome is Outcome.PASS
    assert (verdict.why, verdict.observed) == ("", 3)


def test_what_a_fault_was_there_to_take_is_blamed_on_the_database_and_passes() -> None:
    verdict = judge_substrate([*KEPT, appended(4, server=3), reading(900, 1, 4)], asked=[SWITCH])

    assert verdict.outcome is Outcome.PASS
    assert "of 4 commits" in verdict.why
    assert "2 (by server 1) are gone" in verdict.why


@pytest.mark.parametrize(
    "asked", [[], [LossAsked(fault="switch", ended_us=150)]], ids=["no fault", "over before"]
)
def test_a_loss_that_nobody_asked_for_leaves_everything_undecided(asked: Sequence[LossAsked]) -> None:
    verdict = judge_substrate([*KEPT, reading(900, 1, 3)], asked=asked)

    assert verdict.outcome is Outcome.UNKNOWN
    assert [(one.kind, one.id) for one in verdict.anomalies] == [("lost-commit", 2)]


def test_an_append_without_an_answer_may_be_there_or_not() -> None:
    half = [*KEPT, appended(4, outcome="unknown")]

    assert judge_substrate([*half, reading(900, 1, 2, 3)]).outcome is Outcome.PASS
    assert judge_substrate([*half, reading(900, 1, 2, 3, 4)]).outcome is Outcome.PASS


@each(
    ("operations", "kind"),
    [
        ([*KEPT, reading(500, 1, 2), reading(900, 1, 2, 3)], "stale-reading"),
        ([*KEPT, reading(900, 1, 2, 3, 9)], "phantom"),
        ([*KEPT, appended(4, outcome="fail"), reading(900, 1, 2, 3, 4)], "aborted-read"),
        ([*KEPT, reading(900, 1, 2, 3, 3)], "doubled"),
        ([*KEPT, reading(900, 1, 3, 2)], "misordered"),
        ([*KEPT, reading(500, 1, 2, 3), reading(900, 1, 2, 3, isolation="READ-COMMITTED")], "isolation"),
    ],
)
def test_a_reading_that_contradicts_the_appends_convicts_the_database_and_nobody_else(
    operations: Sequence[ProbeOperation], kind: str
) -> None:
    verdict = judge_substrate(operations, asked=[SWITCH])

    assert verdict.outcome is Outcome.UNKNOWN
    assert [one.kind for one in verdict.anomalies] == [kind]


@pytest.mark.parametrize(
    "operations", [[], KEPT, [*KEPT, reading(250, 1, 2)]], ids=["nothing", "unread", "early"]
)
def test_a_probe_without_a_reading_behind_its_commits_shows_nothing(
    operations: Sequence[ProbeOperation],
) -> None:
    assert judge_substrate(operations).outcome is Outcome.VACUOUS
