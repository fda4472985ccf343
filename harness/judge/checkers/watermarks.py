"""Watermarks: V4 monotone, V5 no crossing and V7 no phantom watermark.

V4 monotone: watermarks never go back, unless the source's own watermarks do.

Invariant: in the effective output O*, and inside each attempt, no watermark w2 follows a w1 > w2 unless somewhere
in the source w2 follows w1. Surplus watermarks are left to V7. O(n log n); memory grows with the watermarks of
one sequence.

V5 no crossing: a watermark leaves only after every record before it is resolved.

Answers to flink-agents#178 and FLINK-40517. Invariant: in an attempt, at each `owm`, every record of the
attempt's input with a lower position is resolved, including records that the attempt takes in only later.
O(n log n); memory grows with the attempt's input.

V7 no phantom: a watermark leaves only if it came in, no more often than it did, and nothing follows the final one.

Answers to FLINK-36859 (an epoch that ended twice) and to a final watermark that leaves before the queue has
drained. Invariant: the value of each `owm` is in its attempt's input by then; O* holds no watermark value more
often than the subtask's input; in O* nothing follows the watermark `"end"`. O(n); memory grows with the distinct
watermarks.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from harness.history.event import Dead, Emission, Id, Out, Owm, Res, Restore, W, Wm
from harness.history.values import height, shown
from harness.history.verdict import Anomaly, let, let_all
from harness.judge.checkers.attempt_state import AttemptProgress
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import (
    AttemptInput,
    Mark,
    SubtaskInput,
    elements_of,
    positions_of_emissions,
)
from harness.judge.checkers.invariant import Findings, Invariant, convict, places, precedes
from harness.judge.checkers.outputs import Shown, visible


class NoPhantomWatermark(Invariant):
    """Checks V7 for each attempt and for O*."""

    name = "V7"
    vacuous = "no watermark came in or left"

    def examine(self, view: SubtaskView) -> Findings:
        """Each phantom watermark, each repeated one, and each emission after the final one."""
        attempts = view.subtask.attempts.values()
        phantoms = [anomaly for attempt in attempts for anomaly in _phantoms(view, attempt)]
        left = sum(isinstance(e, Owm) for attempt in attempts for e in attempt.emissions)
        anomalies = (*phantoms, *_repeated(view), *_after_end(view))
        return Findings(anomalies=anomalies, observed=left, exposed=view.case.watermarks_seen)


def _phantoms(view: SubtaskView, attempt: AttemptTrace) -> Iterator[Anomaly]:
    come: set[W] = set()
    for event in attempt.events:
        match event:
            case Restore():
                come.update(element.w for element in elements_of(event.elements) if isinstance(element, Mark))
            case Wm():
                come.add(event.w)
            case Owm() if event.w not in come:
                yield _phantom(view, event)
            case _:
                pass


def _phantom(view: SubtaskView, owm: Owm) -> Anomaly:
    def then() -> Iterator[str]:
        marks = view.all_marks(owm.w)
        if own := [mark.n for mark in marks if mark.a == owm.a]:
            yield f"Attempt {owm.a} took it in only at {let(own[0])}, after {let(owm.n)}."
        elif marks:
            came = f"It came in at {let(marks[0].n)}, in attempt {marks[0].a}"
            yield f"{came}, but not in attempt {owm.a}."
        else:
            yield places(view, owm.w)
        neither = f"attempt {owm.a} had neither taken in nor restored watermark {shown(owm.w)}"
        yield f"By {let(owm.n)} {neither}."

    say = (
        f"watermark {shown(owm.w)} leaves attempt {owm.a} of subtask {owm.s}, which by then"
        " has neither taken in nor restored such a watermark"
    )
    rule = "an attempt emits only watermarks that it took in or restored"
    return convict("phantom-watermark", owm.s, (owm.n,), say, then, rule, w=owm.w)


def _repeated(view: SubtaskView) -> Iterator[Anomaly]:
    """Each watermark in O* beyond the number of its positions in the source, reported once."""
    last: dict[W, Shown] = {}
    found: dict[int, Anomaly] = {}
    for entry, mark in zip(view.output, view.output_marks, strict=True):
        owm = entry.emission
        if isinstance(owm, Owm) and (positions := view.source.positions_of.get(owm.w)):
            if mark is None and owm.n not in found:
                found[owm.n] = _repeat(view, entry, last[owm.w], owm, len(positions))
            last[owm.w] = entry
    yield from found.values()


def _repeat(view: SubtaskView, entry: Shown, before: Shown, owm: Owm, times: int) -> Anomaly:
    often = "once" if times == 1 else f"{times} times"

    def then() -> Iterator[str]:
        owms = sorted({before.emission.n, owm.n})
        again = "twice" if len(owms) == 1 else "again"
        yield f"Watermark {shown(owm.w)} is visible {again}: {let_all(owms)}."
        yield places(view, owm.w)

    say = f"watermark {shown(owm.w)} is visible again, but the source of subtask {view.s} has it only {often}"
    rule = "a watermark is visible as often as its value has positions in the source, and no more"
    return convict("repeated-watermark", view.s, {*before.witness, *entry.witness}, say, then, rule, w=owm.w)


def _after_end(view: SubtaskView) -> Iterator[Anomaly]:
    """Each emission in O* after the final watermark, reported once."""
    end: Shown | None = None
    found: dict[int, Anomaly] = {}
    for entry in view.output:
        emission = entry.emission
        if end is not None:
            found.setdefault(emission.n, _late(view, entry, end))
        elif isinstance(emission, Owm) and emission.w == "end":
            end = entry
    yield from found.values()


def _late(view: SubtaskView, entry: Shown, end: Shown) -> Anomaly:
    shown_late = entry.emission
    what = (
        f"watermark {shown(shown_late.w)}"
        if isinstance(shown_late, Owm)
        else f"output {shown_late.j} of record {shown(shown_late.id)}"
    )
    say = f"{what} of subtask {view.s} is visible after the final watermark, which nothing may follow"
    late, first = shown_late, end.emission
    if isinstance(late, Owm) and late.w == "end" and late.n < first.n:
        late, first = first, late
    then = [f"{let(first.n)} is the final watermark.", f"{visible(late.n, 'after', first.n)}."]
    if late is first:
        then = [f"{let(first.n)}, the final watermark, is visible again after itself."]
    rule = "nothing follows the final watermark"
    events = {*end.witness, *entry.witness}
    return convict("after-end", view.s, events, say, then, rule, about=shown_late)


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
