"""The order of results: V1 ordered, V2 segments and V3 per-key order.

V1 ordered: in ordered mode results leave in input order, and watermarks keep their place among them.

Answers to Flink's `OrderedStreamElementQueue`. Invariant: along the effective output O*, (position, j) never
falls, and no result stands before a watermark that precedes its record or after one that follows it. What a subtask
inherits at a rescale is compared with the O* of the subtasks that held it before, too. O(n); memory grows with O*.

V3 per-key order: the results of one key leave in the order of that key's records.

For operators that keep order by key (FLINK-40552), and pools that distribute records by a hash of their key.
Invariant: along the effective output O*, among the records of one key, no result has a smaller position than an
earlier result. A record without a key is not compared. O(n); memory grows with the keys of O*.

V2 segments: in unordered mode a result never leaves before the last watermark that precedes its record.

Answers to Flink's `UnorderedStreamElementQueue.Segment`. Invariant: along the effective output O*, no result
stands before the watermark that opens its record's segment; V5 judges the watermark that closes it. Memory grows
with O*.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from itertools import accumulate

from msgspec import UNSET

from harness.history.event import Emission, Out, Owm
from harness.history.values import identity, shown
from harness.history.verdict import Anomaly, let, let_all, sentence
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.invariant import Findings, Invariant, convict, precedes, two_results
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


class PerKeyOrder(Invariant):
    """Checks V3 for each subtask."""

    name = "V3"
    vacuous = "no result is visible, so none could be out of its key's order"

    def not_claimed(self, case: IndexedHistory) -> str:
        """Why V3 says nothing here; empty if it does: the order of keys is claimed, and some record has a key."""
        operator = case.header.operator
        if operator.mode != "ordered" and not operator.per_key_order:
            return "the operator is unordered, and does not claim to keep the order of each key"
        records = (taken for view in case.views for taken in view.source.records.values())
        return "" if any(taken.key is not UNSET for taken in records) else "no record has a key"

    def examine(self, view: SubtaskView) -> Findings:
        """Each `out` of O* that a later record of its key has overtaken."""
        highest: dict[Hashable, tuple[int, Out]] = {}
        found: dict[int, Anomaly] = {}
        results = 0
        for _, out in outputs(view.output):
            results += 1
            taken = view.source.records.get(out.id)
            if taken is None or taken.key is UNSET:
                continue
            if (ahead := _ahead_of_origin(view, out, taken)) is not None:
                found.setdefault(out.n, ahead)
            pos, before = highest.setdefault(identity(taken.key), (taken.pos, out))
            if taken.pos < pos:
                found.setdefault(out.n, _reordered(view, out, taken, before, before_in=view))
            elif taken.pos > pos:
                highest[identity(taken.key)] = (taken.pos, out)
        return Findings(anomalies=tuple(found.values()), observed=results, exposed=results > 0)


def _ahead_of_origin(view: SubtaskView, out: Out, taken: Taken) -> Anomaly | None:
    """If the record is inherited: a later record of its key that left the subtask which held it before the rescale."""
    if out.id not in view.source.inherited:
        return None
    for origin in view.case.rescalings.origins(view, out.id):
        ahead = origin.view.furthest_of_key.get(identity(taken.key))
        if ahead is not None and ahead[0] > origin.pos:
            return _reordered(view, out, taken._replace(pos=origin.pos), ahead[1], before_in=origin.view)
    return None


def _reordered(view: SubtaskView, out: Out, taken: Taken, before: Out, *, before_in: SubtaskView) -> Anomaly:
    def then() -> Iterator[str]:
        yield from two_results(view, out, before)
        if (first := view.taken(out.id)) is not None and first.key is not UNSET:
            yield f"Both records have the key {shown(first.key)}."

    say = (
        f"output {out.j} of record {shown(out.id)} (position {taken.pos}) leaves after output {before.j}"
        f" of record {shown(before.id)} (position {before_in.source.position(before.id)}), which has the same"
        f" key {shown(taken.key)} and came in later"
    )
    rule = "the results of one key leave in the order of that key's records"
    return convict("key-reordered", out.s, {before.n, out.n}, say, then, rule, id=out.id)


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
