"""V4 monotone: watermarks never go back, unless the source's own watermarks do.

Invariant: in the effective output O*, and inside each attempt, no watermark w2 follows a w1 > w2 unless somewhere
in the source w2 follows w1. Surplus watermarks are left to V7. O(n log n); memory grows with the watermarks of
one sequence.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from harness.history.event import Emission, Owm
from harness.history.values import height, shown
from harness.history.verdict import Anomaly, let
from harness.judge.checkers.facts import places
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import SubtaskInput, positions_of_emissions
from harness.judge.checkers.invariant import Findings, Invariant, convict
from harness.judge.checkers.outputs import visible


class Monotone(Invariant):
    """Checks V4 in O* and in each attempt."""

    name = "V4"
    vacuous = "no watermark came in or left"

    def examine(self, view: SubtaskView) -> Findings:
        """Each `owm` that goes back; reported once even if it does so both in its attempt and in O*."""
        found: dict[int, Anomaly] = {}
        output = [entry.emission for entry in view.output]
        sequences = [_standing(output, view.output_marks)]
        for a, attempt in view.subtask.attempts.items():
            marks = positions_of_emissions(attempt.emissions, view.inputs[a].positions_of)
            sequences.append(_standing(attempt.emissions, marks))
        for sequence in sequences:
            for owm, higher in _going_back(sequence, view.source):
                found.setdefault(owm.n, _back(view, owm, higher))
        left = sum(len(sequence) for sequence in sequences[1:])
        return Findings(anomalies=tuple(found.values()), observed=left, exposed=view.case.watermarks_seen)


def _standing(emissions: Iterable[Emission], marks: Sequence[int | None]) -> list[Owm]:
    pairs = zip(emissions, marks, strict=True)
    return [e for e, mark in pairs if mark is not None and isinstance(e, Owm)]


def _going_back(sequence: list[Owm], source: SubtaskInput) -> Iterator[tuple[Owm, Owm]]:
    """Each watermark after a higher one that it never follows in the source, with that higher one."""
    front = _Front()
    for owm in sequence:
        places = source.positions_of.get(owm.w)
        higher = front.higher_than(owm)
        if higher is not None and (places is None or higher[0] > places[-1]):
            yield owm, higher[1]
        front.add(places[0] if places else math.inf, owm)


class _Front:
    """Watermarks seen so far, without those that another beats in both value and first position. Mutable.

    Sorted by value; first positions therefore fall from left to right, and the best witness against a watermark
    is the first entry above it.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, float, int, Owm]] = []

    def higher_than(self, owm: Owm) -> tuple[float, Owm] | None:
        """The higher watermark with the greatest first position, preceded by that position."""
        index = bisect_right(self._entries, height(owm.w), key=lambda entry: entry[0])
        if index == len(self._entries):
            return None
        _, first, _, higher = self._entries[index]
        return first, higher

    def add(self, first: float, owm: Owm) -> None:
        above = self.higher_than(owm)
        value = height(owm.w)
        index = bisect_right(self._entries, value, key=lambda entry: entry[0])
        same_value = index > 0 and self._entries[index - 1][0] == value
        if same_value or (above is not None and above[0] >= first):
            return
        while index > 0 and self._entries[index - 1][1] <= first:
            index -= 1
            del self._entries[index]
        insort(self._entries, (value, first, owm.n, owm), key=lambda entry: entry[0])


def _back(view: SubtaskView, owm: Owm, higher: Owm) -> Anomaly:
    def then() -> Iterator[str]:
        yield f"{let(higher.n)} carries {shown(higher.w)}, {let(owm.n)} the lower {shown(owm.w)}."
        if owm.n < higher.n:
            yield f"{visible(owm.n, 'after', higher.n)}."
        else:
            yield f"{let(owm.n)} comes after {let(higher.n)}."
        yield places(view, owm.w)
        yield places(view, higher.w)

    say = (
        f"watermark {shown(owm.w)} leaves after the higher {shown(higher.w)}, though it never follows that one in"
        f" the source of subtask {view.s}"
    )
    rule = "a lower watermark leaves after a higher one only if it follows it somewhere in the source"
    return convict("watermark-back", view.s, (higher.n, owm.n), say, then, rule, w=owm.w)
