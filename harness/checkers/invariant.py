"""What a checker is: an invariant of `docs/reference/history.md` as a function of a traced history.

Answers to Jepsen's `Checker`. The fold over events (`history_trace.Trace`: start, step, merge) is shared,
for each checker would otherwise keep its own copy of it; what is left to a checker is `examine`, one
subtask at a time, and `across`, for what only the whole shows. Both give `Findings`, which add up: the seam
at which subtasks can be examined on many machines. Invariant: a checker sees the case only, never the
operator, a clock or a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from harness.checkers.case import Case, SubtaskView
from harness.verdict import Anomaly, InvariantVerdict, Outcome

__all__ = ["ANOMALIES_MAX", "Findings", "Invariant", "conclude", "settle"]

ANOMALIES_MAX = 100
"""Anomalies listed for one invariant; the rest is counted in `omitted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found somewhere; two findings add up to one."""

    anomalies: tuple[Anomaly, ...] = ()
    pending: tuple[str, ...] = ()
    """What would be an anomaly had the run finished normally, one clause each: the answer is unknown."""
    shortfalls: tuple[str, ...] = ()
    """What was to be observed and was not (V23), one clause each: the answer is vacuous."""
    observed: int = 0
    exposed: bool = False
    """Something was there that could have violated the invariant."""

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            anomalies=self.anomalies + other.anomalies,
            pending=self.pending + other.pending,
            shortfalls=self.shortfalls + other.shortfalls,
            observed=self.observed + other.observed,
            exposed=self.exposed or other.exposed,
        )


class Invariant(Protocol):
    """One rule. The defaults suit a rule that always applies and is about subtasks apart from each other."""

    name: str
    """`V8`."""
    vacuous: str
    """Why nothing could have violated it, when `exposed` was found nowhere."""
    unsettled: str = "the run did not finish normally, and so far "
    """What introduces the clauses of `pending`."""

    def not_claimed(self, case: Case) -> str:
        """Why it does not apply; the empty string if it does."""
        del case
        return ""

    def examine(self, view: SubtaskView) -> Findings:
        """What one subtask shows."""
        del view
        return Findings()

    def across(self, case: Case) -> Findings:
        """What only all subtasks together show."""
        del case
        return Findings()


def conclude(invariant: Invariant, case: Case) -> InvariantVerdict:
    """Judge a case by one invariant."""
    if reason := invariant.not_claimed(case):
        return InvariantVerdict(invariant=invariant.name, outcome=Outcome.NOT_CLAIMED, why=reason)
    parts = [invariant.examine(view) for view in case.views]
    return settle(invariant, [*parts, invariant.across(case)])


def settle(invariant: Invariant, parts: Iterable[Findings]) -> InvariantVerdict:
    """The verdict that findings add up to: a violation beats unknown beats vacuous."""
    parts = list(parts)
    anomalies = sorted(
        (anomaly for part in parts for anomaly in part.anomalies),
        key=lambda anomaly: max(anomaly.events, default=0),
    )
    outcome, why = _outcome(invariant, bool(anomalies), parts)
    return InvariantVerdict(
        invariant=invariant.name,
        outcome=outcome,
        anomalies=tuple(anomalies[:ANOMALIES_MAX]),
        omitted=max(0, len(anomalies) - ANOMALIES_MAX),
        why=why,
        observed=sum(part.observed for part in parts),
    )


def _outcome(invariant: Invariant, convicted: bool, parts: list[Findings]) -> tuple[Outcome, str]:  # noqa: FBT001
    pending = [clause for part in parts for clause in part.pending]
    shortfalls = [clause for part in parts for clause in part.shortfalls]
    if convicted:
        return Outcome.FAIL, ""
    if pending:
        return Outcome.UNKNOWN, f"{invariant.unsettled}{_told(pending)}"
    if shortfalls:
        return Outcome.VACUOUS, _told(shortfalls)
    if not any(part.exposed for part in parts):
        return Outcome.VACUOUS, invariant.vacuous
    return Outcome.PASS, ""


def _told(clauses: list[str]) -> str:
    few = clauses[:3]
    more = len(clauses) - len(few)
    return "; ".join(few) + (f"; and {more} more" if more else "")
