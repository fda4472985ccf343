"""V1 ordered: in ordered mode results leave in input order, and watermarks keep their place among them.

Answers to Flink's `OrderedStreamElementQueue`. Invariant: along the effective output O*, (position, j) never
falls, and no result stands before a watermark that precedes its record or after one that follows it. What a subtask
inherits at a rescale is compared with the O* of the subtasks that held it before, too. O(n); memory grows with O*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate

from harness.history.event import Emission, Out, Owm
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all, sentence
from harness.judge.checkers.facts import two_results
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict
from harness.judge.checkers.outputs import outputs, visible

_MARKS_NAMED = 3


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
        self._highest_owm: Owm | None = None
        self.found: dict[int, Anomaly] = {}
        """Keyed by the `n` of the result: it may appear twice in O* and is reported once."""

    def step(self, index: int) -> None:
        emission = self._view.output[index].emission
        mark = self._marks[index]
        if isinstance(emission, Out):
            self._out(index, emission)
        elif mark is not None and mark > self._highest_mark:
            self._highest_mark, self._highest_owm = mark, emission

    def _out(self, index: int, out: Out) -> None:
        pos = self._view.source.position(out.id)
        if pos is None:
            return
        before, (lowest, later) = self._highest_out, self._lowest_after[index]
        coalesces = self._view.case.header.operator.coalesces_watermarks
        if before is not None and (pos, out.j) < self._highest:
            other = f"output {before.j} of record {shown(before.id)} (position {self._highest[0]})"
            self._report(out, pos, before, f"after {other}")
        elif self._highest_mark > pos:
            mark = f"the watermark of position {self._highest_mark}"
            self._report(out, pos, self._highest_owm, f"after {mark}, which follows its record")
        elif lowest < pos and not coalesces:
            mark = f"the watermark of position {lowest}"
            self._report(
                out, pos, self._view.output[later].emission, f"before {mark}, which precedes its record"
            )
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
                    self._report(out, self._view.source.records[out.id].pos, ahead.out, where)
                elif ahead.mark > origin.pos:
                    mark = f"the watermark of position {ahead.mark} of subtask {origin.view.s}"
                    where = f"after {mark}, which held it at position {origin.pos}"
                    self._report(out, self._view.source.records[out.id].pos, ahead.owm, where)

    def _report(self, out: Out, pos: int, other: Emission | None, where: str) -> None:
        assert other is not None  # it has the position that was compared
        say = f"output {out.j} of record {shown(out.id)} (position {pos}) leaves {where}"

        def then() -> Iterator[str]:
            if isinstance(other, Out):
                yield from two_results(self._view, out, other)
            else:
                yield from self._against_watermark(out, other, say)

        rule = "an ordered operator emits results and watermarks in the order of their positions"
        anomaly = convict("reordered", self._view.s, {other.n, out.n}, say, then, rule, id=out.id)
        self.found.setdefault(out.n, anomaly)

    def _against_watermark(self, out: Out, owm: Owm, say: str) -> Iterator[str]:
        taken, marks = self._view.taken(out.id), self._view.marks_of(owm.w)
        if taken is not None and marks and all(mark.pos > taken.pos for mark in marks):
            named = let_all(mark.n for mark in marks[:_MARKS_NAMED])
            yield f"In the source {let(taken.n)} precedes the watermark ({named})."
            yield f"But {visible(out.n, 'after', owm.n)}."
        elif taken is not None and marks and all(mark.pos < taken.pos for mark in marks):
            named = let_all(mark.n for mark in marks[-_MARKS_NAMED:])
            yield f"In the source the watermark ({named}) precedes {let(taken.n)}."
            yield f"But {visible(out.n, 'before', owm.n)}."
        else:
            yield sentence(say)
