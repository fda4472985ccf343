"""V15 attempts: the calls of a record run one after the other and end in one outcome before the timeout.

Answers to Flink's `AsyncWaitOperator` with timeout and retry strategy, and to FLINK-30477, -38082 and -6435.
Invariant: in each attempt, a record has at most `max_tries` calls, numbered from 1 and never concurrent, one
final outcome, no output before it, a timeout neither early nor late, and no call after it; with the header's
`operator.retry` (Flink's `AsyncRetryStrategy` and `RetryableResultHandlerDelegator`) an outcome that is not final is
followed by the record's next call, in its time. Times are compared in microseconds, and the backoff is calculated
exactly. O(n); memory grows with the records of the attempt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from msgspec import UNSET

from harness.history.event import Call, Close, Dead, End, Failed, Held, Id, In, Kill, Out, Res, Restore
from harness.history.header import Retry
from harness.history.stalls import Stalls
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all, sentence
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import RecordOf, elements_of
from harness.judge.checkers.invariant import Findings, Invariant, convict_of

_US_PER_MS = 1000
_CALLS_NAMED = 8


class CallsAndOutcomes(Invariant):
    """Checks V15 for each record of each attempt."""

    name = "V15"
    vacuous = "no call was made"

    def examine(self, view: SubtaskView) -> Findings:
        """Each call, outcome and output that is out of sequence or at the wrong time."""
        retry = view.case.header.operator.retry
        backoff = None if retry is None else BackoffRange(retry)
        faults = Stalls(view.case.trace.faults if retry else (), every=True)
        anomalies: list[Anomaly] = []
        calls = 0
        for attempt in view.subtask.attempts.values():
            walk = _AttemptWalk(view, attempt)
            anomalies += walk.anomalies()
            over_at = _over_at(view, attempt)
            held = Holds(attempt)
            anomalies += _late(view, walk.records, over_at, held)
            if backoff is None or backoff.retry.profile == "strict":
                anomalies += _called_late(view, walk.records, over_at, held)
            if backoff is not None:
                anomalies += _RetryWalk(view, attempt, backoff, faults, over_at, held).anomalies()
            calls += sum(isinstance(event, Call) for event in attempt.events)
        return Findings(anomalies=tuple(anomalies), observed=calls, exposed=calls > 0)


@dataclass(slots=True, kw_only=True)
class _Calls:
    """Calls and outcomes of one record in one attempt so far. Mutable."""

    first: Call | None = None
    last: Call | None = None
    running: dict[int, Call] = field(default_factory=dict)
    """Keyed by try number."""
    tries: set[int] = field(default_factory=set)
    final: Res | None = None
    outcome: bool = False
    """Whether a final `res` or a `dead` was seen."""


class _AttemptWalk:
    """One pass over the events of one attempt, in order."""

    def __init__(self, view: SubtaskView, attempt: AttemptTrace) -> None:
        operator = view.case.header.operator
        self._view = view
        self._attempt = attempt
        self._max_tries = operator.max_tries
        self._timeout_ms = operator.timeout_ms
        self._early_ms = view.case.header.bounds.timer_resolution
        retry = operator.retry
        self._recalls_at_end = retry is not None and retry.profile == "flink"
        self._ended_input = False
        self._recalled: set[Id] = set()
        """With profile `flink`, the records called after the attempt's `end`."""
        self._taken: set[Id] = set()
        self.records: dict[Id, _Calls] = {}

    def anomalies(self) -> Iterator[Anomaly]:
        for event in self._attempt.events:
            match event:
                case In():
                    self._taken.add(event.id)
                case Call():
                    yield from self._called(event, self._calls_of(event.id))
                case Res():
                    yield from self._settled(event, self._calls_of(event.id))
                case Out():
                    if not self._calls_of(event.id).outcome:
                        say = f"output {event.j} of {_named(event)} leaves before the record has an outcome"
                        outcome = self._attempt.outcomes.get(event.id)
                        in_attempt = f"in attempt {event.a}"
                        fact = f"No outcome of record {shown(event.id)} ever came {in_attempt}."
                        if outcome is not None:
                            fact = f"The record's outcome {in_attempt}, {let(outcome.n)}, comes after {let(event.n)}."
                        rule = "a result leaves only after its record has an outcome"
                        yield convict_of("out-before-outcome", event, say, then=(fact,), rule=rule)
                case Dead():
                    self._calls_of(event.id).outcome = True
                case End():
                    self._ended_input = True
                case Restore():
                    elements = elements_of(event.elements)
                    self._taken.update(e.id for e in elements if isinstance(e, RecordOf))
                case _:
                    pass

    def _unknown(self, act: Call | Res, say: str) -> Anomaly:
        def then() -> Iterator[str]:
            entries = self._view.story(act.id, In)
            if own := [e for e in entries if e.a == act.a]:
                yield f"Attempt {act.a} took the record in only at {let(own[0].n)}, after {let(act.n)}."
                return
            yield f"Attempt {act.a} had neither taken in nor restored record {shown(act.id)}."
            if entries and entries[0].n < act.n:
                yield f"It was attempt {entries[0].a} that had taken it in: {let(entries[0].n)}."

        rule = "an attempt calls and settles only records that it took in or restored"
        return convict_of("unknown-record", act, say, then=then, rule=rule)

    def _calls_of(self, record: Id) -> _Calls:
        calls = self.records.get(record)
        if calls is None:
            calls = self.records[record] = _Calls()
        return calls

    def _called(self, call: Call, calls: _Calls) -> Iterator[Anomaly]:
        if call.id not in self._taken:
            say = f"{_tried(call)}, but the attempt had neither restored the record nor taken it in"
            yield self._unknown(call, say)
        if self._recalls_at_end and self._ended_input and call.id not in self._recalled:
            self._recalled.add(call.id)  # Flink may call too many
        else:
            yield from self._out_of_sequence(call, calls)
        calls.first = calls.first or call
        calls.last = call
        calls.running[call.try_] = call
        calls.tries.add(call.try_)

    def _out_of_sequence(self, call: Call, calls: _Calls) -> Iterator[Anomaly]:
        if calls.final is not None:
            say = f"{_tried(call)} after its final outcome (event {calls.final.n}, {calls.final.r})"
            then = [
                f"{let(calls.final.n)} was final.",
                f"{let(call.n)} comes after it, in the same attempt.",
            ]
            rule = "no call of a record follows its final outcome"
            yield convict_of("call-after-final", call, say, calls.final.n, then=then, rule=rule)
        if calls.running:
            other = next(iter(calls.running.values()))
            say = f"{_tried(call)} while try {other.try_} (event {other.n}) still runs"
            then = [
                f"{let(other.n)} had no outcome yet at {let(call.n)}.",
                f"{let(call.n)} calls the same record in the same attempt.",
            ]
            rule = "a record has at most one running call"
            yield convict_of("concurrent-call", call, say, other.n, then=then, rule=rule)
        last = calls.last
        expected = 1 if last is None else last.try_ + 1
        if call.try_ != expected:
            say = f"{_tried(call)}, but the next one is try {expected}"
        elif call.try_ > self._max_tries:
            say = f"{_tried(call)}, and the greatest allowed is {self._max_tries}"
        else:
            return
        told = f"{let(call.n)} is try {call.try_}"
        then = [f"{told}, the first call of the record in this attempt."]
        if last is not None:
            then = [f"The call before it is {let(last.n)}, try {last.try_}.", f"{told}."]
        rule = f"tries count up from 1, and the greatest allowed is {self._max_tries}"
        yield convict_of("tries", call, say, *_numbers(last), then=then, rule=rule)

    def _settled(self, res: Res, calls: _Calls) -> Iterator[Anomaly]:
        if res.id not in self._taken:
            say = f"{_answered(res)}, but the attempt had neither restored it nor taken it in"
            yield self._unknown(res, say)
        if res.r == "timeout":
            yield from self._early(res, calls.first)
        elif res.try_ not in calls.tries:
            yield self._uncalled(res)
        calls.running.pop(res.try_, None)
        if not res.final:
            return
        if calls.final is not None:
            say = f"{_answered(res)}, after it had its final one (event {calls.final.n}, {calls.final.r})"
            then = (
                f"{let(calls.final.n)} was final for record {shown(res.id)} in attempt {res.a}.",
                f"{let(res.n)} is final too, in the same attempt.",
            )
            rule = "a record has one final outcome in an attempt"
            yield convict_of("two-outcomes", res, say, calls.final.n, then=then, rule=rule)
        calls.final = calls.final or res
        calls.outcome = True

    def _uncalled(self, res: Res) -> Anomaly:
        def then() -> Iterator[str]:
            before = _calls_before(self._view, res)
            called = f"called {let_all(before[:_CALLS_NAMED])}"
            yield f"By then attempt {res.a} had {called if before else f'not called record {shown(res.id)} at all'}."
            yield f"{let(res.n)} is of try {res.try_}."

        rule = "an outcome other than a timeout belongs to a try that was called"
        say = f"{_answered(res)}, but that try was never called"
        return convict_of("unknown-call", res, say, then=then, rule=rule)

    def _early(self, res: Res, first: Call | None) -> Iterator[Anomaly]:
        then: tuple[str, ...] = ()
        if first is not None:
            waited = f"{let(res.n)} comes {_exact_ms(res.t - first.t)} ms after the first call"
            then = (f"{waited}, {let(first.n)}.",)
        if self._timeout_ms == 0:
            say = f"{_named(res)} times out, but the operator has no timeout"
            rule = "the operator has no timeout"
            then += (f"{let(res.n)} is a timeout.",)
        elif first is not None and res.t - first.t < (self._timeout_ms - self._early_ms) * _US_PER_MS:
            say = (
                f"{_named(res)} times out {_ms(res.t - first.t)} ms after its first call (event {first.n}), and the"
                f" timeout is {self._timeout_ms} ms"
            )
            rule = f"the timeout is {self._timeout_ms} ms (with a tolerance of {self._early_ms} ms)"
        else:
            return
        yield convict_of("early-timeout", res, say, *_numbers(first), then=then, rule=rule)


class Holds:
    """When the attempt's thread waited for its sink, and could run no timer."""

    def __init__(self, attempt: AttemptTrace) -> None:
        self._spans = [(event.since, event.t) for event in attempt.events if isinstance(event, Held)]

    def over(self, due: float) -> float:
        """The time, from `due` on, at which the thread is not held."""
        for since, until in self._spans:
            if since <= due < until:
                due = until
        return due


def _late(view: SubtaskView, records: dict[Id, _Calls], over_at: float, held: Holds) -> Iterator[Anomaly]:
    """Records without a final outcome at their limit, though the attempt ran and no fault stalled it."""
    header = view.case.header
    timeout_ms = header.operator.timeout_ms
    if timeout_ms == 0:
        return
    allowed_ms = timeout_ms + header.bounds.timeout_slack
    for calls in records.values():
        first, final = calls.first, calls.final
        if first is None:
            continue
        limit = held.over(first.t + timeout_ms * _US_PER_MS) + header.bounds.timeout_slack * _US_PER_MS
        in_time = final is not None and final.t <= limit
        if in_time or over_at <= limit or view.case.stalls.overlap(first.t, limit):
            continue
        had = "never got it"
        fact = f"No final outcome ever followed {let(first.n)} in attempt {first.a}."
        if final is not None:
            had = f"got it only after {_ms(final.t - first.t)} ms"
            waited_ms = _exact_ms(final.t - first.t)
            fact = f"The final outcome, {let(final.n)}, comes {waited_ms} ms after {let(first.n)}."
        say = (
            f"{_named(first)} was called (event {first.n}) and should have had its final outcome within"
            f" {allowed_ms} ms, the timeout and its slack; it {had}"
        )
        ran_on = "The attempt ran on past the limit without reporting a failure, and no fault stalled it."
        rule = f"a record has its final outcome within {allowed_ms} ms (timeout and slack) of its first call"
        yield convict_of("late-timeout", first, say, *_numbers(final), then=(fact, ran_on), rule=rule)


def _called_late(
    view: SubtaskView, records: dict[Id, _Calls], over_at: float, held: Holds
) -> Iterator[Anomaly]:
    """Records without a final outcome that are called once more when their time is over.

    A timer that may come too early by some time comes too late by more. Where time is exact, so is its order, and what
    keeps the thread from its timers is `held`.
    """
    operator, bounds = view.case.header.operator, view.case.header.bounds
    slack_ms = bounds.timeout_slack if bounds.timer_resolution else 0
    for calls in records.values() if operator.timeout_ms else ():
        first, last, final = calls.first, calls.last, calls.final
        if first is None or last is None or (final is not None and final.n < last.n):
            continue
        limit = held.over(first.t + operator.timeout_ms * _US_PER_MS) + slack_ms * _US_PER_MS
        if last.t <= limit or over_at <= limit or view.case.stalls.overlap(first.t, limit):
            continue
        after = f"{_ms(last.t - first.t)} ms after its first call (event {first.n})"
        allowed = f"{operator.timeout_ms} ms" + (f" and its slack {slack_ms} ms" if slack_ms else "")
        say = f"{_tried(last)} {after}, and the timeout is {allowed}"
        then = (
            f"{let(last.n)} comes {_exact_ms(last.t - first.t)} ms after {let(first.n)}.",
            "By then the attempt had reported no failure, and no fault had stalled it.",
        )
        rule = f"no call of a record follows its timeout ({allowed})"
        yield convict_of("call-after-timeout", last, say, first.n, then=then, rule=rule)


def _over_at(view: SubtaskView, attempt: AttemptTrace) -> int:
    """The time after which an attempt owes no outcome any more, in microseconds: it ended, or reported its failure."""
    superseded = attempt.a < max(view.subtask.attempts) or view.s in view.case.rescalings.ended
    last = view.case.trace.last
    over_at = 0 if last is None else last.t
    if superseded or any(isinstance(event, Close | Kill) for event in attempt.events):
        over_at = max((event.t for event in attempt.events if not isinstance(event, Kill)), default=0)
    return min([over_at, *(event.t for event in attempt.events if isinstance(event, Failed))])


_Next = Call | Res | Dead
"""What may follow R: see N above."""


class BackoffRange:
    """The wait after each call of a record, as the shortest and the longest that the strategy allows, in ms.

    They differ only in profile `flink`, where the last delay is shared by all records. Mutable: a cache that grows
    with the greatest number of calls of one record.
    """

    def __init__(self, retry: Retry) -> None:
        self.retry = retry
        factor = Fraction(1 if retry.multiplier is None else str(retry.multiplier))
        self._up, self._down = factor.numerator, factor.denominator
        self._power = (retry.initial_ms, 1)
        """The product of `initial_ms` and the multiplier's power for the last entry of `_waits`, as a fraction."""
        self._waits = [retry.initial_ms]

    def after(self, calls: int) -> tuple[int, float]:
        """The shortest and the longest wait after the record's `calls`-th call; the longest may be infinite."""
        if self.retry.profile == "flink" and calls > 1:
            return self._wait(2), math.inf if self.retry.max_ms is None else self.retry.max_ms
        wait = self._wait(calls)
        return wait, wait

    def _wait(self, calls: int) -> int:
        if calls == 1 or self._up == self._down:
            # The first wait is not limited by `max_ms`; a multiplier of 1 leaves the others to the limit alone.
            return self.retry.initial_ms if calls == 1 else self._limited(self.retry.initial_ms)
        while len(self._waits) < calls:
            if len(self._waits) > 1 and self._waits[-1] == self.retry.max_ms:
                return self._waits[-1]
            above, below = self._power
            self._power = (above * self._up, below * self._down)
            self._waits.append(self._limited(self._power[0] // self._power[1]))
        return self._waits[calls - 1]

    def _limited(self, wait_ms: int) -> int:
        return wait_ms if self.retry.max_ms is None else min(wait_ms, self.retry.max_ms)


@dataclass(slots=True, kw_only=True)
class _Retried:
    """The calls of one record in one attempt so far, as far as retries go. Mutable."""

    first: Call | None = None
    latest: Call | None = None
    calls: int = 0
    answered: bool = False
    """Whether the latest call has a `res`."""
    waiting: Res | None = None
    """R, as long as there is no N."""
    finished: bool = False
    """Whether it has a final `res`."""


class _RetryWalk:
    """One pass over the calls and outcomes of one attempt: is each call that an outcome makes due in time? Mutable.

    R is the first `res` of a record's latest call, neither final nor a timeout; N is the record's next `call`, final
    `res`, `timeout` or `dead`. The attempt was over at `over_at`; `faults` holds all faults.
    """

    def __init__(
        self,
        view: SubtaskView,
        attempt: AttemptTrace,
        backoff: BackoffRange,
        faults: Stalls,
        over_at: float,
        held: Holds,
    ) -> None:
        operator = view.case.header.operator
        self._view = view
        self._attempt = attempt
        self._retry = backoff.retry
        self._backoff = backoff
        self._faults = faults
        self._over_at = over_at
        self._held = held
        self._max_tries = operator.max_tries
        self._timeout_us = operator.timeout_ms * _US_PER_MS
        self._early_us = view.case.header.bounds.timer_resolution * _US_PER_MS
        self._records: dict[Id, _Retried] = {}
        self._end: End | None = None
        """The first `end` of the attempt so far."""

    def anomalies(self) -> Iterator[Anomaly]:
        for event in self._attempt.events:
            if isinstance(event, Call | Res | Dead):
                yield from self._step(event)
            elif isinstance(event, End):
                self._end = self._end or event
        for record in self._records.values():
            if record.waiting is not None:  # nothing followed
                yield from self._missing(record, record.waiting, None)

    def _step(self, event: _Next) -> Iterator[Anomaly]:
        record = self._records.setdefault(event.id, _Retried())
        follows = not isinstance(event, Res) or event.final or event.r == "timeout"
        if record.waiting is not None and follows:
            yield from self._followed(record, record.waiting, event)
        yield from self._given_up(record, event)
        if follows:
            record.waiting = None
        if isinstance(event, Call):
            record.first = record.first or event
            record.latest, record.answered = event, False
            record.calls += 1
        elif isinstance(event, Res):
            record.finished = record.finished or event.final
            if record.latest is not None and record.latest.try_ == event.try_ and not record.answered:
                record.answered = True
                record.waiting = None if follows else event

    def _followed(self, record: _Retried, res: Res, follower: _Next) -> Iterator[Anomaly]:
        if isinstance(follower, Call):
            if not self._retry.retries(res):
                say = f"{_named(res)} is called again, though its outcome ({res.r}, event {res.n}) is not retried"
                rule = "its own `retry` says no"
                if res.retry is UNSET:
                    rule = f"what is retried is {', '.join(map(shown, self._retry.on)) or 'nothing'}"
                then = [_followed(res, follower)]
                yield convict_of("retried-anyway", res, say, follower.n, then=then, rule=rule)
            yield from self._early(record, res, follower)
            limit = self._limit(record, res)
            if follower.t > limit and not self._excused(record, res, limit):
                say = (
                    f"{_named(res)} is called again {_ms(follower.t - res.t)} ms after its outcome (event {res.n}),"
                    f" and should have been by {_ms(limit - res.t)} ms after it"
                )
                ran_on = (
                    "The attempt ran on past the limit without a failure, and no fault was active meanwhile."
                )
                rule = f"a record is called again after its wait ({_strategy(self._retry)}), with the slack at most"
                then = [_followed(res, follower), ran_on]
                yield convict_of("retry-late", res, say, follower.n, then=then, rule=rule)
        yield from self._missing(record, res, follower)

    def _early(self, record: _Retried, res: Res, call: Call) -> Iterator[Anomaly]:
        wait_ms, _ = self._backoff.after(record.calls)
        if call.t - res.t >= wait_ms * _US_PER_MS - self._early_us or self._called_by_end(res) is not None:
            return
        say = (
            f"{_named(res)} is called again {_ms(call.t - res.t)} ms after its outcome (event {res.n}), and the"
            f" wait after call {record.calls} of it is {wait_ms} ms"
        )
        then = (_followed(res, call), sentence(say))
        rule = f"the wait before a further call is that of the strategy ({_strategy(self._retry)})"
        yield convict_of("retry-early", res, say, call.n, then=then, rule=rule)

    def _missing(self, record: _Retried, res: Res, follower: _Next | None) -> Iterator[Anomaly]:
        told = f"the outcome of {_named(res)} (event {res.n}, {res.r}) is not final"
        then = [f"{let(res.n)} is not final, so the record is to be called again."]
        then += [] if follower is None else [_followed(res, follower)]
        ended = self._attempt.ended
        events = [res.n, *_numbers(follower)]
        if ended is not None and (follower is None or ended < follower.n):
            say = f"{told}, and the attempt ended (event {ended}) before anything followed"
            events.append(ended)
            then.append(f"Attempt {res.a} ended at {let(ended)}, before any call followed.")
        else:
            limit = self._limit(record, res)
            in_time = follower is not None and follower.t <= limit
            if isinstance(follower, Call) or in_time or self._excused(record, res, limit):
                return
            say = f"{told}, and no call followed by {_ms(limit - res.t)} ms after it, when one was due"
            if follower is None:
                then.append(f"No call, final outcome or dead letter of it followed in attempt {res.a}.")
        rule = f"a record is called again after its wait ({_strategy(self._retry)}), before its attempt ends"
        yield convict_of("retry-missing", res, say, *events, then=then, rule=rule)

    def _given_up(self, record: _Retried, event: _Next) -> Iterator[Anomaly]:
        """The record becomes a dead letter, or has its first final outcome, before its tries are used up."""
        match event:
            case Dead():
                failure = record.waiting
            case Res(final=True) if not record.finished:
                failure = event
            case _:
                return
        if failure is None or not self._retry.retries(failure):
            return
        if record.first is None or record.calls >= self._max_tries:
            return
        if self._end is not None and self._retry.at_end == "once":
            return
        if self._timeout_us and event.t - record.first.t >= self._timeout_us - self._early_us:
            return
        say = (
            f"{_named(failure)} is given up after {record.calls} of {self._max_tries} calls, though its outcome"
            f" ({failure.r}, event {failure.n}) is retried"
        )
        rule = f"an outcome that is retried is final only after {self._max_tries} calls"
        then = partial(self._early_end, failure, event)
        yield convict_of("gave-up-early", failure, say, record.first.n, event.n, then=then, rule=rule)

    def _early_end(self, failure: Res, end: _Next) -> Iterator[str]:
        before = _calls_before(self._view, failure)
        yield f"Calls of the record in its attempt before {let(failure.n)}: {len(before)}."
        yield f"{let_all(before[:_CALLS_NAMED])} came before {let(failure.n)}."
        if isinstance(end, Dead):
            yield f"{let(end.n)} gave the record up."

    def _limit(self, record: _Retried, res: Res) -> float:
        """The latest time at which the next call is in time, in microseconds."""
        _, wait_ms = self._backoff.after(record.calls)
        due = math.inf if wait_ms == math.inf else res.t + wait_ms * _US_PER_MS
        if (end := self._called_by_end(res)) is not None:
            due = min(due, end.t)
        return due if due == math.inf else self._held.over(due) + self._retry.slack_ms * _US_PER_MS

    def _called_by_end(self, res: Res) -> End | None:
        """The `end` after this outcome, if it calls at once what waits; N, if there is one by now, comes after it."""
        once = self._retry.at_end == "once"
        return self._end if once and self._end is not None and self._end.n > res.n else None

    def _excused(self, record: _Retried, res: Res, limit: float) -> bool:
        """Whether nothing is owed by the limit: the attempt was over, a fault interfered, or the timeout came first."""
        assert record.first is not None  # it has a latest call
        timed_out = self._timeout_us > 0 and record.first.t + self._timeout_us <= limit
        return self._over_at <= limit or timed_out or self._faults.overlap(res.t, limit)


def _calls_before(view: SubtaskView, res: Res) -> list[int]:
    """The calls of its record in its attempt before an outcome."""
    return [call.n for call in view.story(res.id, Call) if call.a == res.a and call.n < res.n]


def _followed(res: Res, follower: _Next) -> str:
    """The fact that this event followed an outcome."""
    return f"{let(follower.n)} followed {let(res.n)}, {_exact_ms(follower.t - res.t)} ms after it."


def _strategy(retry: Retry) -> str:
    factor = "" if retry.multiplier is None else f" times {retry.multiplier}"
    most = "" if retry.max_ms is None else f", {retry.max_ms} ms at most"
    return f"{retry.backoff} backoff, {retry.initial_ms} ms{factor}{most}, slack {retry.slack_ms} ms"


def _exact_ms(us: int) -> str:
    return f"{us / _US_PER_MS:.3f}"


def _numbers(event: _Next | None) -> tuple[int, ...]:
    return () if event is None else (event.n,)


def _ms(us: float) -> str:
    return f"{us / _US_PER_MS:g}"


def _tried(call: Call) -> str:
    return f"try {call.try_} of {_named(call)} is called"


def _answered(res: Res) -> str:
    return f"{_named(res)} gets an outcome ({res.r}, try {res.try_})"


def _named(event: Call | Res | Out) -> str:
    return f"record {shown(event.id)} in attempt {event.a} of subtask {event.s}"
