"""Coordination: what leaves the operator goes to the journal and the sink; a checkpoint is one commit.

Answers to Flink's subtask checkpoint coordinator, with the sink as its only participant. Invariant: journal
first, sink second, so that nothing can be visible that was not written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.database.sink import EpochSink, Visible
from harness.history.journal import Journal
from harness.sut.crash import Crashes
from harness.sut.enrichment import Enriched
from harness.sut.positions import named, saved
from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.task import Checkpoint

__all__ = ["Coordination"]


class Coordination:
    """One attempt's; a `reference_impl.task.Coordinator`, and the operator's `emit`.

    `answers` maps a key to the value that a lookup of it should give; None: not known.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        sink: EpochSink,
        crashes: Crashes,
        answers: Mapping[int, Any] | None,
    ) -> None:
        self._journal = journal
        self._sink = sink
        self._crashes = crashes
        self._answers = answers

    def takes(self, element: OperatorInput) -> None:
        """An element enters the operator."""
        match element:
            case Record(value=lookup, timestamp=ts, position=int(position)):
                expect = None if self._answers is None else [self._answers[lookup.key]]
                self._journal.took_record(
                    position=position, id=lookup.id, key=lookup.key, ts=ts, expect=expect
                )
            case Watermark(timestamp=timestamp, position=int(position)):
                self._journal.took_watermark(position=position, timestamp=timestamp)
            case _:
                raise _foreign(element)

    def emit(self, element: OperatorInput) -> None:
        """An element leaves the operator."""
        match element:
            case Record(value=Enriched(id=id_, j=j, value=value), timestamp=ts):
                self._journal.emits(id=id_, j=j, value=value, ts=ts)
                self._sink.add(Visible(id=id_, j=j, value=value))
            case Watermark(timestamp=timestamp):
                self._journal.emits_watermark(timestamp)
            case _:
                raise _foreign(element)

    def completes(self, checkpoint: Checkpoint) -> None:
        """Snapshot, outputs and epoch in one transaction; requests in flight are left alone."""
        elements = [saved(element) for element in checkpoint.elements]
        names = [named(element) for element in elements]
        self._journal.snapped(checkpoint=checkpoint.number, position=checkpoint.position, elements=names)
        self._crashes.reach("snapshot-taken")
        self._journal.committing(checkpoint.number)
        self._sink.commit(checkpoint.number, position=checkpoint.position, elements=elements)
        self._crashes.reach("committed")
        self._journal.committed(checkpoint.number)

    def source_exhausted(self) -> None:
        """No element is left to read."""
        self._journal.source_exhausted()

    def drained(self) -> None:
        """Everything has left and is committed."""
        self._journal.drained()


def _foreign(element: OperatorInput) -> AssertionError:
    return AssertionError(f"{element!r} has no place in a workload of lookups")
