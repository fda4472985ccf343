"""V24 explained failures: an attempt fails, is killed or is restarted only for a cause that the history names.

Answers to an operator that raises now and then and is restarted, so that its run ends well. Applies with the header's
`explained`. Invariant: each `failed`, `kill` and restart is named by its `by`, or lies in the reach of a fault that
`can` cause it, or follows from another event of the history that may cause it. A call's failure is explained by its
kind: a fault that makes calls late lets limits of time pass, and no fault makes a call fail that met nothing. O(n) for
each attempt that has such an event, times the faults; memory grows with attempts, their failures, and faults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from msgspec import UNSET, UnsetType

from harness.history.event import CAUSES_OUTSIDE, Call, Close, Ended, Failed, FaultEvent, Kill, Res, Start
from harness.history.header import OperatorHeader
from harness.history.stalls import fault_spans
from harness.history.values import shown
from harness.history.verdict import Anomaly, let
from harness.judge.checkers.history_trace import AttemptTrace, SubtaskTrace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Findings, Invariant, convict

_US_PER_MS = 1000
_AT_ONCE_US = 1000
"""A call that failed sooner than this after it began waited for nothing, so no limit of its time had passed."""

_Asked = Failed | Kill | Start
"""What needs an explanation; a `start` only if it is a restart."""


class ExplainedFailures(Invariant):
    """Checks V24 for each failure, kill and restart."""

    name = "V24"
    vacuous = "no attempt started"

    def not_claimed(self, case: IndexedHistory) -> str:
        """It applies if the header has `explained`."""
        return "" if case.header.explained else "the header does not claim that failures are explained"

    def across(self, case: IndexedHistory) -> Findings:
        """Each failure, kill and restart, up to the first `giveup`, that nothing explains."""
        until = min((giveup.n for giveup in case.trace.giveups), default=math.inf)
        causes = _Causes(case)
        asked = [one for view in case.views for one in _asked(view.subtask) if one.event.n < until]
        anomalies = tuple(_unexplained(one, causes) for one in asked if not causes.explain(one))
        started = any(a.start for view in case.views for a in view.subtask.attempts.values())
        return Findings(anomalies=anomalies, observed=len(asked), exposed=started)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Incident:
    """A failure, kill or restart, with the attempt that it put an end to."""

    event: _Asked
    subtask: SubtaskTrace
    attempt: AttemptTrace
    """Of a restart: the attempt before."""

    @property
    def began(self) -> float:
        """Number of the `start` of that attempt."""
        return -math.inf if self.attempt.start is None else self.attempt.start.n


def _asked(subtask: SubtaskTrace) -> Iterator[_Incident]:
    before: AttemptTrace | None = None
    for a in sorted(subtask.attempts):
        attempt = subtask.attempts[a]
        if before is not None and (start := attempt.start) is not None:
            was_over = (e.n < start.n and isinstance(e, Ended | Failed | Kill) for e in before.events)
            if not any(was_over):
                yield _Incident(event=start, subtask=subtask, attempt=before)
        for event in attempt.events:
            if isinstance(event, Failed | Kill):
                yield _Incident(event=event, subtask=subtask, attempt=attempt)
        before = attempt


class _Causes:
    """What may cause failures, over a whole history."""

    def __init__(self, case: IndexedHistory) -> None:
        self._operator: OperatorHeader = case.header.operator
        self._recover_us = case.header.bounds.recover * _US_PER_MS
        self._spans = fault_spans(case.trace.faults)
        attempts = [attempt for view in case.views for attempt in view.subtask.attempts.values()]
        blows = [e for attempt in attempts for e in attempt.events if isinstance(e, Failed | Kill)]
        self._blows = blows if case.header.explained == "together" else []
        """With `together`: what may stop the other subtasks."""

    def explain(self, incident: _Incident) -> bool:
        """Whether anything explains it."""
        event, s = incident.event, incident.subtask.s
        if self._named(event.by, event.n, incident.began):
            return True
        match event:
            case Failed():
                can = self._can("failed", s, until=event.n, since=event)
                return can or self._was_superseded(incident) or self._follows_a_call(incident)
            case Kill():
                can = self._can("kill", s, until=event.n, since=event)
                return can or self._is_reaped(incident) or self._others_fell(incident)
            case Start():
                return self._can("start", s, until=event.n, since=event) or self._others_fell(incident)
            case _:
                assert_never(event)

    def failures_of_calls(self, incident: _Incident) -> list[Res]:
        """The failures of calls that made the attempt fail by the declared policy, explained or not."""
        failed = incident.event
        if not isinstance(failed, Failed):
            return []
        before = (event for event in incident.attempt.events if isinstance(event, Res) and event.n < failed.n)
        return [res for res in before if self._fails_by_policy(res) and failed.id in (UNSET, res.id)]

    def _named(self, by: str | UnsetType, n: int, began: float) -> bool:
        """By name: `by` names a cause outside, or a fault that began before `n` and lasted beyond `began`."""
        if by is UNSET:
            return False
        named = (span for span in self._spans if span.begin.f == by and span.begin.n < n)
        return by in CAUSES_OUTSIDE or any(span.end is None or span.end.n > began for span in named)

    def _can(self, kind: str, s: int, *, until: int, since: _Asked | Res | Call) -> bool:
        return next(self.able(kind, s, until=until, since=since), None) is not None

    def able(self, kind: str, s: int, *, until: int, since: _Asked | Res | Call) -> Iterator[FaultEvent]:
        """The faults that can cause it, which began before `until` and had not ended too long before `since`."""
        for span in self._spans:
            begin, end = span.begin, span.end
            reaches = begin.can is not UNSET and kind in begin.can and begin.s in (UNSET, s)
            lasts = end is None or end.n > since.n or since.t - end.t <= self._recover_us
            if begin.n < until and reaches and lasts:
                yield begin

    def _was_superseded(self, incident: _Incident) -> bool:
        """Whether a later attempt had started by then: a zombie reports its failure, or is reaped."""
        later = (a for number, a in incident.subtask.attempts.items() if number > incident.attempt.a)
        return any(attempt.start is not None and attempt.start.n < incident.event.n for attempt in later)

    def _is_reaped(self, incident: _Incident) -> bool:
        over = any(
            event.n < incident.event.n and isinstance(event, Failed | Ended | Close)
            for event in incident.attempt.events
        )
        return over or self._was_superseded(incident)

    def _others_fell(self, incident: _Incident) -> bool:
        """With `together`: whether another subtask failed or was killed since the attempt started."""
        return any(
            blow.s != incident.subtask.s and incident.began < blow.n < incident.event.n
            for blow in self._blows
        )

    def _follows_a_call(self, incident: _Incident) -> bool:
        """Whether a call failed before, by the declared policy, and that failure was itself asked for."""
        calls = _calls_of(incident.attempt)
        for res in self.failures_of_calls(incident):
            since, took_us = _since_call(calls, res)
            at_once = res.r == "fail" and took_us < _AT_ONCE_US
            if self._named(res.by, res.n, incident.began):
                return True
            if res.met != "nothing" and self._can("res", res.s, until=res.n, since=since):
                return True
            # `error` and `nothing` are known not to be for want of time.
            for_want_of_time = not at_once and res.met in (UNSET, "limit")
            if for_want_of_time and self._can("late", res.s, until=res.n, since=since):
                return True
        return False

    def _fails_by_policy(self, res: Res) -> bool:
        match res.r:
            case "fail":
                return res.final and self._operator.on_error == "fail"
            case "timeout":
                return res.error is not UNSET and self._operator.on_timeout == "fail"
            case _:
                return False


def _calls_of(attempt: AttemptTrace) -> dict[int | str, list[Call]]:
    """The calls of each record, in their order."""
    calls: dict[int | str, list[Call]] = {}
    for event in attempt.events:
        if isinstance(event, Call):
            calls.setdefault(event.id, []).append(event)
    return calls


def _since_call(calls: Mapping[int | str, Sequence[Call]], res: Res) -> tuple[Call | Res, float]:
    """The first call of the record of `res`, and how long the call took that `res` ends."""
    own = calls.get(res.id, ())
    ended = [call.t for call in own if call.try_ == res.try_ and call.n < res.n]
    return (own[0] if own else res), (res.t - ended[-1] if ended else math.inf)


def _unexplained(incident: _Incident, causes: _Causes) -> Anomaly:
    event, attempt = incident.event, incident.attempt
    told = f"attempt {attempt.a} of subtask {attempt.s}"
    record = event.id if isinstance(event, Failed) and event.id is not UNSET else None
    by = "" if event.by is UNSET else f"; {shown(event.by)} is no fault that was on"
    failures = causes.failures_of_calls(incident)
    match event:
        case Failed() if failures:
            record = failures[-1].id
            say = (
                f"{told} fails with {shown(event.error)} after the call of record {shown(record)} failed"
                f" (event {failures[-1].n}), which nothing explains either{by}"
            )
        case Failed():
            say = f"{told} fails with {shown(event.error)}, and neither a fault nor the run explains that{by}"
        case Kill():
            say = f"{told} is killed, and neither a fault nor the run explains that{by}"
        case Start():
            say = (
                f"attempt {event.a} of subtask {event.s} starts, though attempt {attempt.a} had neither ended nor"
                f" failed nor been killed, and neither a fault nor the run explains that{by}"
            )
        case _:
            assert_never(event)
    others = [res.n for res in failures[-1:]]
    then: list[str] = []
    if failures:
        res = failures[-1]
        then += [
            f"By {let(res.n)} the call of record {shown(res.id)} failed, and {let(event.n)} followed.",
            _unnamed(res),
            _no_fault(incident.attempt, res, causes),
        ]
    elif isinstance(event, Start):
        before = attempt.start or event
        others.append(before.n)
        ended = "whose attempt had not ended, failed or been killed"
        then.append(f"{let(event.n)} followed {let(before.n)}, {ended}.")
    kind = type(event).__name__.lower()
    then += [_unnamed(event), f"No fault that was on at {let(event.n)} can cause a `{kind}`."]
    rule = "an attempt fails, is killed or is restarted only for a cause that the history names"
    return convict("unexplained-failure", event.s, {event.n, *others}, say, then, rule, id=record)


def _no_fault(attempt: AttemptTrace, res: Res, causes: _Causes) -> str:
    """Why no fault explains the call's failure, with what was on if anything was."""
    since, took_us = _since_call(_calls_of(attempt), res)
    able = [*causes.able("res", res.s, until=res.n, since=since)]
    late = [*causes.able("late", res.s, until=res.n, since=since)]
    if not (able or late):
        return f"No fault that was on from the record's first call to {let(res.n)} can cause a `res`."
    names = ", ".join(dict.fromkeys(shown(begin.f) for begin in (*able, *late)))
    on = f"{names} was on or had just ended"
    if res.met == "nothing":
        return f"{on}; but neither an error of the database nor a passed limit of time had reached the call."
    if res.met == "error":
        return f"{on}, which makes calls late; but what the call met was an error of the database."
    return (
        f"{on}, which makes calls late; but this call failed {took_us} us after it began, so it was not late."
    )


def _unnamed(event: _Asked | Res) -> str:
    if event.by is UNSET:
        return f"{let(event.n)} names no cause."
    return f"{let(event.n)} names {shown(event.by)} as its cause, which was no fault of that time."
