"""Checkpoints: V10 checkpoint cut and V18 checkpoint gap.

V10 checkpoint cut: a completed snapshot divides the input into elements that have left and elements stored.

Answers to FLINK-7949 and FLINK-12351. Invariant: each element of the attempt's input before the snapshot's
position is either resolved or stored, not both, and no record has only some of its outputs out; no element at
or after that position is stored or has left; stored elements are in replay order. O(n log n).

V18 checkpoint gap: checkpoints keep completing, however full the queue and however slow the database.

Answers to FLINK-39835, where a full queue delayed checkpoints. Invariant: between the first `start`, each
completion and the last `end`, no two neighbouring events are further apart than the bound `checkpoint_gap`;
with sink `atomic` this is judged for each subtask. With `barrier_every`, an attempt takes no element behind a barrier
before its snap of that checkpoint. O(n log n); memory grows with completions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from msgspec import UNSET

from harness.history.event import Abort, Ack, Commit, Done, End, Event, Id, In, Out, Owm, Rescale, Snap, Wm
from harness.history.values import same, shown
from harness.history.verdict import Anomaly, let, let_all, sentence
from harness.judge.checkers.attempt_state import AttemptSweep, misordered
from harness.judge.checkers.history_trace import AttemptTrace, SubtaskTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Element, Mark, RecordOf, elements_of, several
from harness.judge.checkers.invariant import Findings, Invariant, convict, convict_of

_US_PER_MS = 1000


class CheckpointGap(Invariant):
    """Checks V18, with sink `atomic` for each subtask, else for the whole job."""

    name = "V18"
    vacuous = "nothing ever started, so no checkpoint was due"

    def not_claimed(self, case: IndexedHistory) -> str:
        claims = case.header.bounds.checkpoint_gap, case.header.barrier_every
        return "the header gives no `checkpoint_gap`" if claims == (None, None) else ""

    def examine(self, view: SubtaskView) -> Findings:
        """Each checkpoint that an attempt left out.

        With sink `atomic` also each period longer than the bound in which this subtask completed no checkpoint.
        """
        left_out = Findings(anomalies=tuple(_left_out(view)))
        if view.case.header.sink != "atomic":
            return left_out
        completers = set(view.checkpoints.completions.values())
        completions = [commit for commit in view.subtask.commits if commit.n in completers]
        last = view.subtask.last
        ended = last is not None and last.ended is not None
        rescale = view.case.rescalings.ended_by(view)
        return left_out + _judged(
            view.case, [view.subtask], completions, s=view.s, ended=ended, rescale=rescale
        )

    def across(self, case: IndexedHistory) -> Findings:
        """With other sinks: each period longer than the bound in which the coordinator completed none."""
        if case.header.sink == "atomic":
            return Findings()
        subtasks = [view.subtask for view in case.views]
        return _judged(case, subtasks, list(_completed(case)), s=None, ended=case.finished)


def _completed(case: IndexedHistory) -> Iterator[Done]:
    """Each `done`, except repetitions of an earlier one that complete no further snapshot."""
    fresh = {n for view in case.views for n in view.checkpoints.completions.values()}
    known: set[int] = set()
    for done in case.trace.dones:
        if done.c not in known or done.n in fresh:
            known.add(done.c)
            yield done


class _Point(NamedTuple):
    """The begin or end of a period without a completion."""

    event: Event
    named: str
    c: int | None = None


def _judged(
    case: IndexedHistory,
    subtasks: Sequence[SubtaskTrace],
    completions: Sequence[Commit | Done],
    *,
    s: int | None,
    ended: bool,
    rescale: Rescale | None = None,
) -> Findings:
    attempts = [attempt for subtask in subtasks for attempt in subtask.attempts.values()]
    starts = [attempt.start for attempt in attempts if attempt.start is not None]
    ends = [event for attempt in attempts for event in attempt.events if isinstance(event, End)]
    points = [_Point(event, f"the completion of checkpoint {event.c}", event.c) for event in completions]
    if starts:
        points.insert(0, _Point(min(starts, key=attrgetter("n")), "the first start"))
    if rescale is not None:
        points.append(_Point(rescale, "the rescale that ended the subtask"))
    elif ended and ends:
        points.append(_Point(max(ends, key=attrgetter("n")), "the last end of the source"))
    elif case.trace.last is not None:
        points.append(_Point(case.trace.last, "the last event of the history"))
    bound_ms = case.header.bounds.checkpoint_gap
    anomalies = () if bound_ms is None else tuple(_too_far_apart(points, bound_ms, s))
    return Findings(
        anomalies=anomalies, observed=len(completions), exposed=bool(starts) or len(completions) > 1
    )


def _too_far_apart(points: Sequence[_Point], bound_ms: int, s: int | None) -> Iterator[Anomaly]:
    whose = "" if s is None else f" of subtask {s}"
    for before, after in pairwise(points):
        gap_us = after.event.t - before.event.t
        if gap_us > bound_ms * _US_PER_MS:
            say = (
                f"no checkpoint{whose} was completed in the {gap_us / _US_PER_MS:.3f} ms between {before.named} and"
                f" {after.named}; at most {bound_ms} ms are allowed"
            )
            events = (before.event.n, after.event.n)
            passed = f"From {let(events[0])} to {let(events[1])} passed {gap_us / _US_PER_MS:.3f} ms."
            then = (passed, f"In between no checkpoint{whose} was newly completed.")
            rule = f"a checkpoint is completed at least every {bound_ms} ms"
            yield convict("checkpoint-gap", s, events, say, then, rule, c=after.c)


def _left_out(view: SubtaskView) -> Iterator[Anomaly]:
    """With `barrier_every`: each checkpoint whose barrier an attempt passed without its snap."""
    every = view.case.header.barrier_every
    begun = view.case.rescalings.begun.get(view.s)
    inherited = len(view.case.rescalings.share(view) or ())
    for attempt in view.subtask.attempts.values() if every else ():
        due = 1 + ((attempt.start and attempt.start.from_) or 0)
        snapped: set[int] = set()
        for event in attempt.events:
            if isinstance(event, Snap):
                snapped.add(event.c)
            while isinstance(event, In | Wm):
                at = inherited + (due - (0 if begun is None else begun.c)) * (every or 1)
                if event.pos < at:
                    break
                if due not in snapped:
                    say = f"attempt {event.a} of subtask {event.s} takes position {event.pos} without checkpoint {due}"
                    rule = f"the barrier of checkpoint {due} is in front of position {at}; who passes it takes a snap"
                    behind = f"{let(event.n)} is behind the barrier of checkpoint {due}."
                    then = (behind, f"Attempt {event.a} had taken no snap of checkpoint {due} by then.")
                    yield convict("left-out", event.s, (event.n,), say, then, rule, about=event, c=due)
                due += 1


_EVENTS_NAMED = 3
_ONE_SIDE = "an element that will be read again is neither stored nor has it left"


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
        """Each number that was completed and aborted and not used again; what was read otherwise than before."""
        return Findings(anomalies=(*two_ends(case), *_misread(case)))


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
            say = "has left, and will be read again after a restore"
            yield self._anomaly("both-sides", element, say, _ONE_SIDE)
        for element in self._stored:
            yield from self._stored_one(element)
        yield from self._order()
        if self._snap.pos > self._sweep.next_pos:
            say = f"the cut is beyond the input: position {self._sweep.next_pos} is not taken in yet"
            rule = "the cut is at the position up to which the source was read"
            yield self._anomaly("skipped", None, say, rule)

    def _unstored(self) -> Iterator[Anomaly]:
        """Elements before the cut that are open and not stored, or whose outputs have left only in part."""
        for element in self._sweep.open:
            pos = self._sweep.position(element)
            if pos is not None and pos < self._snap.pos:
                if self._sweep.split(element):
                    rule = "no record's outputs are on both sides of the cut"
                    yield self._anomaly("torn", element, "has left only in part", rule)
                elif element not in self._stored and not self._sweep.excused(element):
                    rule = "every element before its position is stored in it or resolved"
                    yield self._anomaly("missing", element, "is neither stored nor resolved", rule)

    def _stored_one(self, element: Element) -> Iterator[Anomaly]:
        sweep, pos = self._sweep, self._sweep.position(element)
        if not sweep.has_taken(element):
            rule = "only elements that the attempt took in or restored are stored"
            yield self._anomaly("foreign", element, "is stored, but was not in the input by then", rule)
        elif pos is None:
            return
        elif pos >= self._snap.pos:
            if not sweep.has_left(element):
                say = "is stored, and will be read again after a restore"
                yield self._anomaly("both-sides", element, say, _ONE_SIDE)
        elif sweep.all_left(element):
            rule = "no stored element has left, since a restore would let it leave again"
            yield self._anomaly("already-out", element, "is stored, though it has left", rule)

    def _order(self) -> Iterator[Anomaly]:
        if len(self._listed) > len(self._stored):
            for element, times in Counter(self._listed).items():
                if times > 1:
                    yield self._anomaly("twice", element, "is stored twice", "every element is stored once")
        if len(self._stored) > 1:
            places = {element: self._sweep.position(element) for element in self._stored}
            ordered = self._view.case.header.operator.mode == "ordered"
            for element in misordered(places, ordered=ordered):
                order = "by position" if ordered else "records on their side of each watermark"
                rule = f"elements are stored in replay order, {order}"
                yield self._anomaly("misordered", element, "is stored out of replay order", rule)

    def _anomaly(self, kind: str, element: Element | None, say: str, rule: str) -> Anomaly:
        s, snap = self._view.s, self._snap
        where = f"in checkpoint {snap.c} of subtask {s} (attempt {snap.a}, cut at position {snap.pos})"
        taken = () if element is None else self._witness(element)
        say = f"{where}, {say}" if element is None else f"{self._named(element)} {say}, {where}"
        completed = f"checkpoint {snap.c} was completed ({let(self._completion)})"
        rule = f"{completed}, and in a completed checkpoint {rule}"
        events = {*taken, snap.n, self._completion}
        facts = partial(self._facts, kind, element, say)
        return convict(kind, s, events, say, facts, rule, about=element, c=snap.c)

    def _facts(self, kind: str, element: Element | None, say: str) -> Iterator[str]:
        snap, at = self._snap, let(self._snap.n)
        if element is None:
            yield f"{at} says that the source is to be read from position {snap.pos}."
            yield sentence(say)
            return
        entry = self._entry(element)
        if entry is not None and kind != "foreign":
            side = "before" if entry.pos < snap.pos else "at or after"
            stands = f"{let(entry.n)} stands at position {entry.pos}"
            yield f"{stands}, {side} the cut of {at} at position {snap.pos}."
        if kind in {"missing", "already-out", "both-sides", "foreign"}:
            yield f"{at} {'lists' if element in self._stored else 'does not list'} it."
        match kind:
            case "foreign":
                source = self._view.marks_of(element.w) if isinstance(element, Mark) else None
                taken = source or (self._view.story(element.id, In) if isinstance(element, RecordOf) else [])
                own = any(e.a == snap.a and e.n < snap.n for e in taken)
                neither = f"By {at} attempt {snap.a} had neither taken it in nor restored it."
                yield sentence(say) if own else neither
            case "twice":
                places = [str(place) for place, one in enumerate(self._listed, start=1) if one == element]
                yield f"{at} lists it {len(places)} times, in places {', '.join(places)}."
            case "misordered":
                yield f"{at} stores in this order: {several(self._listed)}."
                yield sentence(say)
            case _:
                yield from self._left_by(element, kind)
        if kind == "torn" and isinstance(element, RecordOf):
            yield f"Not all outputs of record {shown(element.id)} had left by {at}."
        if kind == "both-sides":
            yield f"After a restore the source is read again from position {snap.pos}."

    def _entry(self, element: Element) -> In | Wm | None:
        """The event by which the element came in, if the anomaly cites it."""
        for n in self._witness(element):
            if isinstance(element, RecordOf):
                return self._view.case.entry(element.id, n)
            return next((mark for mark in self._view.all_marks(element.w) if mark.n == n), None)
        return None

    def _left_by(self, element: Element, kind: str) -> Iterator[str]:
        """Which outputs or watermarks had left the attempt before the snap."""
        a, at = self._snap.a, let(self._snap.n)
        emissions = self._view.subtask.attempts[a].emissions
        before = (emission for emission in emissions if emission.n < self._snap.n)
        if isinstance(element, RecordOf):
            own = [e.n for e in before if isinstance(e, Out) and e.id == element.id]
            none, which = f"no output of it had left attempt {a}", ""
        else:
            own = [e.n for e in before if isinstance(e, Owm) and e.w == element.w]
            none, which = f"no such watermark had left attempt {a}", " with its value"
        if own:
            yield f"Before {at}, {let_all(own[:_EVENTS_NAMED])} had left{which}."
            return
        yield f"By {at} {none}."
        coalesces = self._view.case.header.operator.coalesces_watermarks
        if which and coalesces and kind != "missing":
            yield "A later one had; since watermarks coalesce, it covers this one."

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


def _misread(case: IndexedHistory) -> Iterator[Anomaly]:
    """With `fixed_source`: each `in` and `wm` that differs from what was read of the source before."""
    attempts = (attempt for view in case.views for attempt in view.subtask.attempts.values())
    taken = (event for attempt in attempts for event in attempt.events if isinstance(event, In | Wm))
    at: dict[tuple[int, int], In | Wm] = {}
    of: dict[tuple[int | None, Id], In] = {}
    latest: dict[tuple[int, int], In | Wm] = {}
    for event in sorted(taken if case.header.fixed_source else (), key=attrgetter("n")):
        first, last = at.setdefault((event.s, event.pos), event), latest.get((event.s, event.a))
        latest[event.s, event.a] = event
        own: In | Wm = event
        if isinstance(event, In):  # a rescale hands records on, to other positions
            own = of.setdefault((event.s if case.rescalings else None, event.id), event)
        if _element_read(first) != _element_read(event):
            yield _misreading(
                event, first, f"position {event.pos} has {_element_read(first)}", kind="skipped"
            )
        elif (own.s, own.pos) != (event.s, event.pos):
            yield _misreading(event, own, f"that is at position {own.pos} of subtask {own.s}", kind="skipped")
        elif last is not None and event.pos != last.pos + 1:
            yield _misreading(event, last, f"position {last.pos + 1} comes next", kind="skipped")
        elif isinstance(event, In) and isinstance(own, In) and _differs(own, event):
            yield _misreading(
                event, own, "the record has another key, time or expected result", kind="altered"
            )


def _misreading(event: In | Wm, other: In | Wm, has: str, *, kind: str) -> Anomaly:
    read = f"attempt {event.a} of subtask {event.s} reads {_element_read(event)} at position {event.pos}"
    then = (
        f"{let(event.n)} reads {_element_read(event)} at position {event.pos}.",
        f"By {let(other.n)}, {has}.",
    )
    rule = "whoever reads a position of the source gets the element that it has there"
    return convict_of(kind, event, f"{read}; by event {other.n}, {has}", other.n, then=then, rule=rule)


def _element_read(event: In | Wm) -> str:
    return f"record {shown(event.id)}" if isinstance(event, In) else f"watermark {shown(event.w)}"


def _differs(first: In, now: In) -> bool:
    keys = (first.key is UNSET) != (now.key is UNSET) or not same(first.key, now.key)
    times = [None if event.ts is UNSET else event.ts for event in (first, now)]
    both_expect = first.expect is not UNSET and now.expect is not UNSET
    return keys or times[0] != times[1] or (both_expect and not same(first.expect, now.expect))


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
        rule = (
            "a checkpoint is completed only after every running subtask took its snap of it,"
            " and acknowledged it"
        )
        yield convict(
            "incomplete", view.s, (done.n,), say, partial(_lacking, view, done, say), rule, c=done.c
        )


def _lacking(view: SubtaskView, done: Done, say: str) -> Iterator[str]:
    begun = [start.n for start in view.starts if start.n < done.n]
    yield f"{let(begun[-1])} had started before {let(done.n)}, and had not ended."
    if any(snap.n < done.n for snap in view.checkpoints.snaps(done.c)):
        yield sentence(say)
    else:
        yield f"Subtask {view.s} took no snap of checkpoint {done.c} before {let(done.n)}."


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
    begun = f"{let(running.start.n)} had begun before {let(done.n)}"
    acknowledged = f"attempt {running.a} had acknowledged no snap of it"
    then = [
        f"{begun}, so attempt {ack.a} was superseded by then.",
        f"{let(ack.n)} is of the superseded attempt; {acknowledged}.",
    ]
    rule = "a checkpoint is completed only with acknowledgements of the newest attempts"
    return convict("stale-ack", ack.s, events, say, then, rule, c=done.c)


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
                    yield _both_ends(abort, end, say)
            done_of[end.c] = end
        else:
            if (done := done_of.get(end.c)) is not None:
                attempts = (attempt for view in case.views for attempt in view.subtask.attempts.values())
                snaps = (cut.snap for attempt in attempts for cut in attempt.cuts)
                if not any(snap.c == end.c and done.n < snap.n < end.n for snap in snaps):
                    say = f"checkpoint {end.c} is aborted after it was completed (event {done.n}), without a new snap"
                    yield _both_ends(done, end, say)
            abort_of[end.c] = end


def _both_ends(first: Done | Abort, second: Done | Abort, say: str) -> Anomaly:
    since = "the running subtasks" if isinstance(second, Done) else "any subtask"
    then = [
        f"{let(first.n)} was the end of checkpoint {first.c}.",
        f"{let(second.n)} is of the same number, without snaps of {since} in between.",
    ]
    rule = "a checkpoint is either completed or aborted, unless its number is used again for new snaps"
    events = (first.n, second.n)
    return convict("two-ends", None, events, say, then, rule, c=first.c)
