"""The shape of what a source sends: hot keys, bursts of watermarks, silence, watermarks that do not rise.

Answers to Flink's notion of a source that misbehaves, which an operator must survive. Invariant: everything is drawn
from the seed and the record's number, so a position holds the same element in every attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.choices import Draw
from harness.faults.model.fault import Fault
from harness.faults.model.workload import ShapingFault
from harness.scenario import Workload
from harness.workloads.elements import Lookup

__all__ = ["Burst", "burst_places", "idle_spans", "marks", "with_hot_keys"]

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
