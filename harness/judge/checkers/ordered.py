"""V1 ordered: in ordered mode results leave in input order, and watermarks keep their place among them.

Answers to Flink's `OrderedStreamElementQueue`. Invariant: along the effective output O*, (position, j) never
falls, and no result stands before a watermark that precedes its record or after one that follows it. What a subtask
inherits at a rescale is compared with the O* of the subtasks that held it before, too. O(n); memory grows with O*.
"""

from __future__ import annotations

import math
from itertools import accumulate

from harness.history.event import Out
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant
from harness.judge.checkers.outputs import outputs


class Ordered(Invariant):
    """Checks V1 for each subtask of an ordered operator."""

    name = "V1"
    vacuous = "no result is visible, so none could be out of order"

    def not_claimed(self, case: IndexedHistory) -> str:
        return "" if case.header.operator.mode == "ordered" else "the operator is unordered"

    def examine(self, view: SubtaskView) -> Findings:
        """Each `out` of O* that is out of order."""
        walk = _OrderWalk(view)
        results = sum(isinstance(entry.emission, Out) for entry in view.output)
        for index in range(len(view.output)):
            walk.step(index)
        if view.source.inherited:
            walk.compare_with_origins()
        return Findings(anomalies=tuple(walk.found.values()), observed=results, exposed=results > 0)


class _OrderWalk:
    """One pass over O*; compares each result with what stands before and after it. Mutable."""

    def __init__(self, view: SubtaskView) -> None:
        self._view = view
        self._marks = view.output_marks
        placed = [(math.inf if mark is None else mark, place) for place, mark in enumerate(self._marks)]
        self._lowest_after = [*accumulate(reversed(placed), min)][::-1]
        """For each index of O* the lowest watermark position from there on, and the index of that watermark."""
        self._highest: tuple[float, int] = (-math.inf, 0)
        self._highest_out: Out | None = None
        self._highest_mark = -math.inf  # a snap may put positions below 0
        self._highest_mark_n = 0
        self.found: dict[int, Anomaly] = {}
        """Keyed by the `n` of the result: it may appear twice in O* and is reported once."""

    def step(self, index: int) -> None:
        emission = self._view.output[index].emission
        mark = self._marks[index]
        if isinstance(emission, Out):
            self._out(index, emission)
        elif mark is not None and mark > self._highest_mark:
            self._highest_mark, self._highest_mark_n = mark, emission.n

    def _out(self, index: int, out: Out) -> None:
        pos = self._view.source.position(out.id)
        if pos is None:
            return
        before, (lowest, later) = self._highest_out, self._lowest_after[index]
        coalesces = self._view.case.header.operator.coalesces_watermarks
        if before is not None and (pos, out.j) < self._highest:
            other = f"output {before.j} of record {shown(before.id)} (position {self._highest[0]})"
            self._report(out, pos, before.n, f"after {other}")
        elif self._highest_mark > pos:
            mark = f"the watermark of position {self._highest_mark}"
            self._report(out, pos, self._highest_mark_n, f"after {mark}, which follows its record")
        elif lowest < pos and not coalesces:
            mark = f"the watermark of position {lowest}"
            witness = self._view.output[later].emission.n
            self._report(out, pos, witness, f"before {mark}, which precedes its record")
        if (pos, out.j) > self._highest:
            self._highest, self._highest_out = (pos, out.j), out

    def compare_with_origins(self) -> None:
        """Each result of an inherited record that something overtook in the subtask which held the record before."""
        rescalings = self._view.case.rescalings
        for _, out in outputs(self._view.output):
            for origin in rescalings.origins(self._view, out.id):
                ahead = origin.view.furthest
                if ahead.out is not None and (origin.pos, out.j) < (ahead.pos, ahead.out.j):
                    other = f"output {ahead.out.j} of record {shown(ahead.out.id)} (position {ahead.pos})"
                    where = (
                        f"after {other} of subtask {origin.view.s}, which held it at position {origin.pos}"
                    )
                    self._report(out, self._view.source.records[out.id].pos, ahead.out.n, where)
                elif ahead.mark > origin.pos:
                    mark = f"the watermark of position {ahead.mark} of subtask {origin.view.s}"
                    where = f"after {mark}, which held it at position {origin.pos}"
                    self._report(out, self._view.source.records[out.id].pos, ahead.mark_n, where)

    def _report(self, out: Out, pos: int, witness: int, where: str) -> None:
        anomaly = Anomaly(
            kind="reordered",
            s=self._view.s,
            id=out.id,
            events=tuple(sorted({witness, out.n})),
            say=f"output {out.j} of record {shown(out.id)} (position {pos}) leaves {where}",
        )
        self.found.setdefault(out.n, anomaly)
