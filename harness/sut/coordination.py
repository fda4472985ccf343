"""Coordination: passes the operator's output to the journal and the sink; a checkpoint is one commit.

Answers to Flink's subtask checkpoint coordinator, with the sink as its only participant. Invariant: an output or a
dead letter is written to the journal before the sink, so nothing can become visible that is not in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import UNSET

from harness.database.epoch import OpenEpoch, Sink, Visible
from harness.history.event import Dead, End, Ended, In, Out, Owm, Snap, Wm
from harness.history.journal import Journal
from harness.history.values import told_watermark
from harness.scenario.workloads.partitions import RecordPlace
from harness.scenario.workloads.shape import Lookup, told_key
from harness.sut.function_under_test import DeadLetter, Enriched
from harness.sut.phases import Phases
from harness.sut.positions import named, saved
from harness.system.json_types import Json
from reference_impl.elements import LatencyMarker, OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.task.input_processor import Checkpoint


class LatencyMarkerHeld(Exception):
    """A latency marker waits where elements wait, which it should overtake (A54).

    No history has an event for latency markers, so this fails the attempt, which nothing explains (V24).
    """


class StoppedForRescale(Exception):
    """The subtask stops at a complete checkpoint; others go on from it."""

    def __init__(self, checkpoint: int) -> None:
        super().__init__(f"stopped at checkpoint {checkpoint}, for a rescale")
        self.checkpoint = checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLog:
    """Where a coordination tells what happens in its attempt, and what should."""

    journal: Journal
    phases: Phases
    expect: Callable[[Lookup], Sequence[object] | None] | None = None
    """The expected results of a lookup; None: not known."""


class JournalledSubtask:
    """The common part of all coordinations: journals input, output and snapshots, and passes output to the sink."""

    is_complete_at_once: ClassVar[bool] = False
    """Whether a checkpoint is complete when `completes` returns."""
    cuts_at_end = True
    """Whether the task triggers its last checkpoint itself, or waits until it is triggered."""

    def __init__(self, log: AttemptLog, *, sink: OpenEpoch) -> None:
        self._journal = log.journal
        self._sink = sink
        self._phases = log.phases
        self._expect = log.expect
        self._stops_at: int | None = None
        self._places: Mapping[int, RecordPlace] = {}
        self._has_all = False
        """Whether all data has been emitted."""
        self._dead: dict[int, None] = {}
        """The records whose dead letter has left in this attempt."""
        self._marker: LatencyMarker | None = None
        """The latency marker that has entered and not left."""

    def rescales(self, *, stops_at: int | None, places: Mapping[int, RecordPlace], restored: int) -> None:
        """In a run that rescales. `stops_at`: the checkpoint at which the subtask stops; None: it does not.

        `places`: by id, where the source's records stand. Raises `StoppedForRescale` if checkpoint `restored` is there.
        """
        self._stops_at, self._places = stops_at, places
        self._stop_at(restored)

    def _stop_at(self, checkpoint: int, *, is_last: bool = False) -> None:
        """Raises `StoppedForRescale` if the subtask stops at `checkpoint`; `is_last`: it ends with it anyway."""
        if self._stops_at is not None and checkpoint >= self._stops_at and not is_last:
            raise StoppedForRescale(checkpoint)

    def listens(self, notify: Callable[[int], None]) -> None:
        """Sets the function that notifies the task of completed checkpoints; not needed here."""

    def takes(self, element: OperatorInput) -> None:
        """Called when an element enters the operator. Raises `LatencyMarkerHeld` if a marker before it has not left."""
        if self._marker is not None:
            message = f"latency marker {self._marker.id} has not left the task, and the next element comes"
            raise LatencyMarkerHeld(message)
        if type(element) is Record:
            lookup, position = element.value, element.position
            assert position is not None, "a source numbers its elements"
            place = self._places.get(lookup.id)
            expect = None if self._expect is None else self._expect(lookup)
            self._journal.event(
                In,
                pos=position,
                id=lookup.id,
                key=told_key(lookup.key),
                ts=element.timestamp,
                expect=UNSET if expect is None else expect,
                **({} if place is None else {"part": place.part, "at": place.at}),
            )
        elif type(element) is Watermark:
            assert element.position is not None, "a source numbers its elements"
            self._journal.event(Wm, pos=element.position, w=told_watermark(element.timestamp))
        elif type(element) is LatencyMarker:
            self._marker = element
            return  # no history has an event for it
        else:
            raise _foreign(element)
        self._phases.reach("accept")

    def emit(self, element: OperatorInput) -> None:
        """Called when an element leaves the operator. Raises `LatencyMarkerHeld` if a marker should be out by then."""
        if self._marker is not None and type(element) is not LatencyMarker:
            what = f"a result of record {element.value.id}" if type(element) is Record else f"{element}"
            message = f"latency marker {self._marker.id} waits, and {what} leaves before it"
            raise LatencyMarkerHeld(message)
        if type(element) is Record:
            result = element.value
            if type(result) is Enriched:
                self._journal.event(Out, id=result.id, j=result.j, v=result.value, ts=element.timestamp)
                self._sink.add(Visible(id=result.id, j=result.j, value=result.value))
                self._phases.reach("emit")
            else:
                assert type(result) is DeadLetter, "every result knows its record"
                # A record leaves the operator's queue with its letter, so no later snapshot of this attempt holds it.
                # Only its first letter is journalled, so the table shows an operator that emits it twice (V20).
                if result.id not in self._dead:
                    self._dead[result.id] = None
                    self._journal.event(Dead, id=result.id)
                self._sink.write_dead_letter(id=result.id, error=result.error)
        elif type(element) is Watermark:
            self._journal.event(Owm, w=told_watermark(element.timestamp))
            self._phases.reach("wm")
        elif type(element) is WatermarkStatus:
            pass  # no history has an event for it; what it changes shows in the watermarks and sessions
        elif type(element) is LatencyMarker:
            assert element == self._marker, f"{element} leaves, and {self._marker} has entered"
            self._marker = None
        else:
            raise _foreign(element)

    def snapped(self, checkpoint: Checkpoint) -> list[Json]:
        """Journals the content of the checkpoint and returns its elements in stored form."""
        self._phases.reach("snap.begin")
        half = len(checkpoint.elements) // 2
        elements = [saved(element) for element in checkpoint.elements[:half]]
        self._phases.reach("snap.mid")
        elements += [saved(element) for element in checkpoint.elements[half:]]
        names = named(elements)
        self._journal.event(Snap, c=checkpoint.number, pos=checkpoint.position, elements=names)
        self._phases.reach("snap.end")
        return elements

    def source_exhausted(self) -> None:
        """The source has no more elements."""
        self._journal.event(End)
        self._phases.reach("drain")

    def finishing(self) -> None:
        """All data has been emitted; the next checkpoint is the last."""
        self._has_all = True

    def declines(self, number: int) -> None:
        """The task declines checkpoint `number`."""

    def completed(self, number: int) -> None:
        """Checkpoint `number` is complete."""

    def drained(self) -> None:
        """All data has been emitted and committed."""
        self._journal.event(Ended)
        self._phases.reach("close")


class AtomicCoordination(JournalledSubtask):
    """The coordination of one attempt with an atomic sink; a `harness.engine.subtask.Coordination`."""

    is_complete_at_once: ClassVar[bool] = True
    _sink: Sink

    def completes(self, checkpoint: Checkpoint) -> None:
        """Commits snapshot, outputs and epoch in one transaction; calls in flight are not affected."""
        elements = self.snapped(checkpoint)
        self._journal.committing(checkpoint.number)
        self._sink.commit(checkpoint.number, position=checkpoint.position, elements=elements)
        self._phases.reach("commit.post")
        self._journal.committed(checkpoint.number)
        self._stop_at(checkpoint.number, is_last=self._has_all)


def _foreign(element: OperatorInput) -> AssertionError:
    return AssertionError(f"{element!r} has no place in a workload of lookups")
