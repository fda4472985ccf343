"""V21 mailbox: one thread does all the work of an attempt, between its start and close, one record at a time.

Answers to Flink's mailbox model, FLINK-13063 and FLINK-35810. Invariant: all calls, outcomes, emissions and
snapshots of an attempt name the same thread, none comes before its `start` or after its `close`, and no other
record's output leaves between two outputs of one record. O(n); memory grows with the records that have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import UNSET

from harness.history.event import Call, Close, Emission, Id, Out, Owm, Res, Snap, Start
from harness.history.values import shown
from harness.history.verdict import Anomaly, let
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict_of

_Act = Call | Res | Emission | Snap
"""Actions that only the task's thread may perform."""


class MailboxDiscipline(Invariant):
    """Checks V21 for each attempt."""

    name = "V21"
    vacuous = "nothing was called, settled, emitted or snapped"

    def examine(self, view: SubtaskView) -> Findings:
        """Each action on another thread or outside the attempt's life, each record whose outputs are interleaved."""
        anomalies: list[Anomaly] = []
        observed = 0
        for attempt in view.subtask.attempts.values():
            acts = [event for event in attempt.events if isinstance(event, _Act)]
            observed += len(acts)
            anomalies += _foreign(acts)
            anomalies += _outside_life(attempt, acts)
            anomalies += _interleaved(acts)
        return Findings(anomalies=tuple(anomalies), observed=observed, exposed=observed > 0)


def _foreign(acts: list[_Act]) -> Iterator[Anomaly]:
    own: _Act | None = None
    for act in acts:
        if act.thread is UNSET:
            continue
        own = own or act
        if act.thread != own.thread:
            say = (
                f"{_named(act)} comes from thread {shown(act.thread)}, but the attempt runs on thread"
                f" {shown(own.thread)} (event {own.n})"
            )
            threads = [f"{let(e.n)} comes from thread {shown(e.thread)}." for e in (own, act)]
            then = [*threads, f"Both are of attempt {act.a} of subtask {act.s}."]
            rule = "an attempt acts on one thread only"
            yield convict_of("foreign-thread", act, say, own.n, then=then, rule=rule)


def _outside_life(attempt: AttemptTrace, acts: list[_Act]) -> Iterator[Anomaly]:
    start = attempt.start
    closed = next((event for event in attempt.events if isinstance(event, Close)), None)
    for act in acts:
        if start is not None and act.n < start.n:
            yield _outside(act, start, "before its start")
        elif closed is not None and act.n > closed.n:
            yield _outside(act, closed, "after its close")


def _outside(act: _Act, bound: Start | Close, how: str) -> Anomaly:
    then = [f"{let(act.n)} comes {how.split(maxsplit=1)[0]} {let(bound.n)}, of the same attempt."]
    rule = "an attempt acts only between its start and its close"
    return convict_of("outside-life", act, f"{_named(act)} comes {how}", bound.n, then=then, rule=rule)


@dataclass(slots=True, kw_only=True)
class _Outputs:
    """The outputs of one record that have left. Mutable."""

    lowest: Out
    """The lowest output since another record's output last left."""
    split: tuple[Out, Out] | None = None
    """The lowest output before that, and the other record's output that followed it."""
    reported: bool = False


def _interleaved(acts: list[_Act]) -> Iterator[Anomaly]:
    left: dict[Id, _Outputs] = {}
    previous: Out | None = None
    for out in acts:
        if not isinstance(out, Out):
            continue
        if previous is not None and previous.id != out.id:
            before = left[previous.id]
            if before.split is None or before.lowest.j < before.split[0].j:
                before.split = before.lowest, out
        outputs = left.get(out.id)
        if outputs is None:
            outputs = left[out.id] = _Outputs(lowest=out)
        elif (previous is not None and previous.id != out.id) or out.j < outputs.lowest.j:
            outputs.lowest = out
        if outputs.split is not None and not outputs.reported and outputs.split[0].j < out.j:
            outputs.reported = True
            yield _split(outputs.split, out)
        previous = out


def _split(split: tuple[Out, Out], later: Out) -> Anomaly:
    earlier, between = split
    say = (
        f"output {between.j} of record {shown(between.id)} leaves attempt {later.a} of subtask {later.s} between"
        f" outputs {earlier.j} and {later.j} of record {shown(later.id)}"
    )
    then = [
        f"{let(earlier.n)} and {let(later.n)} are results of one record.",
        f"{let(between.n)}, another record's, left between them.",
    ]
    rule = "no other result leaves between the results of one record"
    return convict_of("interleaved", later, say, earlier.n, between.n, then=then, rule=rule)


def _named(act: _Act) -> str:
    match act:
        case Call():
            what = f"the call (try {act.try_}) of record {shown(act.id)}"
        case Res():
            what = f"the outcome ({act.r}) of record {shown(act.id)}"
        case Out():
            what = f"output {act.j} of record {shown(act.id)}"
        case Owm():
            what = f"watermark {shown(act.w)}"
        case Snap():
            what = f"the snapshot of checkpoint {act.c}"
    return f"{what} in attempt {act.a} of subtask {act.s}"
