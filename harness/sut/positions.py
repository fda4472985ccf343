"""Positions: the workload as a source of the task, and its elements as a snapshot keeps them.

Invariant: what `saved` writes, `restored` reads back as an equal element; barriers stand at fixed positions,
so every attempt cuts the same checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.sut.phases import Phases
from harness.workloads.lookups import Lookup, LookupSource, MarkOfTime
from reference_impl.elements import Barrier, EndOfInput, QueueElement, Record, StreamElement, Watermark

__all__ = ["Replay", "SubtaskSource", "WatchedSource", "named", "restored", "saved"]


class SubtaskSource:
    """One subtask's source, due at its rate since `origin_ms`; a `reference_impl.task.Source`."""

    def __init__(self, elements: LookupSource, *, checkpoint_every: int, origin_ms: int) -> None:
        self._elements = elements
        self._checkpoint_every = checkpoint_every
        self._origin_ms = origin_ms

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` behind the last."""
        if position >= len(self._elements):
            return EndOfInput()
        match self._elements[position]:
            case MarkOfTime(timestamp=timestamp):
                return Watermark(timestamp=timestamp, position=position)
            case (lookup, timestamp):
                return Record(value=lookup, timestamp=timestamp, position=position)

    def barrier_before(self, position: int) -> Barrier | None:
        """A barrier before every `checkpoint_every`-th position but the first."""
        number, rest = divmod(position, self._checkpoint_every)
        return Barrier(checkpoint=number) if number and not rest and position < len(self._elements) else None

    def due_ms(self, position: int) -> int:
        """On the machine's monotonic clock; behind the last element at once."""
        return self._origin_ms + self._elements.due_ms(min(position, len(self._elements)))


def saved(element: QueueElement) -> dict[str, Any]:
    """`element` as the sink stores it."""
    match element:
        case Record(value=Lookup() as lookup, timestamp=ts, position=position):
            return {"lookup": lookup.as_json(), "ts": ts, "pos": position}
        case Watermark(timestamp=timestamp, position=position):
            return {"w": timestamp, "pos": position}
    message = f"cannot save {element!r}"
    raise TypeError(message)


def restored(element: dict[str, Any]) -> QueueElement:
    """What `saved` was given."""
    if "w" in element:
        return Watermark(timestamp=element["w"], position=element["pos"])
    return Record(value=Lookup(**element["lookup"]), timestamp=element["ts"], position=element["pos"])


def named(element: dict[str, Any]) -> dict[str, Any]:
    """A saved element as a history names it (`docs/history.md`, `snap`)."""
    return {"w": element["w"], "pos": element["pos"]} if "w" in element else {"id": element["lookup"]["id"]}


class WatchedSource:
    """`source`, with something to do when it stands at a position; a `reference_impl.task.Source`. Mutable."""

    def __init__(self, source: SubtaskSource, acts: dict[int, Callable[[], None]]) -> None:
        self._source = source
        self._acts = acts
        self.barrier_before = source.barrier_before
        self.due_ms = source.due_ms

    def read(self, position: int) -> StreamElement:
        """The element, once what waits for it is done."""
        act = self._acts.pop(position, None)
        if act is not None:
            act()
        return self._source.read(position)


class Replay(Sequence[QueueElement]):
    """The elements of a snapshot, which tell how far their replay has come."""

    def __init__(self, elements: Sequence[QueueElement], phases: Phases) -> None:
        self._elements = elements
        self._phases = phases

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, place: Any) -> Any:
        return self._elements[place]

    def __iter__(self) -> Iterator[QueueElement]:
        """`restore.mid` once half of them have been taken, `restore.end` once all have."""
        half = len(self._elements) // 2
        yield from self._elements[:half]
        self._phases.reach("restore.mid")
        yield from self._elements[half:]
        self._phases.reach("restore.end")
