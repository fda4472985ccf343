"""Coordination: what leaves the operator goes to the journal and the sink; a checkpoint is one commit.

Answers to Flink's subtask checkpoint coordinator, with the sink as its only participant. Invariant: journal
first, sink second, so that nothing can be visible that was not written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from harness.database.epoch import OpenEpoch, Sink, Visible
from harness.sut.dead_letter import DeadLetter
from harness.sut.enrichment import Enriched
from harness.sut.phases import Phases
from harness.sut.positions import named, saved
from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.task.positioned_input import Checkpoint

__all__ = ["Coordination", "JournalledSubtask", "TaskJournal"]


class TaskJournal(Protocol):
    """Where a task's doings are written: to a file at levels live and spark, to memory at sim."""

    def took_record(
        self, *, position: int, id: int, key: Any, ts: int | None, expect: Sequence[Any] | None
    ) -> None: ...
    def took_watermark(self, *, position: int, timestamp: int) -> None: ...
    def emits(self, *, id: int, j: int, value: Any, ts: int | None) -> None: ...
    def emits_watermark(self, timestamp: int) -> None: ...
    def snapped(self, *, checkpoint: int, position: int, elements: Sequence[dict[str, Any]]) -> None: ...
    def committing(self, checkpoint: int) -> None: ...
    def committed(self, checkpoint: int) -> None: ...
    def source_exhausted(self) -> None: ...
    def drained(self) -> None: ...


class JournalledSubtask:
    """What every coordination does: write down first, hand to the sink second; the operator's `emit`.

    `expect` says which results a lookup should give; None: not known.
    """

    is_complete_at_once: ClassVar[bool] = False
    """Whether a checkpoint is complete when `completes` returns."""
    cuts_at_end = True
    """Whether the task takes its last checkpoint itself, or waits to be asked for it."""

    def __init__(
        self,
        *,
        journal: TaskJournal,
        sink: OpenEpoch,
        phases: Phases,
        expect: Callable[[Any], Sequence[Any]] | None,
    ) -> None:
        self._journal = journal
        self._sink = sink
        self._phases = phases
        self._expect = expect

    def listens(self, notify: Callable[[int], None]) -> None:
        """`notify` sends the task the mail that a checkpoint is complete; nothing here needs it."""

    def takes(self, element: OperatorInput) -> None:
        """An element enters the operator."""
        if type(element) is Record:
            lookup, position = element.value, element.position
            assert position is not None, "a source numbers its elements"
            self._journal.took_record(
                position=position,
                id=lookup.id,
                key=lookup.key,
                ts=element.timestamp,
                expect=None if self._expect is None else self._expect(lookup),
            )
        elif type(element) is Watermark:
            assert element.position is not None, "a source numbers its elements"
            self._journal.took_watermark(position=element.position, timestamp=element.timestamp)
        else:
            raise _foreign(element)
        self._phases.reach("accept")

    def emit(self, element: OperatorInput) -> None:
        """An element leaves the operator."""
        if type(element) is Record:
            result = element.value
            if type(result) is Enriched:
                self._journal.emits(id=result.id, j=result.j, value=result.value, ts=element.timestamp)
                self._sink.add(Visible(id=result.id, j=result.j, value=result.value))
                self._phases.reach("emit")
            else:
                assert type(result) is DeadLetter, "every result knows its record"
                self._sink.write_dead_letter(
                    id=result.id, error=result.error
                )  # the journal has it since its last call failed
        elif type(element) is Watermark:
            self._journal.emits_watermark(element.timestamp)
            self._phases.reach("wm")
        else:
            raise _foreign(element)

    def snapped(self, checkpoint: Checkpoint) -> list[dict[str, Any]]:
        """Write down what the checkpoint holds; as it is to be stored."""
        self._phases.reach("snap.begin")
        half = len(checkpoint.elements) // 2
        elements = [saved(element) for element in checkpoint.elements[:half]]
        self._phases.reach("snap.mid")
        elements += [saved(element) for element in checkpoint.elements[half:]]
        names = named(elements)
        self._journal.snapped(checkpoint=checkpoint.number, position=checkpoint.position, elements=names)
        self._phases.reach("snap.end")
        return elements

    def source_exhausted(self) -> None:
        """No element is left to read."""
        self._journal.source_exhausted()
        self._phases.reach("drain")

    def finishing(self) -> None:
        """Everything has left; the next checkpoint is the last."""

    def declines(self, number: int) -> None:
        """The task takes no part in checkpoint `number`."""

    def completed(self, number: int) -> None:
        """Checkpoint `number` is complete."""

    def drained(self) -> None:
        """Everything has left and is committed."""
        self._journal.drained()
        self._phases.reach("close")


class Coordination(JournalledSubtask):
    """One attempt's, with an atomic sink; a `harness.engine.subtask.Coordination`."""

    is_complete_at_once: ClassVar[bool] = True
    _sink: Sink

    def __init__(self, *, sink: Sink, **parts: Any) -> None:
        super().__init__(sink=sink, **parts)

    def completes(self, checkpoint: Checkpoint) -> None:
        """Snapshot, outputs and epoch in one transaction; requests in flight are left alone."""
        elements = self.snapped(checkpoint)
        self._journal.committing(checkpoint.number)
        self._sink.commit(checkpoint.number, position=checkpoint.position, elements=elements)
        self._phases.reach("commit.post")
        self._journal.committed(checkpoint.number)


def _foreign(element: OperatorInput) -> AssertionError:
    return AssertionError(f"{element!r} has no place in a workload of lookups")
