"""The elements of the lookups workload, and the shape of what a source sends: hot keys, bursts, silence.

Answers to Flink's `StreamRecord` and `Watermark`, and to a source that misbehaves, which an operator must
survive. Everything is drawn from the seed and the record's number, so a position holds the same element in
every attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from harness.choices import Draw
from harness.faults.hot_key import HOT_KEY
from harness.faults.model.fault import Fault
from harness.faults.model.workload import ShapingFault
from harness.scenario.model import Workload

__all__ = [
    "HOT_KEY",
    "Burst",
    "Lookup",
    "MarkOfTime",
    "StampedLookup",
    "burst_places",
    "idle_spans",
    "marks",
    "with_hot_keys",
]


class Lookup(Struct, frozen=True, kw_only=True):
    """What a record asks for; the first argument of a user's `lookup(record, pool)`. A struct: each record has one."""

    id: int
    """Unique in the run."""
    key: int
    """The row to look up."""
    service_ms: int
    """How long the database itself takes for it."""
    row_bytes: int = 0
    """How many bytes the database adds to each row of its answer."""

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        asked = {"id": self.id, "key": self.key, "service_ms": self.service_ms}
        return {**asked, "row_bytes": self.row_bytes} if self.row_bytes else asked


class StampedLookup(Lookup, frozen=True, kw_only=True):
    """A lookup with what the operator in front made of it, which each of its results carries."""

    stamp: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {**super().as_json(), "stamp": self.stamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfTime:
    """A source position that holds a watermark of `timestamp` ms."""

    timestamp: int


_STEPS_BACK_MAX = 20
"""How many records' worth of time a watermark that falls goes back, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """`count` watermarks in a row, from position `begin` on: they rise, each by a millisecond, to `until_ms`."""

    begin: int
    count: int
    floor_ms: int
    """The watermark before them; none is below it."""
    until_ms: int

    def timestamp(self, place: int) -> int:
        """Of the `place`-th of them; where time is too short for all to rise, the first are equal."""
        return max(self.floor_ms, self.until_ms - (self.count - 1 - place))


def burst_places(faults: Iterable[Fault], *, records: int) -> list[tuple[int, int]]:
    """Before which record (from 0) how many watermarks come, in their order."""
    bursts = (fault.burst(records) for fault in _shaping(faults))
    return sorted(burst for burst in bursts if burst is not None)


def idle_spans(faults: Iterable[Fault]) -> list[tuple[int, int]]:
    """Before which record (from 0) the source is silent, and for how long (ms)."""
    silences = (fault.silence() for fault in _shaping(faults))
    return [silence for silence in silences if silence is not None]


def with_hot_keys(
    records: list[tuple[Lookup, int | None]], faults: Iterable[Fault], *, seed: int, subtask: int
) -> list[tuple[Lookup, int | None]]:
    """`records`, of which a share asks for one key, and waits longer for it."""
    for fault in _shaping(faults):
        records = fault.reshaped(records, seed=seed, subtask=subtask)
    return records


def _shaping(faults: Iterable[Fault]) -> Iterator[ShapingFault]:
    return (fault for fault in faults if isinstance(fault, ShapingFault))


def marks(workload: Workload, *, seed: int, subtask: int, step_ms: int) -> Sequence[int]:
    """The timestamps of the regular watermarks, in their order; wild ones are equal to the one before, or fall."""
    every = workload.watermark_every
    count = workload.records // every if every else 0
    rising = [(block + 1) * every * step_ms - 1 for block in range(count)]
    if workload.watermarks == "rising":
        return rising
    draw = Draw(seed, f"watermarks/subtask {subtask}")
    if workload.watermarks == "repeating":
        return _repeating(rising, draw)
    wild: list[int] = []
    for mark in rising:
        fate = draw.index(4)
        if fate == 0 and wild:
            wild.append(wild[-1])
        elif fate == 1:
            wild.append(mark - step_ms * (1 + draw.index(_STEPS_BACK_MAX)))
        else:
            wild.append(mark)
    return wild


def _repeating(rising: Iterable[int], draw: Draw) -> list[int]:
    """Two of five are equal to the one before."""
    marks: list[int] = []
    for mark in rising:
        marks.append(marks[-1] if marks and draw.chance(400) else mark)
    return marks
