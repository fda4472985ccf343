"""A streaming source in Python whose offsets are epochs: an epoch's rows are the same however often it is read.

Answers to a Kafka source with fixed offsets. Spark plans a batch for each epoch, one partition for each subtask, and
logs the offset before the batch runs. Invariants: the same offset gives the same rows; nothing here knows a password.

The ranges of a run's source that its batches read: which positions of each subtask belong to which epoch.

Answers to the offsets of a Spark source. Invariant: ranges depend on the plan alone, so every driver, and every try of
a batch, gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from harness.database.endpoint import NOWHERE
from harness.faults.model.workload import ShapingFault
from harness.faults.registry import fault_of
from harness.scenario.model import Scenario
from harness.scenario.plan import RunPlan, decode_plan, encode_plan
from harness.scenario.workloads.lookups import LookupSource, MarkOfTime
from harness.sut.positions import saved
from reference_impl.elements import Record, Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The positions of one subtask in one epoch: those from `begin` on, and below `end`."""

    subtask: int
    begin: int
    end: int
    is_last: bool
    """Whether the subtask's source ends here."""


class Ranges:
    """The ranges of the run `plan`; an epoch ends where the source has a barrier."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.scenario = Scenario.model_validate(plan.scenario)
        self._shaping = [fault for fault in map(fault_of, plan.inside) if isinstance(fault, ShapingFault)]
        every = self.scenario.workload.checkpoint_every
        assert every is not None, "a runner in batches is refused where checkpoints come by time"
        self._every = every

    @cached_property
    def sources(self) -> list[LookupSource]:
        """The source of each subtask."""
        workload = self.scenario.workload
        return [
            LookupSource(
                workload=workload,
                seed=self._plan.seed,
                subtask=subtask,
                faults=[fault for fault in self._shaping if fault.of_subtask in {None, subtask}],
                own=self._plan.own,
            )
            for subtask in range(workload.subtasks)
        ]

    @cached_property
    def last_epoch(self) -> int:
        """The epoch in which the last source ends."""
        return max(map(self._last_of, self.sources))

    def _last_of(self, source: LookupSource) -> int:
        return max(1, -(-len(source) // self._every))

    def subtasks_of(self, epoch: int) -> list[int]:
        """The subtasks that have a range in `epoch`."""
        return [one.subtask for one in self.of(epoch)]

    def of(self, epoch: int) -> list[Range]:
        """The range of each subtask whose source has not ended before `epoch`."""
        begin, end = (epoch - 1) * self._every, epoch * self._every
        return [
            Range(
                subtask=subtask,
                begin=begin,
                end=min(end, len(source)),
                is_last=epoch == self._last_of(source),
            )
            for subtask, source in enumerate(self.sources)
            if epoch <= self._last_of(source)
        ]


FORMAT = "floodmark_positions"
ROWS = "subtask int, epoch int, position bigint, element string"


def source_option(plan: RunPlan) -> str:
    """The option `plan` of the source: without what only the operator needs."""
    return encode_plan(
        msgspec.structs.replace(plan, lookups=NOWHERE, sink=NOWHERE, table=[], expected=None)
    ).decode()


class PositionsSource(DataSource):
    """The source of a run; its option `plan` says which."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ROWS

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        del schema
        return PositionsReader(decode_plan(self.options["plan"].encode()))


class EpochPartition(InputPartition):
    """The range of one subtask in one epoch."""

    def __init__(self, *, subtask: int, epoch: int) -> None:
        super().__init__((subtask, epoch))
        self.subtask = subtask
        self.epoch = epoch


class PositionsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are the numbers of epochs; a batch has one."""

    def __init__(self, plan: RunPlan) -> None:
        self._ranges = Ranges(plan)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"epoch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Does nothing: the plan says where the sources end."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        epoch = self._ranges.last_epoch
        if not isinstance(limit, ReadAllAvailable):
            epoch = min(epoch, start["epoch"] + 1)
        return {"epoch": epoch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [
            EpochPartition(subtask=one.subtask, epoch=epoch)
            for epoch in range(start["epoch"] + 1, end["epoch"] + 1)
            for one in self._ranges.of(epoch)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int, str]]:
        assert isinstance(partition, EpochPartition), "it reads the partitions that it has planned"
        of_epoch = {one.subtask: one for one in self._ranges.of(partition.epoch)}
        mine, source = of_epoch[partition.subtask], self._ranges.sources[partition.subtask]
        for position in range(mine.begin, mine.end):
            match source[position]:
                case MarkOfTime(timestamp=timestamp):
                    element: Any = Watermark(timestamp=timestamp, position=position)
                case (lookup, timestamp):
                    element = Record(value=lookup, timestamp=timestamp, position=position)
            text = msgspec.json.encode(saved(element)).decode()
            yield (partition.subtask, partition.epoch, position, text)
