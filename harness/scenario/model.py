"""A scenario: a workload, operator settings, faults and expectations; the contract of every front end.

The pydantic model is the contract, told in `docs/reference/scenarios.md`; the file form is YAML, read with places by
`harness.scenario.file`. Invariant: a `Scenario` that exists is complete and consistent; it says nothing
about worlds, levels' mechanics or seeds, so it runs unchanged wherever it is run. Its JSON form,
`model_dump(mode="json", by_alias=True)`, validates to an equal scenario.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from harness.faults.model.fault import Fault
from harness.faults.registry import AnyFault, FaultName
from harness.scenario.rules import Standing, breaches
from harness.scenario_parts.parts import (
    Expectations,
    Level,
    Link,
    Operator,
    Part,
    Sink,
    Task,
    Workload,
    refuse,
)
from harness.scenario_parts.triggers import At, Between, Call, CheckpointDone, Phase, RecordTaken, When
from harness.scenario_parts.values import Duration, Name, Span
from harness.verdict import INVARIANTS

__all__ = [
    "At",
    "Between",
    "Call",
    "CheckpointDone",
    "Duration",
    "Expectations",
    "Fault",
    "FaultName",
    "Level",
    "Link",
    "Operator",
    "Phase",
    "Pitfall",
    "RecordTaken",
    "Scenario",
    "Sink",
    "Task",
    "When",
    "Workload",
]


Pitfall = Literal[
    "blocking-call",
    "no-pool",
    "small-pool",
    "failing-timeout",
    "silent-timeout",
    "open-connections",
    "lost-completion",
]
"""A mistake in the use of asynchronous lookups, as `harness.pitfalls` names it."""
_Invariant = Annotated[str, WithJsonSchema({"type": "string", "enum": list(INVARIANTS)})]


class Scenario(Part):
    """Everything that a run needs beside a world, a level, a system under test and a seed."""

    scenario: Name = Field(description="Its name, unique in the catalogue.")
    version: Literal[1] = Field(default=1, description="Of this file form.")
    about: str = Field(min_length=10, description="What it shows, one sentence.")
    tags: tuple[str, ...] = Field(default=(), description="Words to find it by.")
    levels: Annotated[tuple[Level, ...], Field(min_length=1)] = Field(
        default=("sim", "live", "spark"), description="Where it makes sense to run it."
    )
    operator: Operator = Field(description="The settings of the operator under test.")
    workload: Workload = Field(description="What the source sends, and how fast.")
    task: Task | None = Field(
        default=None, description="What else the task does in front of the lookups; absent: nothing."
    )
    sink: Sink = Field(
        default="atomic",
        description="How outputs become visible: `atomic`, outputs and position in one transaction; `two-phase`, "
        "prepared, then committed when all subtasks have acknowledged; `idempotent`, written at once, by key.",
    )
    faults: tuple[AnyFault, ...] = Field(default=(), description="What is done to it; none: the calm twin.")
    decisive: tuple[_Invariant, ...] = Field(
        min_length=1, description="Invariants that it is about; one that shows nothing here is an error."
    )
    expects: Expectations = Field(
        default=Expectations(), description="What must at least be observed, or the run is vacuous."
    )
    mutant: Name | None = Field(
        default=None, description="The planted defect that it must convict (`floodmark list mutants`)."
    )
    pitfall: Pitfall | None = Field(
        default=None,
        description="The mistake that the run must name, or it has shown nothing (docs/explanation/pitfalls.md).",
    )
    budget: Span = Field(default=60_000, description="After which the run is given up.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse("Scenario", breaches(self._standing()))
        return self

    def _standing(self) -> Standing:
        return Standing(
            operator=self.operator,
            workload=self.workload,
            faults=tuple(enumerate(self.faults)),
            ids=tuple((index, fault.id) for index, fault in enumerate(self.faults)),
            calm=not self.faults,
            decisive=self.decisive,
            expects=self.expects,
            budget=self.budget,
            levels=self.levels,
            sink=self.sink,
            task=self.task,
            has_task=self.task is not None,
        )
