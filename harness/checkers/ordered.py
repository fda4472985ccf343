"""V1 ordered: in ordered mode results leave in the order of their records, watermarks in their places.

Answers to Flink's `OrderedStreamElementQueue`. Invariant judged: along O*, (position, j) never falls, and no
result stands before a watermark that precedes its record or after one that follows it. One pass and one look
ahead over O*: memory grows with O*, time too.
"""

from __future__ import annotations

import math
from itertools import accumulate

from harness.checkers.case import Case, SubtaskView
from harness.checkers.invariant import Findings, Invariant
from harness.history.event import Out
from harness.history.values import shown
from harness.verdict import Anomaly

__all__ = ["Ordered"]


class Ordered(Invariant):
    """V1."""

    name = "V1"
    vacuous = "no result is visible, so none could be out of order"

    def not_claimed(self, case: Case) -> str:
        """Only an ordered operator claims it."""
        return "" if case.header.operator.mode == "ordered" else "the operator is unordered"

    def examine(self, view: SubtaskView) -> Findings:
        """Each `out` of O* that is out of its place."""
        walk = _Walk(view)
        results = sum(isinstance(entry.emission, Out) for entry in view.output)
        anomalies = {found.events: found for i in range(len(view.output)) for found in walk.breach_at(i)}
        return Findings(anomalies=tuple(anomalies.values()), observed=results, exposed=results > 0)


class _Walk:
    """O* walked from its begin; for each entry, what stands before it and what after. Mutable."""

    def __init__(self, view: SubtaskView) -> None:
        self._view = view
        self._marks = view.output_marks
        absent = (math.inf if mark is None else mark for mark in reversed(self._marks))
        self._lowest_mark_from = [*accumulate(absent, min)][::-1]
        self._highest: tuple[int, int] | None = None
        self._highest_out: Out | None = None
        self._highest_mark: int | None = None
        self._highest_mark_n = 0

    def breach_at(self, index: int) -> list[Anomaly]:
        emission = self._view.output[index].emission
        if isinstance(emission, Out):
            return self._out(index, emission)
        mark = self._marks[index]
        if mark is not None and (self._highest_mark is None or mark > self._highest_mark):
            self._highest_mark, self._highest_mark_n = mark, emission.n
        return []

    def _out(self, index: int, out: Out) -> list[Anomaly]:
        pos = self._view.source.position(out.id)
        if pos is None:
            return []
        told = f"output {out.j} of record {shown(out.id)} (position {pos})"
        found: Anomaly | None = None
        before, highest = self._highest_out, self._highest
        if before is not None and highest is not None and (pos, out.j) < highest:
            say = f"{told} leaves after output {before.j} of record {shown(before.id)} (position {highest[0]})"
            found = self._anomaly(out, before.n, say)
        elif self._highest_mark is not None and self._highest_mark > pos:
            say = f"{told} leaves after the watermark of position {self._highest_mark}, which follows its record"
            found = self._anomaly(out, self._highest_mark_n, say)
        elif not self._view.case.header.operator.coalesces_watermarks and self._overtakes(index, pos):
            mark, n = self._mark_after(index, pos)
            say = f"{told} leaves before the watermark of position {mark}, which precedes its record"
            found = self._anomaly(out, n, say)
        if highest is None or (pos, out.j) > highest:
            self._highest, self._highest_out = (pos, out.j), out
        return [] if found is None else [found]

    def _overtakes(self, index: int, pos: int) -> bool:
        """Whether some watermark that leaves later precedes this position."""
        return self._lowest_mark_from[index] < pos

    def _mark_after(self, index: int, pos: int) -> tuple[int, int]:
        for later in range(index + 1, len(self._marks)):
            mark = self._marks[later]
            if mark is not None and mark < pos:
                return mark, self._view.output[later].emission.n
        raise AssertionError("a watermark that was counted is gone")

    def _anomaly(self, out: Out, witness: int, say: str) -> Anomaly:
        return Anomaly(
            kind="reordered", s=self._view.s, id=out.id, events=tuple(sorted({witness, out.n})), say=say
        )
