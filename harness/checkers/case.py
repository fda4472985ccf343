"""The case: a traced history and the values that checkers derive from it, each computed once, on first use.

Invariant: nothing here judges. A `SubtaskView` depends on its own subtask and on the coordinator's events only,
so checkers can examine subtasks separately.
"""

from __future__ import annotations

from functools import cached_property

from msgspec import UNSET

from harness.checkers.history_trace import SubtaskTrace, Trace
from harness.checkers.inputs import AttemptInput, SubtaskInput, positions_of_emissions
from harness.checkers.outputs import Chain, Checkpoints, ExpectedOutputs, Shown, effective_output
from harness.checkers.tables import Tables
from harness.history.event import Id, Owm
from harness.history.header import Header
from harness.history.stalls import Stalls

__all__ = ["Case", "SubtaskView"]


class SubtaskView:
    """One subtask and the values derived from its events."""

    def __init__(self, subtask: SubtaskTrace, case: Case) -> None:
        self.subtask = subtask
        self.case = case
        self.s = subtask.s

    @cached_property
    def source(self) -> SubtaskInput:
        """The records and watermarks that its source delivered."""
        return SubtaskInput(self.subtask)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Its snapshots, and which of them were completed."""
        trace = self.case.trace
        return Checkpoints(self.subtask, sink=self.case.header.sink, dones=trace.dones, retires=trace.retires)

    @cached_property
    def chain(self) -> Chain:
        """The attempts that led to its final state, linked by the snapshots that were restored."""
        return Chain(self.subtask, self.checkpoints)

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
    def expected(self) -> ExpectedOutputs:
        """What each record must yield."""
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
        self.views = [SubtaskView(trace.subtasks[s], self) for s in sorted(trace.subtasks)]

    @cached_property
    def finished(self) -> bool:
        """Whether there is a subtask, and the last attempt of every subtask has an `ended` event."""
        last = [view.subtask.last for view in self.views]
        attempts = [attempt for attempt in last if attempt is not None]
        return bool(attempts) and all(attempt.ended is not None for attempt in attempts)

    @cached_property
    def owner(self) -> dict[Id, SubtaskView]:
        """For each accepted record the subtask that took it in."""
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
