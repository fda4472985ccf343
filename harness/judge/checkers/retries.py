"""V15, the part on retries: after an outcome that is not final, the record's next call is made, and in its time.

Answers to Flink's `AsyncRetryStrategy` and `RetryableResultHandlerDelegator`. Applies with the header's
`operator.retry`. Everything is judged inside one attempt. R is the first `res` of the record's latest call, neither
final nor a timeout; N is the record's next `call`, final `res`, `timeout` or `dead`. Times are compared in
microseconds, and the backoff is calculated exactly. O(n); memory grows with the records of the attempt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from harness.history.event import Call, Dead, End, Id, Res
from harness.history.header import Header, Retry
from harness.history.stalls import Stalls
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.history_trace import AttemptTrace

_US_PER_MS = 1000
_EARLY_MS = 1
"""A timer that counts whole milliseconds may fire up to this much early on a microsecond clock."""

_Next = Call | Res | Dead
"""What may follow R: see N above."""


class BackoffRange:
    """The wait after each call of a record, as the shortest and the longest that the strategy allows, in ms.

    They differ only in profile `flink`, where the last delay is shared by all records. Mutable: a cache that grows
    with the greatest number of calls of one record.
    """

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        factor = Fraction(1 if retry.multiplier is None else str(retry.multiplier))
        self._up, self._down = factor.numerator, factor.denominator
        self._power = (retry.initial_ms, 1)
        """The product of `initial_ms` and the multiplier's power for the last entry of `_waits`, as a fraction."""
        self._waits = [retry.initial_ms]

    def after(self, calls: int) -> tuple[int, float]:
        """The shortest and the longest wait after the record's `calls`-th call; the longest may be infinite."""
        if self._retry.profile == "flink" and calls > 1:
            return self._wait(2), math.inf if self._retry.max_ms is None else self._retry.max_ms
        wait = self._wait(calls)
        return wait, wait

    def _wait(self, calls: int) -> int:
        if calls == 1 or self._up == self._down:
            # The first wait is not limited by `max_ms`; a multiplier of 1 leaves the others to the limit alone.
            return self._retry.initial_ms if calls == 1 else self._limited(self._retry.initial_ms)
        while len(self._waits) < calls:
            if len(self._waits) > 1 and self._waits[-1] == self._retry.max_ms:
                return self._waits[-1]
            above, below = self._power
            self._power = (above * self._up, below * self._down)
            self._waits.append(self._limited(self._power[0] // self._power[1]))
        return self._waits[calls - 1]

    def _limited(self, wait_ms: int) -> int:
        return wait_ms if self._retry.max_ms is None else min(wait_ms, self._retry.max_ms)


class _Record:
    """The calls of one record in one attempt so far. Mutable."""

    __slots__ = ("answered", "calls", "finished", "first", "latest", "waiting")

    def __init__(self) -> None:
        self.first: Call | None = None
        self.latest: Call | None = None
        self.calls = 0
        self.answered = False
        """Whether the latest call has a `res`."""
        self.waiting: Res | None = None
        """R, as long as there is no N."""
        self.finished = False
        """Whether it has a final `res`."""


def retry_anomalies(
    attempt: AttemptTrace, *, header: Header, backoff: BackoffRange, faults: Stalls, over_at: float
) -> Iterator[Anomaly]:
    """The violations in one attempt, which failed or came to its end at `over_at`; `faults` holds all faults."""
    retry = header.operator.retry
    if retry is None:
        return
    judge = _Judge(attempt, header=header, retry=retry, backoff=backoff, faults=faults, over_at=over_at)
    for event in attempt.events:
        if isinstance(event, Call | Res | Dead):
            yield from judge.step(event)
        elif isinstance(event, End):
            judge.end = judge.end or event
    yield from judge.unanswered()


class _Judge:
    """One pass over the calls and outcomes of one attempt. Mutable."""

    def __init__(
        self,
        attempt: AttemptTrace,
        *,
        header: Header,
        retry: Retry,
        backoff: BackoffRange,
        faults: Stalls,
        over_at: float,
    ) -> None:
        self._retry = retry
        self._backoff = backoff
        self._faults = faults
        self._over_at = over_at
        self._max_tries = header.operator.max_tries
        self._timeout_us = header.operator.timeout_ms * _US_PER_MS
        self._ended = attempt.ended
        self._records: dict[Id, _Record] = {}
        self.end: End | None = None
        """The first `end` of the attempt so far."""

    def step(self, event: _Next) -> Iterator[Anomaly]:
        record = self._records.setdefault(event.id, _Record())
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

    def unanswered(self) -> Iterator[Anomaly]:
        """The records whose latest outcome was followed by nothing."""
        for record in self._records.values():
            if record.waiting is not None:
                yield from self._missing(record, record.waiting, None)

    def _followed(self, record: _Record, res: Res, follower: _Next) -> Iterator[Anomaly]:
        if isinstance(follower, Call):
            if not self._retry.retries(res):
                say = f"{_named(res)} is called again, though its outcome ({res.r}, event {res.n}) is not retried"
                yield _anomaly("retried-anyway", res, say, follower.n)
            yield from self._early(record, res, follower)
            limit = self._limit(record, res)
            if follower.t > limit and not self._excused(record, res, limit):
                say = (
                    f"{_named(res)} is called again {_ms(follower.t - res.t)} ms after its outcome (event {res.n}),"
                    f" and should have been by {_ms(limit - res.t)} ms after it"
                )
                yield _anomaly("retry-late", res, say, follower.n)
        yield from self._missing(record, res, follower)

    def _early(self, record: _Record, res: Res, call: Call) -> Iterator[Anomaly]:
        wait_ms, _ = self._backoff.after(record.calls)
        if call.t - res.t >= (wait_ms - _EARLY_MS) * _US_PER_MS or self._called_by_end(res) is not None:
            return
        say = (
            f"{_named(res)} is called again {_ms(call.t - res.t)} ms after its outcome (event {res.n}), and the"
            f" wait after call {record.calls} of it is {wait_ms} ms"
        )
        yield _anomaly("retry-early", res, say, call.n)

    def _missing(self, record: _Record, res: Res, follower: _Next | None) -> Iterator[Anomaly]:
        told = f"the outcome of {_named(res)} (event {res.n}, {res.r}) is not final"
        ended = self._ended
        if ended is not None and (follower is None or ended < follower.n):
            say = f"{told}, and the attempt ended (event {ended}) before anything followed"
            yield _anomaly("retry-missing", res, say, ended, *_numbers(follower))
            return
        if isinstance(follower, Call):
            return
        limit = self._limit(record, res)
        late = follower is None or follower.t > limit
        if late and not self._excused(record, res, limit):
            say = f"{told}, and no call followed by {_ms(limit - res.t)} ms after it, when one was due"
            yield _anomaly("retry-missing", res, say, *_numbers(follower))

    def _given_up(self, record: _Record, event: _Next) -> Iterator[Anomaly]:
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
        if self.end is not None and self._retry.at_end == "once":
            return
        if self._timeout_us and event.t - record.first.t >= self._timeout_us - _EARLY_MS * _US_PER_MS:
            return
        say = (
            f"{_named(failure)} is given up after {record.calls} of {self._max_tries} calls, though its outcome"
            f" ({failure.r}, event {failure.n}) is retried"
        )
        yield _anomaly("gave-up-early", failure, say, record.first.n, event.n)

    def _limit(self, record: _Record, res: Res) -> float:
        """The latest time at which the next call is in time, in microseconds."""
        _, wait_ms = self._backoff.after(record.calls)
        due = math.inf if wait_ms == math.inf else res.t + wait_ms * _US_PER_MS
        if (end := self._called_by_end(res)) is not None:
            due = min(due, end.t)
        return due if due == math.inf else due + self._retry.slack_ms * _US_PER_MS

    def _called_by_end(self, res: Res) -> End | None:
        """The `end` after this outcome, if it calls at once what waits; N, if there is one by now, comes after it."""
        once = self._retry.at_end == "once"
        return self.end if once and self.end is not None and self.end.n > res.n else None

    def _excused(self, record: _Record, res: Res, limit: float) -> bool:
        """Whether nothing is owed by the limit: the attempt was over, a fault interfered, or the timeout came first."""
        assert record.first is not None  # it has a latest call
        timed_out = self._timeout_us > 0 and record.first.t + self._timeout_us <= limit
        return self._over_at <= limit or timed_out or self._faults.overlap(res.t, limit)


def _numbers(event: _Next | None) -> tuple[int, ...]:
    return () if event is None else (event.n,)


def _ms(us: float) -> str:
    return f"{us / _US_PER_MS:g}"


def _named(res: Res) -> str:
    return f"record {shown(res.id)} in attempt {res.a} of subtask {res.s}"


def _anomaly(kind: str, res: Res, say: str, *witnesses: int) -> Anomaly:
    return Anomaly(kind=kind, s=res.s, id=res.id, events=tuple(sorted({res.n, *witnesses})), say=say)
