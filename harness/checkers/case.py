"""The case: a traced history and the values that checkers derive from it, each computed once, on first use.

Invariant: nothing here judges. A `SubtaskView` depends on its own subtask and on the coordinator's events only,
so checkers can examine subtasks separately.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import cached_property
from typing import NamedTuple

from msgspec import UNSET

from harness.checkers.history_trace import SubtaskTrace, Trace
from harness.checkers.inputs import AttemptInput, SubtaskInput, positions_of_emissions
from harness.checkers.outputs import Chain, Checkpoints, ExpectedOutputs, Shown, effective_output, outputs
from harness.checkers.rescaling import JointOutputs, Rescalings
from harness.checkers.tables import Tables
from harness.history.event import Id, Out, Owm
from harness.history.header import Header
from harness.history.stalls import Stalls
from harness.history.values import identity

__all__ = ["Case", "SubtaskView"]


class Furthest(NamedTuple):
    """How far the O* of a subtask reaches."""

    pos: float
    out: Out | None
    """The result whose record has the highest position; None: there is none."""
    mark: float
    """The position of the highest watermark."""
    mark_n: int


class SubtaskView:
    """One subtask and the values derived from its events."""

    def __init__(self, subtask: SubtaskTrace, case: Case) -> None:
        self.subtask = subtask
        self.case = case
        self.s = subtask.s

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
        pos, j, out, mark, mark_n = -math.inf, 0, None, -math.inf, 0
        for shown, of_mark in zip(self.output, self.output_marks, strict=True):
            emission = shown.emission
            if isinstance(emission, Owm):
                if of_mark is not None and of_mark > mark:
                    mark, mark_n = of_mark, emission.n
            elif (at := self.source.position(emission.id)) is not None and (at, emission.j) > (pos, j):
                pos, j, out = at, emission.j, emission
        return Furthest(pos, out, mark, mark_n)

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
    def expected(self) -> ExpectedOutputs | JointOutputs:
        """What each record must yield; with rescales over all subtasks together."""
        if self.case.rescalings:
            return self.case.joint_outputs
        return ExpectedOutputs(self.subtask, source=self.source, output=self.output, chain=self.chain)

    @cached_property
    def inputs(self) -> dict[int, AttemptInput]:
        """The input of each attempt, by attempt number."""
        return {a: AttemptInput(attempt, self.source) for a, attempt in self.subtask.attempts.items()}


class Case:
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

    @cached_property
    def joint_outputs(self) -> JointOutputs:
        """What each record must yield, over all subtasks that held it."""
        return JointOutputs(self.views)

    @cached_property
    def owner(self) -> dict[Id, SubtaskView]:
        """For each accepted record the subtask that took it in; with rescales the last one that held it."""
        return {record: view for view in self.views for record in view.source.records}

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
        return any(view.source.watermarks or _emits_a_watermark(view.subtask) for view in self.views)


def _emits_a_watermark(subtask: SubtaskTrace) -> bool:
    emissions = (e for attempt in subtask.attempts.values() for e in attempt.emissions)
    return any(isinstance(emission, Owm) for emission in emissions)
