"""The case: a traced history and the values that checkers derive from it, each computed once, on first use.

Invariant: nothing here judges. A `SubtaskView` depends on its own subtask and on the coordinator's events only,
so checkers can examine subtasks separately.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, TypeVar

from msgspec import UNSET

from harness.history.event import Call, Dead, Id, In, Out, Owm, Res, Rescale, Start, W, Wm
from harness.history.header import Header
from harness.history.stalls import Stalls
from harness.history.values import identity
from harness.judge.checkers.history_trace import AttemptTrace, Settled, SnapshotCut, SubtaskTrace, Trace
from harness.judge.checkers.inputs import (
    AttemptInput,
    Element,
    Inherited,
    Mark,
    SubtaskInput,
    elements_of,
    positions_of_emissions,
)
from harness.judge.checkers.outputs import (
    Chain,
    Checkpoints,
    Expectation,
    Shown,
    effective_output,
    outputs,
    outputs_by,
)
from harness.judge.checkers.tables import Tables

by_number = attrgetter("n")
_OfRecord = TypeVar("_OfRecord", In, Call, Res, Out, Dead)


class Furthest(NamedTuple):
    """How far the O* of a subtask reaches."""

    pos: float
    out: Out | None
    """The result whose record has the highest position; None: there is none."""
    mark: float
    """The position of the highest watermark."""
    owm: Owm | None
    """That watermark."""


class SubtaskView:
    """One subtask and the values derived from its events."""

    def __init__(self, subtask: SubtaskTrace, case: IndexedHistory) -> None:
        self.subtask = subtask
        self.case = case
        self.s = subtask.s
        self._stories: dict[Id, list[In | Call | Res | Out | Dead]] = {}
        """Of the records that were asked about."""

    @cached_property
    def source(self) -> SubtaskInput:
        """The records and watermarks that its source delivered."""
        rescalings = self.case.rescalings
        return SubtaskInput(self.subtask, inherited=rescalings.inherited(self) if rescalings else ())

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Its snapshots, and which of them were completed."""
        trace = self.case.trace
        return Checkpoints(self.subtask, sink=self.case.header.sink, dones=trace.dones, retires=trace.retires)

    @cached_property
    def chain(self) -> Chain:
        """The attempts that led to its final state, linked by the snapshots that were restored."""
        return Chain(self.subtask, self.checkpoints, until=self.case.rescalings.cut(self))

    @cached_property
    def output(self) -> list[Shown]:
        """The effective output O*: what a reader of the sink sees."""
        return effective_output(
            self.subtask, sink=self.case.header.sink, checkpoints=self.checkpoints, chain=self.chain
        )

    @cached_property
    def output_marks(self) -> list[int | None]:
        """For each entry of O* the input position of its watermark; None for a record or a surplus watermark."""
        return positions_of_emissions((shown.emission for shown in self.output), self.source.positions_of)

    @cached_property
    def furthest(self) -> Furthest:
        """The result and the watermark of O* that stand furthest in its input."""
        pos, j, out, mark, owm = -math.inf, 0, None, -math.inf, None
        for shown, of_mark in zip(self.output, self.output_marks, strict=True):
            emission = shown.emission
            if isinstance(emission, Owm):
                if of_mark is not None and of_mark > mark:
                    mark, owm = of_mark, emission
            elif (at := self.source.position(emission.id)) is not None and (at, emission.j) > (pos, j):
                pos, j, out = at, emission.j, emission
        return Furthest(pos, out, mark, owm)

    @cached_property
    def furthest_of_key(self) -> dict[Hashable, tuple[int, Out]]:
        """For each key the result of O* whose record stands furthest in its input."""
        found: dict[Hashable, tuple[int, Out]] = {}
        for _, out in outputs(self.output):
            taken = self.source.records.get(out.id)
            if taken is None or taken.key is UNSET:
                continue
            pos, _ = found.setdefault(identity(taken.key), (taken.pos, out))
            if taken.pos > pos:
                found[identity(taken.key)] = (taken.pos, out)
        return found

    @cached_property
    def expected(self) -> ExpectedOutputs:
        """What each record must yield; with rescales over all subtasks together."""
        return self.case.joint_outputs if self.case.rescalings else ExpectedOutputs([self])

    @cached_property
    def inputs(self) -> dict[int, AttemptInput]:
        """The input of each attempt, by attempt number."""
        return {a: AttemptInput(attempt, self.source) for a, attempt in self.subtask.attempts.items()}

    @property
    def starts(self) -> list[Start]:
        """The begin of each of its attempts, in order."""
        starts = [attempt.start for attempt in self.subtask.attempts.values() if attempt.start is not None]
        return sorted(starts, key=by_number)

    def story(self, record: Id, *kinds: type[_OfRecord]) -> list[_OfRecord]:
        """The events of these kinds about a record, in order; the first time it reads the events of all attempts."""
        if record not in self._stories:
            events = (e for attempt in self.subtask.attempts.values() for e in attempt.events)
            about = (e for e in events if isinstance(e, In | Call | Res | Out | Dead) and e.id == record)
            self._stories[record] = sorted(about, key=by_number)
        return [event for event in self._stories[record] if isinstance(event, kinds)]

    def taken(self, record: Id) -> In | None:
        """The event by which it first took a record in."""
        return next(iter(self.story(record, In)), None)

    def outcomes(self, record: Id, a: int | None = None) -> list[Res | Dead]:
        """The final outcomes of a record, in attempt `a` or in all."""
        found: list[Res | Dead] = [*self.story(record, Res), *self.story(record, Dead)]
        final = (e for e in found if (isinstance(e, Dead) or e.final) and a in {None, e.a})
        return sorted(final, key=by_number)

    def marks_of(self, w: W) -> list[Wm]:
        """The first `wm` of a watermark at each of its positions, in the order of the history."""
        found: dict[int, Wm] = {}
        for mark in self.all_marks(w):
            found.setdefault(mark.pos, mark)
        return list(found.values())

    def all_marks(self, w: W) -> list[Wm]:
        """Each `wm` of a watermark, in order."""
        events = (e for attempt in self.subtask.attempts.values() for e in attempt.events)
        return sorted((e for e in events if isinstance(e, Wm) and e.w == w), key=by_number)


class Origin(NamedTuple):
    """A subtask that held a record before a rescale, and the record's position there."""

    view: SubtaskView
    pos: int


class Rescalings:
    """The rescales of one case."""

    def __init__(self, trace: Trace, views: Mapping[int, SubtaskView]) -> None:
        self._views = views
        self.ended: dict[int, Rescale] = {}
        """For each subtask the rescale that ended it."""
        self.begun: dict[int, Rescale] = {}
        """For each subtask the rescale that began it."""
        self._generations: dict[int, int] = {}
        for rescale in trace.rescales:
            generation = 1 + max((self._generations.get(s, 0) for s in rescale.of), default=0)
            self.ended.update({s: rescale for s in rescale.of if s not in self.ended})
            self.begun.update({s: rescale for s in rescale.to if s not in self.begun})
            self._generations.update(dict.fromkeys(rescale.to, generation))

    def __bool__(self) -> bool:
        return bool(self.ended)

    def place(self, s: int) -> tuple[int, int]:
        """Orders subtasks so that each comes after those whose work it took over."""
        return self._generations.get(s, 0), s

    def running(self, rescale: Rescale) -> Iterator[SubtaskView]:
        """The subtasks that it ended before they had ended themselves."""
        for s in rescale.of:
            view = self._views.get(s)
            if view is not None and not self.had_ended(view):
                yield view

    def had_ended(self, view: SubtaskView) -> bool:
        """Whether the subtask's last attempt had drained, when a rescale or the history ended it."""
        last, rescale = view.subtask.last, self.ended.get(view.s)
        if last is None or last.ended is None:
            return False
        return rescale is None or last.ended < rescale.n

    def ended_by(self, view: SubtaskView) -> Rescale | None:
        """The rescale that ended the subtask while it was running."""
        rescale = self.ended.get(view.s)
        return None if rescale is None or self.had_ended(view) else rescale

    def cut(self, view: SubtaskView) -> SnapshotCut | None:
        """The snap at which a rescale ended the subtask."""
        rescale = self.ended_by(view)
        return None if rescale is None else view.checkpoints.cut_before(rescale.c, rescale.n)

    def inherits(self, view: SubtaskView, attempt: AttemptTrace) -> Rescale | None:
        """The rescale whose share of the subtask the attempt starts from; None: it starts from something else."""
        rescale, start = self.begun.get(view.s), attempt.start
        if rescale is None or start is None or start.from_ != rescale.c:
            return None
        return None if view.checkpoints.cut_restored(attempt) is not None else rescale

    def share(self, view: SubtaskView) -> list[Element] | None:
        """What the subtask got at the rescale that began it; None: no attempt has restored it."""
        for _, attempt in sorted(view.subtask.attempts.items()):
            if attempt.restore is not None and self.inherits(view, attempt) is not None:
                return list(elements_of(attempt.restore.elements))
        return None

    def inherited(self, view: SubtaskView) -> Iterator[Inherited]:
        """The elements of its share, each with what the source once delivered."""
        rescale = self.begun.get(view.s)
        if rescale is None:
            return
        for place, element in enumerate(self.share(view) or ()):
            if isinstance(element, Mark):
                yield Inherited(element.pos, element, None, rescale.n)
            else:
                origin = self._origin(rescale, element.id)
                taken = None if origin is None else origin.view.source.records[element.id]
                yield Inherited(place, element, taken, rescale.n)

    def origins(self, view: SubtaskView, record: Id) -> Iterator[Origin]:
        """The subtasks that held an inherited record before, the latest first."""
        while record in view.source.inherited:
            origin = self._origin(self.begun[view.s], record)
            if origin is None:
                return
            yield origin
            view = origin.view

    def _origin(self, rescale: Rescale, record: Id) -> Origin | None:
        for s in sorted(rescale.of, key=self.place, reverse=True):
            view = self._views.get(s)
            if view is not None and (taken := view.source.records.get(record)) is not None:
                return Origin(view, taken.pos)
        return None


class ExpectedOutputs:
    """The expectation of each record over all subtasks that held it, computed on first use."""

    def __init__(self, views: Sequence[SubtaskView]) -> None:
        """`views` in the order of `Rescalings.place`."""
        self._views = views
        self._first: dict[Id, Out] = {}
        self._standing: dict[Id, Settled] = {}
        for view in views:
            for _, out in outputs(view.output):
                self._first.setdefault(out.id, out)
            for attempt, _ in view.chain.links:
                for record, outcome in attempt.outcomes.items():
                    known = self._standing.get(record)
                    later = known is None or outcome.n > known.n
                    if later and view.chain.holds(attempt.a, outcome.n):
                        self._standing[record] = outcome
        self._by_s = {view.s: view for view in views}
        self._known: dict[Id, Expectation] = {}

    def of(self, record: Id) -> Expectation:
        if record not in self._known:
            holders = (view.source.expect(record) for view in reversed(self._views))
            expect = next((known for known in holders if known is not UNSET), UNSET)
            first = self._first.get(record)
            if first is None:
                outcome = self._standing.get(record)
            else:
                outcome = self._by_s[first.s].subtask.attempts[first.a].outcomes.get(record)
            self._known[record] = Expectation(outputs_by(outcome, expect), outcome, first is not None)
        return self._known[record]


class IndexedHistory:
    """A whole history with one view for each subtask."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.header: Header = trace.header
        views = {s: SubtaskView(trace.subtasks[s], self) for s in sorted(trace.subtasks)}
        self.rescalings = Rescalings(trace, views)
        self.views = sorted(views.values(), key=lambda view: self.rescalings.place(view.s))
        """Each after those whose work it took over."""

    @cached_property
    def finished(self) -> bool:
        """Whether there is a subtask, and the last attempt of every subtask has `ended`, or a rescale ended it."""
        if not self.rescalings:
            last = [view.subtask.last for view in self.views]
            attempts = [attempt for attempt in last if attempt is not None]
            return bool(attempts) and all(attempt.ended is not None for attempt in attempts)
        seen = {view.s: view.subtask.last for view in self.views if view.subtask.last is not None}
        due = [s for s in {**seen, **self.rescalings.begun} if s not in self.rescalings.ended]
        attempts_due = (seen.get(s) for s in due)
        return all(attempt is not None and attempt.ended is not None for attempt in attempts_due)

    def views_of(self, s: int) -> list[SubtaskView]:
        """The view of subtask `s`; none if no event is of that subtask."""
        return [view for view in self.views if view.s == s]

    @cached_property
    def joint_outputs(self) -> ExpectedOutputs:
        """What each record must yield, over all subtasks that held it."""
        return ExpectedOutputs(self.views)

    @cached_property
    def owner(self) -> dict[Id, SubtaskView]:
        """For each accepted record the subtask that took it in; with rescales the last one that held it."""
        return {record: view for view in self.views for record in view.source.records}

    def taken(self, record: Id) -> In | None:
        """The event by which any subtask first took a record in."""
        entries = (view.taken(record) for view in self.views)
        return min(filter(None, entries), key=by_number, default=None)

    def entry(self, record: Id, n: int) -> In | None:
        """Event `n`, if by it some subtask took the record in."""
        return next((e for view in self.views for e in view.story(record, In) if e.n == n), None)

    def subtask_of(self, record: Id) -> int | None:
        """The number of the subtask that took a record in; None if none did."""
        view = self.owner.get(record)
        return None if view is None else view.s

    @cached_property
    def without_values(self) -> bool:
        """Whether the header says where `expect` comes from, and no accepted record has one: V8 is without values."""
        if self.header.expect_from is None:
            return False
        records = [taken for view in self.views for taken in view.source.records.values()]
        unknown = all(taken.expect is UNSET for taken in records)
        return self.header.expect_from == "none" or (bool(records) and unknown)

    @cached_property
    def tables(self) -> Tables:
        """The tables that were read after the run."""
        return Tables(self.trace)

    @cached_property
    def stalls(self) -> Stalls:
        """The times at which a fault stalled the operator."""
        return Stalls(self.trace.faults)

    @cached_property
    def took_anything(self) -> bool:
        """Whether any record or watermark was taken in."""
        return any(view.source.records or view.source.watermarks for view in self.views)

    @cached_property
    def watermarks_seen(self) -> bool:
        """Whether any watermark was taken in or emitted."""
        if any(view.source.watermarks for view in self.views):
            return True
        attempts = (attempt for view in self.views for attempt in view.subtask.attempts.values())
        return any(isinstance(emission, Owm) for attempt in attempts for emission in attempt.emissions)
