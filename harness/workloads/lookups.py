"""The lookups workload: records that each ask the database for one row by its key.

Answers to a Flink source with exactly-once replay: the same seed, subtask and position give the same
element again, in any process. Invariant: watermarks are true, no record after one is as old as it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from harness.choices import Draw
from harness.scenario import Workload

__all__ = ["Lookup", "LookupSource", "MarkOfTime", "customer_rows", "expected_value"]

_EVENT_STEP_MS = 10
_DISORDER_MS = 50


class Lookup(Struct, frozen=True, kw_only=True):
    """What a record asks for; the first argument of a user's `lookup(record, pool)`. A struct: each record has one."""

    id: int
    """Unique in the run."""
    key: int
    """The row to look up."""
    service_ms: int
    """How long the database itself takes for it."""

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {"id": self.id, "key": self.key, "service_ms": self.service_ms}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfTime:
    """A source position that holds a watermark of `timestamp` ms."""

    timestamp: int


class LookupSource:
    """The elements of one subtask by position; `len(source)` positions in all."""

    def __init__(self, *, workload: Workload, seed: int, subtask: int) -> None:
        self._workload = workload
        draw = Draw(seed, f"lookups/subtask {subtask}")
        self._records = [self._draw(index, subtask, draw) for index in range(workload.records)]
        every = workload.watermark_every
        self._length = len(self._records) + (len(self._records) // every if every else 0)

    def _draw(self, index: int, subtask: int, draw: Draw) -> tuple[Lookup, int]:
        workload = self._workload
        lookup = Lookup(
            id=index * workload.subtasks + subtask,
            key=draw.index(workload.keys),
            service_ms=draw.between(0, workload.service),
        )
        return lookup, index * _EVENT_STEP_MS + draw.between(0, _DISORDER_MS)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> tuple[Lookup, int] | MarkOfTime:
        """The record (with its event time in ms) or the watermark at `position`."""
        every = self._workload.watermark_every
        if not every:
            return self._records[position]
        block, place = divmod(position, every + 1)
        index = block * every + place
        if place == every:
            return MarkOfTime(timestamp=index * _EVENT_STEP_MS - 1)
        return self._records[index]

    def due_ms(self, position: int) -> int:
        """When `position` may be read, in ms since the subtask's first attempt began."""
        every = self._workload.watermark_every
        index = position - position // (every + 1) if every else position
        return index * 1000 // self._workload.rate


def customer_rows(*, keys: int, seed: int) -> list[list[Any]]:
    """The rows (key, name, city, tier) of the table that is looked up."""
    from faker import Faker  # noqa: PLC0415 - only the harness makes rows; an attempt must start soon

    faker = Faker("en_US")
    faker.seed_instance(seed)
    return [[key, faker.name(), faker.city(), faker.random_int(1, 5)] for key in range(keys)]


def expected_value(row: list[Any]) -> dict[str, Any]:
    """What the reference lookup answers for `row`."""
    _, name, city, tier = row
    return {"name": name, "city": city, "tier": tier}
