"""The elements of the lookups workload, and the workload faults of a source: hot keys, bursts, silence.

Answers to Flink's `StreamRecord` and `Watermark`. Invariant: every element is drawn from the seed and its number, so a
position has the same element in every attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from harness.system.choices import Draw

if TYPE_CHECKING:  # the process of the calm twin needs the records only, and starts sooner without these
    from harness.faults.model.fault import Fault
    from harness.faults.model.workload import ShapingFault
    from harness.scenario.model import Workload


class Lookup(Struct, frozen=True, kw_only=True):
    """The value of a record; the first argument of a user's `lookup(record, pool)`. A struct, for speed."""

    id: int
    """The record's id, unique in the run."""
    key: int | str | tuple[str, int]
    """The key to look up (`harness.scenario.workloads.keys.Key`)."""
    service_ms: int
    """The service time of the lookup in the database."""
    row_bytes: int = 0
    """The bytes of padding in each row of the answer."""

    def as_json(self) -> dict[str, Any]:
        """The JSON form, for snapshots."""
        asked = {"id": self.id, "key": self.key, "service_ms": self.service_ms}
        return {**asked, "row_bytes": self.row_bytes} if self.row_bytes else asked


class OwnLookup(Lookup, frozen=True, kw_only=True):
    """A record of a user's own file; its further fields are attributes, and stand in `fields`."""

    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "fields")
        if name in fields:
            return fields[name]
        message = f"record {self.id} has no field `{name}`; its line has id, key, {', '.join(fields) or 'and no more'}"
        raise AttributeError(message)

    def as_json(self) -> dict[str, Any]:
        return {**super().as_json(), "fields": self.fields}


class StampedLookup(Lookup, frozen=True, kw_only=True):
    """A lookup with the stamp of the keyed operator in front; each of its results carries the stamp."""

    stamp: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return {**super().as_json(), "stamp": self.stamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfTime:
    """A watermark of a source."""

    timestamp: int


_STEPS_BACK_MAX = 20
"""How far a falling watermark may go back, in steps of event time between two records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """`count` watermarks from position `begin` on, which rise in steps of 1 ms up to `until_ms`."""

    begin: int
    count: int
    floor_ms: int
    """The watermark before them, and their lower bound."""
    until_ms: int

    def timestamp(self, place: int) -> int:
        """The timestamp of the `place`-th; if there are too few milliseconds, the first ones are equal."""
        return max(self.floor_ms, self.until_ms - (self.count - 1 - place))


def burst_places(faults: Iterable[Fault], *, records: int) -> list[tuple[int, int]]:
    """The bursts: index of a record (from 0) and number of watermarks before it, in order."""
    bursts = (fault.burst(records) for fault in _shaping(faults))
    return sorted(burst for burst in bursts if burst is not None)


def idle_spans(faults: Iterable[Fault]) -> list[tuple[int, int]]:
    """The silences: index of a record (from 0) and duration (ms) before it."""
    silences = (fault.silence() for fault in _shaping(faults))
    return [silence for silence in silences if silence is not None]


def with_hot_keys(
    records: list[tuple[Lookup, int | None]], faults: Iterable[Fault], *, seed: int, subtask: int
) -> list[tuple[Lookup, int | None]]:
    """`records` as changed by the `hot_key` faults."""
    for fault in _shaping(faults):
        records = fault.reshaped(records, seed=seed, subtask=subtask)
    return records


def _shaping(faults: Iterable[Fault]) -> Iterator[ShapingFault]:
    from harness.faults.model.workload import ShapingFault  # noqa: PLC0415 - see above

    return (fault for fault in faults if isinstance(fault, ShapingFault))


def marks_below(timestamps: Sequence[int | None], *, every: int) -> list[int]:
    """A watermark after each `every` records of a file: below each record behind it, and none below the one before."""
    found: list[int] = []
    top = max((ts for ts in timestamps if ts is not None), default=0)
    least: int | None = None
    for place in range(len(timestamps) // every * every if every else 0, 0, -every):
        behind = [ts for ts in timestamps[place : place + every] if ts is not None]
        least = min([*behind, *([] if least is None else [least])], default=None)
        found.append(top if least is None else least - 1)
    return found[::-1]


def marks(workload: Workload, *, seed: int, subtask: int, step_ms: int, records: int) -> Sequence[int]:
    """The timestamps of the regular watermarks, in order; see `workload.watermarks`. `records`: how many."""
    every = workload.watermark_every
    count = records // every if every else 0
    rising = [(block + 1) * every * step_ms - 1 for block in range(count)]
    if workload.watermarks == "rising":
        return rising
    draw = Draw(seed, f"watermarks/subtask {subtask}")
    found: list[int] = []
    for mark in rising:
        if workload.watermarks == "repeating":  # two of five are equal to the one before
            found.append(found[-1] if found and draw.chance(400) else mark)
            continue
        fate = draw.index(4)
        if fate == 0 and found:
            found.append(found[-1])
        elif fate == 1:
            found.append(mark - step_ms * (1 + draw.index(_STEPS_BACK_MAX)))
        else:
            found.append(mark)
    return found
