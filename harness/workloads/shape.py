"""The shape of what a source sends: hot keys, bursts of watermarks, silence, watermarks that do not rise.

Answers to Flink's notion of a source that misbehaves, which an operator must survive. Invariant: everything is drawn
from the seed and the record's number, so a position holds the same element in every attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from harness.choices import Draw
from harness.scenario import Fault, Workload
from harness.scenario_triggers import RecordTaken
from harness.workloads.elements import HOT_KEY, Lookup

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


def _first_index(fault: Fault) -> int:
    assert isinstance(fault.when, RecordTaken), "the workload's faults wait for a record"
    return fault.when.record - 1


def burst_places(faults: Iterable[Fault], *, records: int) -> list[tuple[int, int]]:
    """Before which record (from 0) how many watermarks come, in their order."""
    bursts = [fault for fault in faults if fault.do == "watermark_burst"]
    return sorted((min(_first_index(fault), records), fault.count or 0) for fault in bursts)


def idle_spans(faults: Iterable[Fault]) -> list[tuple[int, int]]:
    """Before which record (from 0) the source is silent, and for how long (ms)."""
    return [(_first_index(fault), fault.lasts or 0) for fault in faults if fault.do == "idle_input"]


def with_hot_keys(
    records: list[tuple[Lookup, int | None]], faults: Iterable[Fault], *, seed: int, subtask: int
) -> list[tuple[Lookup, int | None]]:
    """`records`, of which a share asks for one key, and waits longer for it."""
    for fault in faults:
        if fault.do == "hot_key":
            first = _first_index(fault)
            last = len(records) if fault.count is None else first + fault.count
            draw = Draw(seed, f"fault {fault.id}/subtask {subtask}")
            records = [
                (_heated(lookup, fault), ts)
                if first <= index < last and draw.chance((fault.share or 0) * 10)
                else (lookup, ts)
                for index, (lookup, ts) in enumerate(records)
            ]
    return records


def _heated(lookup: Lookup, fault: Fault) -> Lookup:
    return replace(lookup, key=HOT_KEY, service_ms=fault.delay or lookup.service_ms)


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
