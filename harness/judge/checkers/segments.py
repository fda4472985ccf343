"""V2 segments: in unordered mode a result never leaves before the last watermark that precedes its record.

Answers to Flink's `UnorderedStreamElementQueue.Segment`. Invariant: along the effective output O*, no result
stands before the watermark that opens its record's segment; V5 judges the watermark that closes it. Memory grows
with O*.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.event import Out
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.facts import precedes
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict
from harness.judge.checkers.outputs import outputs, visible


class Segments(Invariant):
    """Checks V2 for each subtask of an unordered operator."""

    name = "V2"
    vacuous = "no result is visible, so none could overtake a watermark"

    def not_claimed(self, case: IndexedHistory) -> str:
        operator = case.header.operator
        if operator.mode != "unordered":
            return "the operator is ordered"
        return "the operator coalesces watermarks" if operator.coalesces_watermarks else ""

    def examine(self, view: SubtaskView) -> Findings:
        """Each `out` of O* that stands before its segment's watermark."""
        leaves_at = {mark: index for index, mark in enumerate(view.output_marks) if mark is not None}
        anomalies: dict[int, Anomaly] = {}
        for index, entry in enumerate(view.output):
            if isinstance(out := entry.emission, Out) and out.n not in anomalies:
                pos = view.source.position(out.id)
                mark = None if pos is None else view.source.mark_before(pos)
                if mark is not None and leaves_at.get(mark, -1) > index:
                    anomalies[out.n] = _overtook(view, out, mark, view.output[leaves_at[mark]].emission.n)
        results = sum(1 for _ in outputs(view.output))
        return Findings(anomalies=tuple(anomalies.values()), observed=results, exposed=results > 0)


def _overtook(view: SubtaskView, out: Out, mark: int, owm: int) -> Anomaly:
    w, pos = view.source.watermarks[mark].w, view.source.position(out.id)

    def then() -> Iterator[str]:
        if (taken := view.taken(out.id)) is not None:
            ahead = [wm for wm in view.marks_of(w) if wm.pos < taken.pos]
            if ahead:
                yield precedes(max(ahead, key=lambda wm: wm.pos), taken)
            yield f"{visible(out.n, 'before', owm)}."

    say = (
        f"output {out.j} of record {shown(out.id)} (position {pos}) leaves before the"
        f" watermark {shown(w)} of position {mark}, which precedes its record"
    )
    rule = "no result leaves before the last watermark that precedes its record"
    return convict("overtook-watermark", view.s, {out.n, owm}, say, then, rule, id=out.id, w=w)
