"""The checker protocol: an invariant of `docs/reference/history.md` as a function of a traced history.

Answers to Jepsen's `Checker`. All checkers share one fold over the events (`history_trace.Trace`). A checker adds
`examine`, which judges one subtask, and `across`, which judges what needs all subtasks. Both return `Findings`, which
can be added, so subtasks can be examined on different machines. Invariant: a checker sees only the case, never the
operator, a clock or a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from harness.history.event import AttemptEvent, Id, In, Out, W, Wm
from harness.history.header import Holding
from harness.history.values import shown
from harness.history.verdict import ANOMALIES_IN_FULL, Anomaly, Facts, InvariantVerdict, Outcome, let, let_all
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.outputs import visible

_PLACES = 3


def precedes(first: In | Wm, second: In | Wm) -> str:
    """That one element precedes another in the source."""
    positions = f"position {first.pos} comes before {second.pos}"
    return f"{let(first.n)} precedes {let(second.n)} in the source: {positions}."


def places(view: SubtaskView, w: W) -> str:
    """Where a watermark stands in the source."""
    marks = view.marks_of(w)
    if not marks:
        return f"The source of subtask {view.s} holds no watermark {shown(w)}."
    where = ", ".join(str(mark.pos) for mark in marks[:_PLACES])
    where += f" and {len(marks) - _PLACES} more" if len(marks) > _PLACES else ""
    named = let_all(mark.n for mark in marks[:_PLACES])
    return f"In the source, watermark {shown(w)} stands at position {where} ({named})."


def two_results(view: SubtaskView, late: Out, other: Out) -> Iterator[str]:
    """That a result is visible after one that follows it."""
    taken, ahead = view.taken(late.id), view.taken(other.id)
    if late.id == other.id:
        yield f"{let(late.n)} is output {late.j} of its record, {let(other.n)} is output {other.j}."
    elif taken is not None and ahead is not None:
        yield precedes(taken, ahead)
    yield f"But {visible(late.n, 'after', other.n)}."


ANOMALIES_MAX = 100
"""Most anomalies listed for one invariant; further ones are counted in `omitted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of examining one subtask or the whole case; findings can be added."""

    anomalies: tuple[Anomaly, ...] = ()
    pending: tuple[str, ...] = ()
    """What would be an anomaly if the run had finished normally, one clause each; makes the outcome unknown."""
    unread: tuple[str, ...] = ()
    """Which tables were not read whole and why, one clause each; makes the outcome unknown."""
    shortfalls: tuple[str, ...] = ()
    """What was expected and not observed (V23), or not known (V8), one clause each; makes a pass vacuous."""
    observed: int = 0
    exposed: bool = False
    """Whether the history held anything that could have violated the invariant."""

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            anomalies=self.anomalies + other.anomalies,
            pending=self.pending + other.pending,
            unread=self.unread + other.unread,
            shortfalls=self.shortfalls + other.shortfalls,
            observed=self.observed + other.observed,
            exposed=self.exposed or other.exposed,
        )


class Invariant(Protocol):
    """One invariant. The defaults suit one that always applies and is judged for each subtask separately."""

    name: str
    """Its number in `docs/reference/history.md`, such as `V8`."""
    vacuous: str
    """The reason to give when nothing in the history could have violated it (`exposed` is false)."""
    unsettled: str = "the run did not finish normally, and so far "
    """The words that precede the clauses of `pending`."""

    def not_claimed(self, case: IndexedHistory) -> str:
        """Why it does not apply to this history; empty if it applies."""
        del case
        return ""

    def examine(self, view: SubtaskView) -> Findings:
        """The findings on one subtask."""
        del view
        return _NOTHING

    def across(self, case: IndexedHistory) -> Findings:
        """The findings that need all subtasks."""
        del case
        return _NOTHING


_NOTHING = Findings()


class OfTable(NamedTuple):
    """What a table shows of one of its keys."""

    anomaly: Anomaly
    may_change: bool
    """Whether it is an anomaly only after a normal finish, because the run could still have undone or written it."""


def convict(
    kind: str,
    s: int | None,
    events: Iterable[int],
    say: str,
    then: Facts,
    rule: str,
    *,
    about: object = None,
    id: Id | None = None,
    w: W | None = None,
    c: int | None = None,
) -> Anomaly:
    """An anomaly `about` an event or element, if it names one; cites events that are given as a set in order."""
    return Anomaly(
        kind=kind,
        s=s,
        id=getattr(about, "id", id),
        w=getattr(about, "w", w),
        c=getattr(about, "c", c),
        events=tuple(sorted(events) if isinstance(events, set) else events),
        say=say,
        then=then,
        rule=rule,
    )


def convict_of(kind: str, event: AttemptEvent, say: str, *witnesses: int, then: Facts, rule: str) -> Anomaly:
    """An anomaly of one event of an attempt, cited with the witnesses in order."""
    return convict(kind, event.s, {event.n, *witnesses}, say, then, rule, about=event)


def findings_of_tables(case: IndexedHistory, holding: Holding, shown: Iterable[OfTable]) -> Findings:
    """The findings of the tables that hold this, given what they show."""
    shown = list(shown)
    certain = [one.anomaly for one in shown if case.finished or not one.may_change]
    rows = sum(len(table.rows) for table in case.tables.holding(holding))
    return Findings(
        anomalies=tuple(certain),
        pending=() if case.finished else tuple(one.anomaly.say for one in shown if one.may_change),
        unread=tuple(case.tables.unread(holding)),
        observed=rows,
        exposed=rows > 0,
    )


def conclude(invariant: Invariant, case: IndexedHistory) -> InvariantVerdict:
    """Judge a case by one invariant."""
    if reason := invariant.not_claimed(case):
        return InvariantVerdict(invariant=invariant.name, outcome=Outcome.NOT_CLAIMED, why=reason)
    parts = [invariant.examine(view) for view in case.views]
    return settle(invariant, [*parts, invariant.across(case)])


class Settled(Protocol):
    """What the verdict on some findings needs of their invariant."""

    @property
    def name(self) -> str:
        """Its number, such as `V8`."""

    @property
    def vacuous(self) -> str:
        """The reason to give when nothing could have violated it."""

    @property
    def unsettled(self) -> str:
        """The words that precede the clauses of `pending`."""


def settle(invariant: Settled, parts: Iterable[Findings]) -> InvariantVerdict:
    """The verdict on the sum of the findings: a violation beats unknown, unknown beats vacuous."""
    parts = [part for part in parts if part is not _NOTHING]
    anomalies = [anomaly for part in parts for anomaly in part.anomalies]
    anomalies.sort(key=_shown_at)
    outcome, why = _outcome(invariant, bool(anomalies), parts)
    return InvariantVerdict(
        invariant=invariant.name,
        outcome=outcome,
        anomalies=tuple(in_full(anomalies[:ANOMALIES_MAX])),
        omitted=max(0, len(anomalies) - ANOMALIES_MAX),
        why=why,
        observed=sum(part.observed for part in parts),
    )


def _shown_at(anomaly: Anomaly) -> int:
    return max(anomaly.events, default=0)


def in_full(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """In order, with the facts of those that will be explained."""
    found = sorted(anomalies, key=_shown_at)
    first = [anomaly.in_full() for anomaly in found[:ANOMALIES_IN_FULL]]
    return [*first, *(replace(anomaly, then=()) for anomaly in found[ANOMALIES_IN_FULL:])]


def _outcome(invariant: Settled, convicted: bool, parts: list[Findings]) -> tuple[Outcome, str]:  # noqa: FBT001
    if convicted:
        return Outcome.FAIL, ""
    pending = [clause for part in parts for clause in part.pending]
    unread = [clause for part in parts for clause in part.unread]
    shortfalls = [clause for part in parts for clause in part.shortfalls]
    if pending or unread:
        reasons = [f"{invariant.unsettled}{_told(pending)}"] if pending else []
        return Outcome.UNKNOWN, "; ".join([*reasons, *([_told(unread)] if unread else [])])
    if shortfalls:
        return Outcome.VACUOUS, _told(shortfalls)
    if not any(part.exposed for part in parts):
        return Outcome.VACUOUS, invariant.vacuous
    return Outcome.PASS, ""


def _told(clauses: list[str]) -> str:
    few = clauses[:3]
    more = len(clauses) - len(few)
    return "; ".join(few) + (f"; and {more} more" if more else "")
