"""The inputs of a task: over which of them each record comes, and what a watermark says on each.

Answers to the two inputs of Flink's `CoProcessFunction`. Invariant: drawn from the seed alone, so a record comes over
the same input in every attempt; a watermark stands in each input at the same position, and the lesser counts.
"""

from __future__ import annotations

from harness.choices import Draw
from harness.scenario import Task
from harness.workloads.elements import Lookup, MarkOfTime
from harness.workloads.lookups import LookupSource

__all__ = ["Inputs"]


class Inputs:
    """Of one subtask, which reads `source` over as many as `task` says."""

    def __init__(self, task: Task, source: LookupSource, *, seed: int, subtask: int) -> None:
        draw = Draw(seed, f"inputs/subtask {subtask}")
        self.count = task.inputs
        self._lag_ms = task.lag
        self._of_records = {lookup.id: draw.index(task.inputs) for lookup, _ in source.records}
        self._over = [self._inputs_of(source[position]) for position in range(len(source))]

    def _inputs_of(self, element: tuple[Lookup, int | None] | MarkOfTime) -> tuple[int, ...]:
        if isinstance(element, MarkOfTime):
            return tuple(range(self.count))
        return (self._of_records[element[0].id],)

    def __len__(self) -> int:
        """The positions of the source."""
        return len(self._over)

    def of_record(self, lookup: Lookup) -> int:
        """The input over which it comes."""
        return self._of_records[lookup.id]

    def over(self, position: int) -> tuple[int, ...]:
        """The inputs over which what stands at `position` comes: a record over one, a watermark over all."""
        return self._over[position]

    def is_read(self, number: int, *, begin: int, end: int) -> bool:
        """Whether input `number` holds nothing at positions `begin` to before `end`."""
        return all(number not in over for over in self._over[begin:end])

    def lag_ms(self, number: int) -> int:
        """By how much input `number` is behind."""
        return self._lag_ms if number else 0

    def timestamp(self, number: int, mark: int) -> int:
        """What a watermark of `mark` says on input `number`."""
        return mark - self.lag_ms(number)

    def combined(self, mark: int) -> int:
        """What a watermark of `mark` says once it has come over all of them: the least."""
        return min(self.timestamp(number, mark) for number in range(self.count))
