"""V5 no crossing: a watermark leaves only after every record before it is resolved.

Answers to flink-agents#178 and FLINK-40517. Invariant: in an attempt, at each `owm`, every record of the
attempt's input with a lower position is resolved, including records that the attempt takes in only later.
O(n log n); memory grows with the attempt's input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from harness.history.event import Dead, Id, Out, Owm, Res
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all
from harness.judge.checkers.attempt_state import AttemptProgress
from harness.judge.checkers.facts import precedes
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import AttemptInput
from harness.judge.checkers.invariant import Findings, Invariant, convict


class NoCrossing(Invariant):
    """Checks V5 for each attempt."""

    name = "V5"
    vacuous = "no watermark came in or left"

    def examine(self, view: SubtaskView) -> Findings:
        """Each record that a later watermark has overtaken, in each attempt."""
        anomalies: list[Anomaly] = []
        left = 0
        for a, attempt in view.subtask.attempts.items():
            anomalies += _crossed(view, attempt, view.inputs[a])
            left += len(view.inputs[a].left)
        return Findings(anomalies=tuple(anomalies), observed=left, exposed=view.case.watermarks_seen)


def _crossed(view: SubtaskView, attempt: AttemptTrace, taken: AttemptInput) -> Iterator[Anomaly]:
    progress = AttemptProgress(view.source)
    known = enumerate(taken.records.items())
    ahead = [(pos, order, record) for order, (record, pos) in known if pos is not None]
    heapify(ahead)
    passed: dict[Id, tuple[int, int, Id]] = {}
    for event in attempt.events:
        if not isinstance(event, Owm):
            touched = progress.step(event)
            if touched in passed and not progress.resolved(touched):
                # All outputs of its `expect` had left; then its outcome called for more.
                heappush(ahead, passed.pop(touched))
            continue
        mark = taken.left.get(event.n, -math.inf)
        while ahead and ahead[0][0] < mark:
            entry = heappop(ahead)
            if progress.resolved(entry[2]):
                passed[entry[2]] = entry
            else:
                yield _anomaly(view, attempt, entry[2], event)


def _anomaly(view: SubtaskView, attempt: AttemptTrace, record: Id, owm: Owm) -> Anomaly:
    taken = view.source.records.get(record)

    def then() -> Iterator[str]:
        cited = None if taken is None else view.case.entry(record, taken.n)
        entry, marks = cited or view.taken(record), view.marks_of(owm.w)
        if entry is not None and len(marks) == 1:
            yield precedes(entry, marks[0])
        yield from _unresolved(view, record, owm)

    say = (
        f"watermark {shown(owm.w)} leaves attempt {attempt.a} of subtask {view.s} while record"
        f" {shown(record)} (position {view.source.position(record)}), which precedes it, is unresolved"
    )
    rule = "a watermark leaves only after every record that precedes it is resolved"
    return convict(
        "crossed", view.s, {owm.n} | ({taken.n} if taken else set()), say, then, rule, id=record, w=owm.w
    )


def _unresolved(view: SubtaskView, record: Id, owm: Owm) -> Iterator[str]:
    """What was known of the record when the watermark left."""
    when = f"when {let(owm.n)} left attempt {owm.a}"
    outcome = next((e for e in view.outcomes(record, owm.a) if e.n < owm.n), None)
    outs = [e for e in view.story(record, Out) if e.a == owm.a]
    gone = [e.n for e in outs if e.n < owm.n]
    if outcome is not None:
        left = f"only {let_all(gone)} had left" if gone else "no output of it had left"
        yield f"The record's outcome had come ({let(outcome.n)}), but {left} {when}."
    else:
        left = f", only {let_all(gone)} had left" if gone else ""
        yield f"No outcome of record {shown(record)} had come{left} {when}."
    settled = [*view.story(record, Res), *view.story(record, Dead), *outs]
    later = [e.n for e in settled if e.a == owm.a and e.n > owm.n]
    if later:
        yield f"Its next event, {let(min(later))}, comes after {let(owm.n)}."
