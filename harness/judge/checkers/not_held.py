"""V6 not held: every watermark leaves, soon after all records before it are resolved.

Answers to FLINK-40101, where no watermark left for minutes, and to FLINK-37981, where the last one was missing.
Invariant: after a normal finish each watermark of the source is in O*; and none leaves an attempt later than
the bound `watermark_hold` after it was ready, unless a fault stalled the operator meanwhile. O(n log n); memory
grows with the attempt's input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.history.event import OfAttempt, Owm, Wm
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all, run_finished
from harness.judge.checkers.attempt_state import Readiness
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict

_US_PER_MS = 1000
_MARKS_NAMED = 3


class NotHeld(Invariant):
    """Checks V6 for each subtask."""

    name = "V6"
    vacuous = "no watermark came in or left"

    def examine(self, view: SubtaskView) -> Findings:
        """Each watermark that is missing from O*, and each that left too late."""
        lost = tuple(_lost(view))
        held: list[Anomaly] = []
        if (bound_ms := view.case.header.bounds.watermark_hold) is not None:
            for attempt in view.subtask.attempts.values():
                held += _held(view, attempt, bound_ms)
        finished = view.case.finished
        return Findings(
            anomalies=(*held, *(lost if finished else ())),
            pending=() if finished else tuple(anomaly.say for anomaly in lost),
            observed=len(view.source.watermarks),
            exposed=view.case.watermarks_seen,
        )


def _lost(view: SubtaskView) -> Iterator[Anomaly]:
    if view.case.rescalings.ended_by(view) is not None:
        return  # what it had not emitted at the cut was handed on, and V10 judges the cut
    visible = {mark for mark in view.output_marks if mark is not None}
    covered = -math.inf
    if view.case.header.operator.coalesces_watermarks:
        # Any position of a value that left may be the one that left, and it covers all before it.
        values = {view.source.watermarks[mark].w for mark in visible}
        covered = max((view.source.positions_of[w][-1] for w in values), default=-math.inf)
    for pos in view.source.marks:
        if pos > covered and pos not in visible:
            wm = view.source.watermarks[pos]
            say = f"watermark {shown(wm.w)} (position {pos}) of subtask {view.s} is missing from the sink's output"
            yield _missing(view, wm, say)


def _missing(view: SubtaskView, wm: Wm, say: str) -> Anomaly:
    def then() -> Iterator[str]:
        attempts = view.subtask.attempts.values()
        owms = [e for a in attempts for e in a.emissions if isinstance(e, Owm) and e.w == wm.w]
        is_inherited = not any(mark.n == wm.n for mark in view.all_marks(wm.w))
        if owms and not is_inherited:
            fates = ["stand for earlier positions"]
            fates += ["were rolled back"] * (len(view.starts) > 1)
            fates += ["were never committed"] * (view.case.header.sink in {"atomic", "two-phase"})
            named = let_all(sorted(owm.n for owm in owms)[:_MARKS_NAMED])
            yield f"The watermarks of its value that left ({named}) {' or '.join(fates)}."
        elif not is_inherited:
            yield f"After {let(wm.n)} no watermark {shown(wm.w)} ever left subtask {view.s}."
        yield run_finished(_MARKS_NAMED)

    rule = "after a normal finish every watermark that came in is visible"
    return convict("watermark-lost", view.s, (wm.n,), say, then, rule, w=wm.w)


def _held(view: SubtaskView, attempt: AttemptTrace, bound_ms: int) -> Iterator[Anomaly]:
    coalesces = view.case.header.operator.coalesces_watermarks
    readiness = Readiness(source=view.source, taken=view.inputs[attempt.a], coalesces=coalesces)
    for event in attempt.events:
        readiness.step(event)
        ready = readiness.since(event) if isinstance(event, Owm) else []
        late = [
            since
            for since in ready
            if event.t - since.t > bound_ms * _US_PER_MS and not view.case.stalls.overlap(since.t, event.t)
        ]
        if isinstance(event, Owm) and late and len(late) == len(ready):
            yield _late(event, late[-1], bound_ms)


def _late(owm: Owm, ready: OfAttempt, bound_ms: int) -> Anomaly:
    waited_ms = (owm.t - ready.t) / _US_PER_MS
    say = (
        f"watermark {shown(owm.w)} leaves attempt {owm.a} of subtask {owm.s} {waited_ms:.3f} ms after it was"
        f" ready (event {ready.n}); at most {bound_ms} ms are allowed"
    )
    then = (
        f"From {let(ready.n)} on, every record before watermark {shown(owm.w)} was resolved.",
        f"{let(owm.n)} comes {waited_ms:.3f} ms after it.",
        "No fault that stalls the operator overlapped that time.",
    )
    rule = f"a watermark that is ready leaves within {bound_ms} ms"
    return convict("held", owm.s, (ready.n, owm.n), say, then, rule, w=owm.w)
