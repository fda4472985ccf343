"""V21 mailbox: one thread does all the work of an attempt, between its start and close, one record at a time.

Answers to Flink's mailbox model, FLINK-13063 and FLINK-35810. Invariant: all calls, outcomes, emissions and
snapshots of an attempt name the same thread, none comes before its `start` or after its `close`, and no other
record's output leaves between two outputs of one record. O(n); memory grows with the records that have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import UNSET

from harness.history.event import Call, Close, Emission, Id, Out, Owm, Res, Snap
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant

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
            yield _anomaly("foreign-thread", act, say, own.n)


def _outside_life(attempt: AttemptTrace, acts: list[_Act]) -> Iterator[Anomaly]:
    start = attempt.start
    closed = next((event for event in attempt.events if isinstance(event, Close)), None)
    for act in acts:
        if start is not None and act.n < start.n:
            yield _anomaly("outside-life", act, f"{_named(act)} comes before its start", start.n)
        elif closed is not None and act.n > closed.n:
            yield _anomaly("outside-life", act, f"{_named(act)} comes after its close", closed.n)


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
    return _anomaly("interleaved", later, say, earlier.n, between.n)


def _anomaly(kind: str, act: _Act, say: str, *witnesses: int) -> Anomaly:
    return Anomaly(
        kind=kind,
        s=act.s,
        id=act.id if isinstance(act, Call | Res | Out) else None,
        w=act.w if isinstance(act, Owm) else None,
        c=act.c if isinstance(act, Snap) else None,
        events=tuple(sorted({act.n, *witnesses})),
        say=say,
    )


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
