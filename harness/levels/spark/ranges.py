"""The ranges of a run's source that its batches read: which positions of each subtask belong to which epoch.

Answers to the offsets of a Spark source. Invariant: ranges depend on the plan alone, so every driver, and every try of
a batch, gets the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.faults.model.workload import ShapingFault
from harness.faults.registry import fault_of
from harness.scenario.model import Scenario
from harness.scenario.plan import RunPlan
from harness.scenario.workloads.lookups import LookupSource


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
