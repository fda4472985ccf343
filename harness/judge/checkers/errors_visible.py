"""V20 errors visible: a record that failed for good fails its task or becomes a dead letter, and not both.

Answers to Flink's `failOperator`; convicts swallowed exceptions. Invariant: in an attempt, each final failure is
followed by the attempt's `failed`, by the record's `dead`, or by the attempt's `kill`; the kill counts only
before a completed snapshot that omits the record, since after it a restart would not call the record again. A rescale
that ends the subtask counts as a kill, and so does a `close` before the input has `ended`, if a completed snapshot
behind the failure holds the record: the next attempt calls it again (a batch ends so). What
tables of dead letters show is in `dead_rows`. O(n log n); memory grows with the failures of the attempt and with rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

from msgspec import UNSET

from harness.history.event import Close, Dead, Failed, Id, Kill, Res
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.case import Case, SubtaskView
from harness.judge.checkers.dead_rows import is_failure, judge_dead_rows
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.invariant import Findings, Invariant


class ErrorsVisible(Invariant):
    """Checks V20 for each final failure."""

    name = "V20"
    vacuous = "no record failed, and no table of dead letters has a row"

    def examine(self, view: SubtaskView) -> Findings:
        """Each failure that was not reported, or was reported both as `failed` and as `dead`."""
        anomalies: list[Anomaly] = []
        pending: list[str] = []
        failures = 0
        for attempt in view.subtask.attempts.values():
            ends = _Ends(view, attempt)
            for res in filter(is_failure, attempt.events):
                assert isinstance(res, Res)
                failures += 1
                if ends.shows(res):
                    continue
                if ends.is_over(res):
                    anomalies.append(_swallowed(res))
                else:
                    pending.append(f"the failure of {_named(res)} (event {res.n}) was not reported")
            anomalies += _double_routed(ends)
        return Findings(
            anomalies=tuple(anomalies), pending=tuple(pending), observed=failures, exposed=failures > 0
        )

    def across(self, case: Case) -> Findings:
        """What the tables of dead letters show."""
        return judge_dead_rows(case)


class _Ends:
    """The failures and dead letters that an attempt reported, and how it ended."""

    def __init__(self, view: SubtaskView, attempt: AttemptTrace) -> None:
        self.dead: dict[Id, Dead] = {}
        """The last dead letter of each record."""
        self.failed: dict[Id, Failed] = {}
        self._last_failed = -math.inf  # events may be numbered below 0
        self._killed: int | None = None
        completed = view.checkpoints.completions
        self._snaps = [cut.snap for cut in attempt.cuts if (attempt.a, cut.snap.c) in completed]
        self._ended = attempt.ended is not None
        self._superseded = attempt.a < max(view.subtask.attempts)
        self._closed: int | None = None
        for event in attempt.events:
            match event:
                case Dead():
                    self.dead[event.id] = event
                case Failed():
                    self._last_failed = event.n
                    if event.id is not UNSET:
                        self.failed[event.id] = event
                case Kill():
                    self._killed = event.n
                case Close():
                    self._closed = event.n
                case _:
                    pass
        rescale = view.case.rescalings.ended_by(view)
        if rescale is not None and attempt.a == max(view.subtask.attempts) and self._killed is None:
            self._killed = rescale.n

    def shows(self, res: Res) -> bool:
        """Whether the failure was reported, or the attempt was killed before it had to be."""
        dead = self.dead.get(res.id)
        if self._last_failed > res.n or (dead is not None and dead.n > res.n):
            return True
        snap = self._next_snap(res)
        if self._killed is not None and self._killed > res.n and (snap is None or self._killed < snap):
            return True
        return snap is None and self._is_handed_over(res)

    def _is_handed_over(self, res: Res) -> bool:
        """Whether the attempt closed before its end, behind a completed snapshot that was taken after the failure."""
        taken = bool(self._snaps) and self._snaps[-1].n > res.n
        return taken and not self._ended and self._closed is not None and self._closed > self._snaps[-1].n

    def is_over(self, res: Res) -> bool:
        """Whether it is too late to report the failure."""
        return self._ended or self._superseded or self._closed is not None or self._next_snap(res) is not None

    def _next_snap(self, res: Res) -> int | None:
        """The next completed snapshot that omits the record, so that a restart would not call it again."""
        for snap in self._snaps[bisect_right(self._snaps, res.n, key=lambda snap: snap.n) :]:
            if all(element.get("id") != res.id for element in snap.elements):
                return snap.n
        return None


def _double_routed(ends: _Ends) -> Iterator[Anomaly]:
    for record, failed in ends.failed.items():
        if (dead := ends.dead.get(record)) is not None:
            say = (
                f"record {shown(record)} went to the dead letters (event {dead.n}), and failed attempt {failed.a}"
                f" of subtask {failed.s} as well (event {failed.n})"
            )
            events = tuple(sorted((dead.n, failed.n)))
            yield Anomaly(kind="double-routed", s=failed.s, id=record, events=events, say=say)


def _swallowed(res: Res) -> Anomaly:
    how = "failed for good" if res.r == "fail" else "timed out with an error"
    say = (
        f"{_named(res)} {how}, but the attempt neither failed nor was killed in time, and the record did not go"
        " to the dead letters"
    )
    return Anomaly(kind="swallowed", s=res.s, id=res.id, events=(res.n,), say=say)


def _named(res: Res) -> str:
    return f"record {shown(res.id)} in attempt {res.a} of subtask {res.s}"
