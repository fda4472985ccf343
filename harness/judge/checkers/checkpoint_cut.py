"""V10 checkpoint cut: a completed snapshot divides the input into elements that have left and elements stored.

Answers to FLINK-7949 and FLINK-12351. Invariant: each element of the attempt's input before the snapshot's
position is either resolved or stored, not both, and no record has only some of its outputs out; no element at
or after that position is stored or has left; stored elements are in replay order. O(n log n).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from harness.history.event import Abort, Ack, Done, Snap
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.attempt_state import AttemptSweep, misordered
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Element, Mark, elements_of
from harness.judge.checkers.invariant import Findings, Invariant


class CheckpointCut(Invariant):
    """Checks V10 for each completed snapshot of each attempt."""

    name = "V10"
    vacuous = "no checkpoint with a snap was completed"

    def examine(self, view: SubtaskView) -> Findings:
        """Each element on the wrong side of a completed snapshot; each `done` without a snap of this subtask."""
        completions = view.checkpoints.completions
        anomalies: list[Anomaly] = []
        for attempt in view.subtask.attempts.values():
            if any((attempt.a, cut.snap.c) in completions for cut in attempt.cuts):
                anomalies += _cuts_of(view, attempt)
        anomalies += incomplete(view)
        return Findings(anomalies=tuple(anomalies), observed=len(completions), exposed=bool(completions))

    def across(self, case: IndexedHistory) -> Findings:
        """Each checkpoint that was both completed and aborted, though its number was not used again."""
        return Findings(anomalies=tuple(two_ends(case)))


def _cuts_of(view: SubtaskView, attempt: AttemptTrace) -> Iterator[Anomaly]:
    coalesces = view.case.header.operator.coalesces_watermarks
    sweep = AttemptSweep(attempt, source=view.source, taken=view.inputs[attempt.a], coalesces=coalesces)
    for event in attempt.events:
        if isinstance(event, Snap):
            completion = view.checkpoints.completions.get((attempt.a, event.c))
            if completion is not None:
                yield from _Examination(view, sweep, event, completion).anomalies()
        else:
            sweep.step(event)


class _Examination:
    """One completed snapshot, compared with the attempt's state at that moment."""

    def __init__(self, view: SubtaskView, sweep: AttemptSweep, snap: Snap, completion: int) -> None:
        self._view = view
        self._sweep = sweep
        self._snap = snap
        self._completion = completion
        self._listed = list(elements_of(snap.elements))
        self._stored = dict.fromkeys(self._listed)

    def anomalies(self) -> Iterator[Anomaly]:
        yield from self._unstored()
        for element in self._sweep.left_from(self._snap.pos):
            yield self._anomaly("both-sides", element, "has left, and will be read again after a restore")
        for element in self._stored:
            yield from self._stored_one(element)
        yield from self._order()
        if self._snap.pos > self._sweep.next_pos:
            say = f"the cut is beyond the input: position {self._sweep.next_pos} is not taken in yet"
            yield self._anomaly("skipped", None, say)

    def _unstored(self) -> Iterator[Anomaly]:
        """Elements before the cut that are open and not stored, or whose outputs have left only in part."""
        for element in self._sweep.open:
            pos = self._sweep.position(element)
            if pos is not None and pos < self._snap.pos:
                if self._sweep.split(element):
                    yield self._anomaly("torn", element, "has left only in part")
                elif element not in self._stored and not self._sweep.excused(element):
                    yield self._anomaly("missing", element, "is neither stored nor resolved")

    def _stored_one(self, element: Element) -> Iterator[Anomaly]:
        sweep, pos = self._sweep, self._sweep.position(element)
        if not sweep.has_taken(element):
            yield self._anomaly("foreign", element, "is stored, but was not in the input by then")
        elif pos is None:
            return
        elif pos >= self._snap.pos:
            if not sweep.has_left(element):
                yield self._anomaly(
                    "both-sides", element, "is stored, and will be read again after a restore"
                )
        elif sweep.all_left(element):
            yield self._anomaly("already-out", element, "is stored, though it has left")

    def _order(self) -> Iterator[Anomaly]:
        if len(self._listed) > len(self._stored):
            for element, times in Counter(self._listed).items():
                if times > 1:
                    yield self._anomaly("twice", element, "is stored twice")
        if len(self._stored) > 1:
            places = {element: self._sweep.position(element) for element in self._stored}
            ordered = self._view.case.header.operator.mode == "ordered"
            for element in misordered(places, ordered=ordered):
                yield self._anomaly("misordered", element, "is stored out of replay order")

    def _anomaly(self, kind: str, element: Element | None, say: str) -> Anomaly:
        s, snap = self._view.s, self._snap
        where = f"in checkpoint {snap.c} of subtask {s} (attempt {snap.a}, cut at position {snap.pos})"
        taken = () if element is None else self._witness(element)
        return Anomaly(
            kind=kind,
            s=s,
            c=snap.c,
            id=None if element is None or isinstance(element, Mark) else element.id,
            w=element.w if isinstance(element, Mark) else None,
            events=tuple(sorted({*taken, snap.n, self._completion})),
            say=f"{where}, {say}" if element is None else f"{self._named(element)} {say}, {where}",
        )

    def _witness(self, element: Element) -> tuple[int, ...]:
        source = self._view.source
        if isinstance(element, Mark):
            wm = source.watermarks.get(element.pos)
            return () if wm is None else (wm.n,)
        taken = source.records.get(element.id)
        return () if taken is None else (taken.n,)

    def _named(self, element: Element) -> str:
        if isinstance(element, Mark):
            return f"watermark {shown(element.w)} (position {element.pos})"
        pos = self._sweep.position(element)
        return f"record {shown(element.id)} ({'no position' if pos is None else f'position {pos}'})"


class _Completion(NamedTuple):
    """A `done`, and the attempt of a subtask that runs at it."""

    done: Done
    running: AttemptTrace


def incomplete(view: SubtaskView) -> Iterator[Anomaly]:
    """Each `done` of which this subtask, though running, has no snap, or no acknowledgement by its newest attempt."""
    acks: dict[tuple[int, int], list[Ack]] = {}
    for ack in view.case.trace.acks:
        if ack.s == view.s:
            acks.setdefault((ack.a, ack.c), []).append(ack)
    for done, running in _completions(view):
        if view.checkpoints.cut_before(done.c, done.n) is None:
            lacks = "has no snap of it"
        elif not view.case.trace.acks or _acknowledgement(view, running.a, done, acks) is not None:
            continue
        else:
            lacks = "has not acknowledged it since its snap"
            earlier = sorted((a for a in view.subtask.attempts if a < running.a), reverse=True)
            found = (_acknowledgement(view, a, done, acks) for a in earlier)
            if (older := next(filter(None, found), None)) is not None:
                yield _stale(older, running, done)
                continue
        say = f"checkpoint {done.c} is completed, but subtask {view.s}, whose attempt {running.a} is running, {lacks}"
        yield Anomaly(kind="incomplete", s=view.s, c=done.c, events=(done.n,), say=say)


def _completions(view: SubtaskView) -> Iterator[_Completion]:
    """Each `done` at which this subtask has started, and neither ended nor been ended by a rescale."""
    starts = sorted(
        ((attempt.start.n, attempt) for attempt in view.subtask.attempts.values() if attempt.start),
        key=lambda pair: pair[0],
    )
    rescale = view.case.rescalings.ended.get(view.s)
    running: AttemptTrace | None = None
    for done in view.case.trace.dones:
        while starts and starts[0][0] < done.n:
            running = starts.pop(0)[1]
        if rescale is not None and rescale.n < done.n:
            return
        if running is not None and (running.ended is None or running.ended > done.n):
            yield _Completion(done, running)


def _acknowledgement(
    view: SubtaskView, a: int, done: Done, acks: Mapping[tuple[int, int], Sequence[Ack]]
) -> Ack | None:
    """The acknowledgement by attempt `a` of its snap, before `done`; `acks` by attempt and checkpoint."""
    cut = view.checkpoints.cut_before(done.c, done.n, attempt=a)
    if cut is None:
        return None
    return next((ack for ack in acks.get((a, done.c), ()) if cut.snap.n < ack.n < done.n), None)


def _stale(ack: Ack, running: AttemptTrace, done: Done) -> Anomaly:
    assert running.start is not None  # it runs
    say = (
        f"checkpoint {done.c} is completed with the acknowledgement of attempt {ack.a} of subtask {ack.s} (event"
        f" {ack.n}), though attempt {running.a} had started (event {running.start.n}) and has not acknowledged it"
    )
    events = tuple(sorted((ack.n, running.start.n, done.n)))
    return Anomaly(kind="stale-ack", s=ack.s, c=done.c, events=events, say=say)


def two_ends(case: IndexedHistory) -> Iterator[Anomaly]:
    """Each `done` after an `abort` of its number and each `abort` after a `done`, unless the number is used again."""
    if not case.trace.aborts:
        return
    running = {view.s: {done.n for done, _ in _completions(view)} for view in case.views}
    done_of: dict[int, Done] = {}
    abort_of: dict[int, Abort] = {}
    ends: list[Done | Abort] = sorted((*case.trace.dones, *case.trace.aborts), key=lambda end: end.n)
    for end in ends:
        if isinstance(end, Done):
            if (abort := abort_of.get(end.c)) is not None:
                views = (view for view in case.views if end.n in running[view.s])
                cuts = [view.checkpoints.cut_before(end.c, end.n) for view in views]
                if not cuts or any(cut is None or cut.snap.n < abort.n for cut in cuts):
                    say = f"checkpoint {end.c} is completed after it was aborted (event {abort.n}), without new snaps"
                    yield Anomaly(kind="two-ends", c=end.c, events=(abort.n, end.n), say=say)
            done_of[end.c] = end
        else:
            if (done := done_of.get(end.c)) is not None:
                attempts = (attempt for view in case.views for attempt in view.subtask.attempts.values())
                snaps = (cut.snap for attempt in attempts for cut in attempt.cuts)
                if not any(snap.c == end.c and done.n < snap.n < end.n for snap in snaps):
                    say = f"checkpoint {end.c} is aborted after it was completed (event {done.n}), without a new snap"
                    yield Anomaly(kind="two-ends", c=end.c, events=(done.n, end.n), say=say)
            abort_of[end.c] = end
