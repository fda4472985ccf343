"""The source of a run that rescales: one partition for each key group, read by the subtask that owns the group.

Answers to a topic that is partitioned by key, whose splits a source's enumerator assigns anew after a rescale.
Invariant: seed and number determine a record, its partition and its place in it; a subtask reads its partitions in the
order of the records' numbers, first what it inherits, at the positions from 0 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from harness.history.values import END_OF_TIME
from harness.scenario.model import Workload
from harness.scenario.workloads.lookups import LookupSource, least_ts, records_of_all
from harness.scenario.workloads.shape import Key, Lookup, MarkOfTime

Element = tuple[Lookup, int | None] | MarkOfTime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """Where a record stands in the source."""

    part: int
    at: int


class PartitionedSource(LookupSource):
    """The elements of one subtask's source: what it inherits, then the records of its partitions with watermarks."""

    def __init__(  # it builds what the methods of `LookupSource` read
        self,
        *,
        workload: Workload,
        seed: int,
        owns: Container[int],
        group_of: Callable[[Key], int],
        begin_at: Mapping[int, int],
        inherited: Sequence[Element] = (),
    ) -> None:
        """`owns`: the subtask's partitions; `begin_at`: the place from which each is read (absent: 0)."""
        self._workload = workload
        self._every = workload.watermark_every
        self._inherited = inherited
        self.places: dict[int, RecordPlace] = {}
        """Of each record that it reads, by id."""
        self.records = []
        next_of: Counter[int] = Counter()
        for lookup, ts in records_of_all(workload, seed=seed):
            part = group_of(lookup.key)
            at = next_of[part]
            next_of[part] += 1
            if part in owns and at >= begin_at.get(part, 0):
                self.places[lookup.id] = RecordPlace(part=part, at=at)
                self.records.append((lookup, ts))
        numbers = [lookup.id for lookup, _ in self.records]
        behind = [*numbers, numbers[-1] + 1 if numbers else 0]
        places = range(self._every, len(numbers) + 1, self._every) if self._every else ()
        self._marks = [least_ts(behind[place], workload) - 1 for place in places]
        """Each below all records behind it, and above the one before."""
        self._idle = []
        self._plain = len(self.records) + len(self._marks) + workload.final_watermark
        self._bursts = []
        self._length = len(inherited) + self._plain

    @property
    def inherited(self) -> int:
        """How many elements it inherits: the position of the first one that it reads."""
        return len(self._inherited)

    def __getitem__(self, position: int) -> Element:
        if position < len(self._inherited):
            return self._inherited[position]
        position -= len(self._inherited)
        if position == self._plain - 1 and self._workload.final_watermark:
            return MarkOfTime(timestamp=END_OF_TIME)
        return super().__getitem__(position)

    def position_of(self, record: int) -> int:
        """The position of the `record`-th record that it reads, counted from 1."""
        return len(self._inherited) + super().position_of(record)

    def due_ms(self, position: int) -> int:
        """When the element at `position` is due, in ms since the first attempt of the run began."""
        place = position - len(self._inherited)
        if place < 0 or not self.records:
            return 0
        index = place - place // (self._every + 1) if self._every else place
        lookup, _ = self.records[min(index, len(self.records) - 1)]
        return lookup.id // self._workload.subtasks * 1000 // self._workload.rate


def places_before(source: PartitionedSource, position: int) -> dict[int, int]:
    """For each partition of which `source` has read a record ahead of `position`, the place behind the last one."""
    found: dict[int, int] = {}
    for at in range(source.inherited, min(position, len(source))):
        element = source[at]
        if not isinstance(element, MarkOfTime):
            place = source.places[element[0].id]
            found[place.part] = place.at + 1
    return found
