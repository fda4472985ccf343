"""The stream of a situation: what each subtask reads, position by position, and what should come of it.

Answers to a Flink source with exactly-once replay. Invariant: the same seed, subtask and position give the same
element again, watermarks included; what an id stands for never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import force_setattr

from harness.choices import Draw
from harness.history.values import END_OF_TIME
from harness.sim.situation import Checkpoints, Situation, Stream
from harness.workloads.lookups import Lookup
from reference_impl.elements import EndOfInput, QueueElement, Record, StreamElement, Watermark
from reference_impl.events import CheckpointBarrier

__all__ = ["SituationSource", "elements_of", "results_of"]

_EVENT_STEP_MS = 10
_DISORDER_MS = 50


def elements_of(situation: Situation, *, seed: int, subtask: int) -> list[QueueElement]:
    """All that the source of `subtask` gives, but for barriers."""
    stream, draw = situation.stream, Draw(seed, f"stream {subtask}")
    low, high = situation.lookups.latency_ms
    elements: list[QueueElement] = []
    mark = 0
    for index in range(stream.records):
        lookup = Lookup(
            id=index * stream.subtasks + subtask,
            key=draw.index(stream.keys),
            service_ms=draw.between(low, high),
        )
        timestamp = _timestamp(stream, index, draw)
        elements.append(Record(value=lookup, timestamp=timestamp, position=len(elements)))
        if stream.watermark_every and (index + 1) % stream.watermark_every == 0:
            mark = _next_mark(stream, mark, index, draw)
            elements.append(Watermark(timestamp=mark, position=len(elements)))
    if stream.final_watermark:
        elements.append(Watermark(timestamp=END_OF_TIME, position=len(elements)))
    return elements


def _timestamp(stream: Stream, index: int, draw: Draw) -> int | None:
    if stream.timestamps == "none" or (stream.timestamps == "some" and draw.chance(300)):
        return None
    return index * _EVENT_STEP_MS + draw.between(0, _DISORDER_MS)


def _next_mark(stream: Stream, last: int, index: int, draw: Draw) -> int:
    """Repeating: as the last one now and then. Falling: lower than the last now and then."""
    rising = (index + 1) * _EVENT_STEP_MS - 1
    if stream.watermarks == "repeating" and draw.chance(400):
        return last
    if stream.watermarks == "falling" and draw.chance(300):
        return max(0, last - draw.between(1, 25))
    return rising


def results_of(lookup: Lookup, *, stream: Stream) -> list[Any]:
    """What a lookup should give; no two records give the same. Without a width, one result each."""
    if stream.width_max == 1:
        return [f"{lookup.id}.0"]
    width = (lookup.id * 7 + lookup.key) % (stream.width_max + 1)
    return [f"{lookup.id}.{j}" for j in range(width)]


class SituationSource:
    """One attempt's source; a `Source`. With object reuse it has one `Lookup` for all."""

    def __init__(
        self, elements: Sequence[QueueElement], *, stream: Stream, checkpoints: Checkpoints, origin_ms: int
    ) -> None:
        self._elements = elements
        self._every_ms = stream.every_ms
        self._barrier_every = checkpoints.every if checkpoints.style == "barriers" else 0
        self._origin_ms = origin_ms
        self._shared = Lookup(id=-1, key=-1, service_ms=0) if stream.reuses_objects else None

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` behind the last."""
        if position >= len(self._elements):
            return EndOfInput()
        element = self._elements[position]
        if self._shared is None or not isinstance(element, Record):
            return element
        for name in ("id", "key", "service_ms"):  # behind everybody's back, as a deserializer does it
            force_setattr(self._shared, name, getattr(element.value, name))
        return Record(value=self._shared, timestamp=element.timestamp, position=position)

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """A barrier before every so-manieth position but the first."""
        if not self._barrier_every or position >= len(self._elements):
            return None
        number, rest = divmod(position, self._barrier_every)
        return CheckpointBarrier(checkpoint_id=number) if number and not rest else None

    def due_ms(self, position: int) -> int:
        """At the stream's pace; behind the last element at once."""
        return self._origin_ms + min(position, len(self._elements)) * self._every_ms
