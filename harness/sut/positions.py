"""Positions: the workload as a source of the task, and the stored form of a snapshot's elements.

Invariants: `restored` reads what `saved` wrote as an equal element; barriers have fixed positions, so every attempt has
the same checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from harness.history.values import told_watermark
from harness.scenario.workloads.lookups import LookupSource
from harness.scenario.workloads.shape import Lookup, MarkOfTime, OwnLookup, StampedLookup, key_of
from harness.sut.phases import Phases
from harness.system.clock import monotonic_us
from harness.system.json_types import Json
from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import (
    EndOfInput,
    LatencyMarker,
    QueueElement,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
)


class SubtaskSource:
    """The source of one subtask, paced by its rate since `origin_ms`; a `positioned_input.Source`."""

    def __init__(
        self,
        elements: LookupSource,
        *,
        checkpoint_every: int | None,
        origin_ms: int,
        reuses_objects: bool = False,
        first: int = 0,
        after: int = 0,
    ) -> None:
        """`checkpoint_every`: None: no barriers; `reuses_objects`: reads each record into the same object.

        `first`: the first position to read; `after`: the checkpoint whose barrier stood in front of it.
        """
        self._first, self._after = first, after
        self._elements = elements
        self._checkpoint_every = checkpoint_every
        self._origin_ms = origin_ms
        self._shared = Lookup(id=-1, key=-1, service_ms=0) if reuses_objects else None

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` after the last one."""
        if position >= len(self._elements):
            return EndOfInput()
        match self._elements[position]:
            case MarkOfTime(timestamp=timestamp):
                return Watermark(timestamp=timestamp, position=position)
            case (lookup, timestamp):
                value = lookup
                if self._shared is not None:  # as a Flink deserializer does with object reuse (FLINK-12351)
                    value = self._shared
                    for name in ("id", "key", "service_ms", "row_bytes"):
                        force_setattr(value, name, getattr(lookup, name))
                return Record(value=value, timestamp=timestamp, position=position)

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The barrier before every `checkpoint_every`-th position except the first; None: no barrier here."""
        if self._checkpoint_every is None:
            return None
        passed = position - self._first
        number = passed // self._checkpoint_every
        if not number or passed % self._checkpoint_every or position >= len(self._elements):
            return None
        return CheckpointBarrier(checkpoint_id=self._after + number)

    def due_ms(self, position: int) -> int:
        """When `position` is due, on the monotonic clock; after the last element immediately."""
        return self._origin_ms + self._elements.due_ms(min(position, len(self._elements)))


class TaskState(Struct, frozen=True, kw_only=True):
    """The state of the keyed operator, stored in front of a snapshot's elements."""

    text: str


class HeldUpstream(Struct, frozen=True, kw_only=True):
    """An element that the operator in front of the lookups holds; stored behind their elements."""

    element: QueueElement


class ChannelState(Struct, frozen=True, kw_only=True):
    """What unaligned barriers have overtaken; stored behind the state of the keyed operator."""

    until: int
    """What has arrived ends before this position of the source."""
    elements: tuple[tuple[int, QueueElement | LatencyMarker], ...]
    """Each with the number of its input."""


Stored = QueueElement | TaskState | ChannelState | HeldUpstream


def saved(element: Stored | LatencyMarker) -> Json:
    """The stored form of `element`."""
    match element:
        case ChannelState(until=until, elements=elements):
            return {"until": until, "channels": [[number, saved(one)] for number, one in elements]}
        case HeldUpstream(element=held):
            return {"upstream": saved(held)}
        case TaskState(text=text):
            return {"state": text}
        case Record(value=Lookup() as lookup, timestamp=ts, position=position):
            return {"lookup": lookup.as_json(), "ts": ts, "pos": position}
        case Watermark(timestamp=timestamp, position=position):
            return {"w": timestamp, "pos": position}
        case WatermarkStatus(idle=idle, position=position):
            return {"idle": idle, "pos": position}
        case LatencyMarker(id=number):
            return {"marker": number}
    message = f"cannot save {element!r}"
    raise TypeError(message)


def restored(element: Json) -> Stored:
    """Reads the stored form that `saved` wrote."""
    if "channels" in element:
        held = tuple(
            (number, LatencyMarker(id=one["marker"]) if "marker" in one else _queued(one))
            for number, one in element["channels"]
        )
        return ChannelState(until=element["until"], elements=held)
    if "upstream" in element:
        return HeldUpstream(element=_queued(element["upstream"]))
    if "state" in element:
        return TaskState(text=element["state"])
    return _queued(element)


def _queued(element: Json) -> QueueElement:
    if "w" in element:
        return Watermark(timestamp=element["w"], position=element["pos"])
    if "idle" in element:
        return WatermarkStatus(idle=element["idle"], position=element["pos"])
    lookup = {**element["lookup"], "key": key_of(element["lookup"]["key"])}
    kind = StampedLookup if "stamp" in lookup else OwnLookup if "fields" in lookup else Lookup
    value = kind(**lookup)
    return Record(value=value, timestamp=element["ts"], position=element["pos"])


def named(elements: Iterable[Json]) -> list[Json]:
    """Saved elements in the form of a history's `snap` event (`docs/reference/history.md`): of the lookups alone.

    Without keyed state and statuses of watermarks, for which the form has no place.
    """
    return [
        {"w": told_watermark(element["w"]), "pos": element["pos"]}
        if "w" in element
        else {"id": element["lookup"]["id"]}
        for element in elements
        if element.keys().isdisjoint(("state", "channels", "upstream", "idle"))
    ]


class WatchedSource:
    """A `Source` that performs acts of faults before it reads given positions. Mutable."""

    def __init__(self, source: SubtaskSource | SilentSource, acts: dict[int, Callable[[], None]]) -> None:
        self._source = source
        self._acts = acts
        self.barrier_before = source.barrier_before
        self.due_ms = source.due_ms

    def read(self, position: int) -> StreamElement:
        act = self._acts.pop(position, None)
        if act is not None:
            act()
        return self._source.read(position)


class SilentSource:
    """A `Source` whose silences begin when it falls silent: one that is behind its rate would use them up. Mutable."""

    def __init__(self, source: SubtaskSource, silences: Mapping[int, int]) -> None:
        """`silences`: how long (ms) it is silent before a position."""
        self._source = source
        self._silences = silences
        self._until_ms: dict[int, int] = {}
        self.barrier_before, self.read = source.barrier_before, source.read

    def due_ms(self, position: int) -> int:
        due_ms, lasts_ms = self._source.due_ms(position), self._silences.get(position)
        if lasts_ms is None:
            return due_ms
        return max(due_ms, self._until_ms.setdefault(position, monotonic_us() // 1000 + lasts_ms))


class Replay(list[Stored]):
    """The elements of a snapshot in replay order; reports the restore phases while they are read."""

    def __init__(self, elements: Sequence[Stored], phases: Phases) -> None:
        super().__init__(elements)
        self._phases = phases

    def __iter__(self) -> Iterator[Stored]:
        """Reaches phase `restore.mid` after half of the elements, `restore.end` after all."""
        half = len(self) // 2
        yield from self[:half]
        self._phases.reach("restore.mid")
        yield from self[half:]
        self._phases.reach("restore.end")
