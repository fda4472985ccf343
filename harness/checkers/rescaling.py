"""Rescales: which subtasks follow which, what each inherits, and what is judged over all of them together.

Implements "Rescaling" of `docs/reference/history.md`; answers to Flink's `StateAssignmentOperation`. Invariant: without
a `rescale` nothing here changes a verdict. A subtask that a rescale begins has a share: the elements that its first
attempt restores, at the positions 0, 1, 2, ... of its source. Memory grows with the shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from harness.checkers.history_trace import AttemptTrace, Settled, SnapshotCut, Trace
from harness.checkers.inputs import Element, Inherited, Mark, elements_of
from harness.checkers.outputs import Expectation, outputs, outputs_by
from harness.history.event import Id, Out, Rescale

if TYPE_CHECKING:
    from harness.checkers.case import SubtaskView

__all__ = ["JointOutputs", "Origin", "Rescalings"]


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


class JointOutputs:
    """The expectation of each record over all subtasks that held it."""

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
            self._known[record] = self._decide(record)
        return self._known[record]

    def _decide(self, record: Id) -> Expectation:
        holders = (view.source.expect(record) for view in reversed(self._views))
        expect = next((known for known in holders if known is not UNSET), UNSET)
        first = self._first.get(record)
        if first is None:
            outcome = self._standing.get(record)
        else:
            outcome = self._by_s[first.s].subtask.attempts[first.a].outcomes.get(record)
        unsettled = None if expect is UNSET else expect
        wanted = unsettled if outcome is None else outputs_by(outcome, expect)
        return Expectation(wanted, outcome, first is not None)
