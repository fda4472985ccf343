"""V5 no crossing: a watermark leaves only after every record before it is resolved.

Answers to flink-agents#178 and FLINK-40517. Invariant: in an attempt, at each `owm`, every record of the
attempt's input with a lower position is resolved, including records that the attempt takes in only later.
O(n log n); memory grows with the attempt's input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from harness.history.event import Id, Owm
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.attempt_state import AttemptProgress
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import AttemptInput
from harness.judge.checkers.invariant import Findings, Invariant


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
    return Anomaly(
        kind="crossed",
        s=view.s,
        id=record,
        w=owm.w,
        events=tuple(sorted({owm.n} | ({taken.n} if taken else set()))),
        say=(
            f"watermark {shown(owm.w)} leaves attempt {attempt.a} of subtask {view.s} while record"
            f" {shown(record)} (position {view.source.position(record)}), which precedes it, is unresolved"
        ),
    )
