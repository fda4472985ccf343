"""V15 attempts: the calls of a record run one after the other and end in one outcome before the timeout.

Answers to Flink's `AsyncWaitOperator` with timeout and retry strategy, and to FLINK-30477, -38082 and -6435.
Invariant: in each attempt, a record has at most `max_tries` calls, numbered from 1 and never concurrent, one
final outcome, no output before it, and a timeout neither early nor late. Times are compared in microseconds.
O(n); memory grows with the records of the attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.history.event import Call, Close, Dead, End, Failed, Id, In, Kill, Out, Res, Restore
from harness.history.stalls import Stalls
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import RecordOf, elements_of
from harness.judge.checkers.invariant import Findings, Invariant
from harness.judge.checkers.retries import BackoffRange, retry_anomalies

_US_PER_MS = 1000
_EARLY_MS = 1
"""A timer that counts whole milliseconds may fire up to this much early on a microsecond clock."""


class CallsAndOutcomes(Invariant):
    """Checks V15 for each record of each attempt."""

    name = "V15"
    vacuous = "no call was made"

    def examine(self, view: SubtaskView) -> Findings:
        """Each call, outcome and output that is out of sequence or at the wrong time."""
        header = view.case.header
        retry = header.operator.retry
        backoff = None if retry is None else BackoffRange(retry)
        faults = Stalls(view.case.trace.faults if retry else (), every=True)
        anomalies: list[Anomaly] = []
        calls = 0
        for attempt in view.subtask.attempts.values():
            walk = _AttemptWalk(view, attempt)
            anomalies += walk.anomalies()
            over_at = min(_life_ended(view, attempt), _failed_at(attempt))
            anomalies += _late(view, walk.records, over_at)
            if backoff is not None:
                anomalies += retry_anomalies(
                    attempt, header=header, backoff=backoff, faults=faults, over_at=over_at
                )
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
        self._attempt = attempt
        self._max_tries = operator.max_tries
        self._timeout_ms = operator.timeout_ms
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
                        yield _anomaly("out-before-outcome", event, say)
                case Dead():
                    self._calls_of(event.id).outcome = True
                case End():
                    self._ended_input = True
                case Restore():
                    elements = elements_of(event.elements)
                    self._taken.update(e.id for e in elements if isinstance(e, RecordOf))
                case _:
                    pass

    def _calls_of(self, record: Id) -> _Calls:
        calls = self.records.get(record)
        if calls is None:
            calls = self.records[record] = _Calls()
        return calls

    def _called(self, call: Call, calls: _Calls) -> Iterator[Anomaly]:
        if call.id not in self._taken:
            say = f"{_tried(call)}, but the attempt had neither restored the record nor taken it in"
            yield _anomaly("unknown-record", call, say)
        if not self._recalled_by_end(call):
            yield from self._out_of_sequence(call, calls)
        calls.first = calls.first or call
        calls.last = call
        calls.running[call.try_] = call
        calls.tries.add(call.try_)

    def _recalled_by_end(self, call: Call) -> bool:
        """Whether it is the record's first call after the `end`, with profile `flink`: Flink may call too many."""
        if not (self._recalls_at_end and self._ended_input) or call.id in self._recalled:
            return False
        self._recalled.add(call.id)
        return True

    def _out_of_sequence(self, call: Call, calls: _Calls) -> Iterator[Anomaly]:
        if calls.final is not None:
            say = f"{_tried(call)} after its final outcome (event {calls.final.n}, {calls.final.r})"
            yield _anomaly("call-after-final", call, say, calls.final.n)
        if calls.running:
            other = next(iter(calls.running.values()))
            say = f"{_tried(call)} while try {other.try_} (event {other.n}) still runs"
            yield _anomaly("concurrent-call", call, say, other.n)
        expected = 1 if calls.last is None else calls.last.try_ + 1
        before = () if calls.last is None else (calls.last.n,)
        if call.try_ != expected:
            say = f"{_tried(call)}, but the next one is try {expected}"
            yield _anomaly("tries", call, say, *before)
        elif call.try_ > self._max_tries:
            say = f"{_tried(call)}, and the greatest allowed is {self._max_tries}"
            yield _anomaly("tries", call, say, *before)

    def _settled(self, res: Res, calls: _Calls) -> Iterator[Anomaly]:
        if res.id not in self._taken:
            say = f"{_answered(res)}, but the attempt had neither restored it nor taken it in"
            yield _anomaly("unknown-record", res, say)
        if res.r == "timeout":
            yield from self._early(res, calls.first)
        elif res.try_ not in calls.tries:
            yield _anomaly("unknown-call", res, f"{_answered(res)}, but that try was never called")
        calls.running.pop(res.try_, None)
        if not res.final:
            return
        if calls.final is not None:
            say = f"{_answered(res)}, after it had its final one (event {calls.final.n}, {calls.final.r})"
            yield _anomaly("two-outcomes", res, say, calls.final.n)
        calls.final = calls.final or res
        calls.outcome = True

    def _early(self, res: Res, first: Call | None) -> Iterator[Anomaly]:
        called = () if first is None else (first.n,)
        if self._timeout_ms == 0:
            say = f"{_named(res)} times out, but the operator has no timeout"
            yield _anomaly("early-timeout", res, say, *called)
        elif first is not None and res.t - first.t < (self._timeout_ms - _EARLY_MS) * _US_PER_MS:
            waited_ms = (res.t - first.t) / _US_PER_MS
            say = (
                f"{_named(res)} times out {waited_ms:g} ms after its first call (event {first.n}), and the"
                f" timeout is {self._timeout_ms} ms"
            )
            yield _anomaly("early-timeout", res, say, *called)


def _late(view: SubtaskView, records: dict[Id, _Calls], over_at: float) -> Iterator[Anomaly]:
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
        limit = first.t + allowed_ms * _US_PER_MS
        in_time = final is not None and final.t <= limit
        if in_time or over_at <= limit or view.case.stalls.overlap(first.t, limit):
            continue
        had = f"got it only after {(final.t - first.t) / _US_PER_MS:g} ms" if final else "never got it"
        say = (
            f"{_named(first)} was called (event {first.n}) and should have had its final outcome within"
            f" {allowed_ms} ms, the timeout and its slack; it {had}"
        )
        yield _anomaly("late-timeout", first, say, *(() if final is None else (final.n,)))


def _life_ended(view: SubtaskView, attempt: AttemptTrace) -> float:
    """The time after which an attempt owes no outcome any more, in microseconds."""
    superseded = attempt.a < max(view.subtask.attempts) or view.s in view.case.rescalings.ended
    if superseded or any(isinstance(event, Close | Kill) for event in attempt.events):
        return max((event.t for event in attempt.events if not isinstance(event, Kill)), default=0)
    last = view.case.trace.last
    return 0 if last is None else last.t


def _failed_at(attempt: AttemptTrace) -> float:
    reports = (event.t for event in attempt.events if isinstance(event, Failed))
    return min(reports, default=float("inf"))


def _tried(call: Call) -> str:
    return f"try {call.try_} of {_named(call)} is called"


def _answered(res: Res) -> str:
    return f"{_named(res)} gets an outcome ({res.r}, try {res.try_})"


def _named(event: Call | Res | Out) -> str:
    return f"record {shown(event.id)} in attempt {event.a} of subtask {event.s}"


def _anomaly(kind: str, event: Call | Res | Out, say: str, *witnesses: int) -> Anomaly:
    return Anomaly(kind=kind, s=event.s, id=event.id, events=tuple(sorted({event.n, *witnesses})), say=say)
