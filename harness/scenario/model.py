"""The scenario model: workload, operator settings, faults and expectations of a run.

`docs/reference/scenarios.md` documents the fields; `harness.scenario.file` reads the YAML form. Invariant: an
instance is complete and consistent. It names no world and no seed, so the same scenario runs at every level that it
allows. Its JSON form, `model_dump(mode="json", by_alias=True)`, validates to an equal scenario.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from harness.faults.change_rows import ChangeRows
from harness.faults.kill_worker import KillWorker
from harness.faults.model.fault import Fault
from harness.faults.parts.found_parts import SavedChoices, ShownViolation
from harness.faults.parts.own_records import OwnRecord, read_records
from harness.faults.parts.parts import (
    SINK_FORMS,
    Expectations,
    LookupsFrom,
    Operator,
    OwnEffects,
    Part,
    RescalePlan,
    Sink,
    Task,
    Workload,
    refuse,
)
from harness.faults.parts.thresholds import Thresholds
from harness.faults.parts.triggers import At, Between, CallMade, CheckpointDone, Phase, RecordTaken
from harness.faults.parts.values import Name, Span
from harness.faults.registry import AnyFault, FaultName
from harness.history.invariants import INVARIANTS
from harness.scenario.plan import Crash
from harness.scenario.rules import Standing, breaches
from harness.system.json_types import Json
from harness.system.levels import OPERATOR_LEVELS, Level

__all__ = [
    "At",
    "Between",
    "CallMade",
    "CheckpointDone",
    "Fault",
    "FaultName",
    "Operator",
    "Phase",
    "RecordTaken",
    "Scenario",
    "Sink",
    "Task",
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
"""A common mistake in the use of asynchronous lookups, by its name in `harness.judge.pitfalls`."""
Sql = Literal["model", "real"]
FilePath = Annotated[str, Field(min_length=1)]
_Invariant = Annotated[str, WithJsonSchema({"type": "string", "enum": list(INVARIANTS)})]


class Scenario(Part):
    """Everything that a run needs except a world, a level, a system under test and a seed."""

    scenario: Name = Field(description="The scenario's name, unique in the catalogue.")
    version: Literal[1] = Field(default=1, description="Version of the file format.")
    about: str = Field(
        min_length=10, description="Which fault is injected and what must hold, in one sentence."
    )
    tags: tuple[str, ...] = Field(
        default=(), description="Words by which `floodmark run --tag` selects scenarios."
    )
    levels: Annotated[tuple[Level, ...], Field(min_length=1)] = Field(
        default=OPERATOR_LEVELS, description="The levels at which it can run."
    )
    operator: Operator = Field(description="The settings of the operator under test.")
    workload: Workload = Field(description="What the source sends, and how fast.")
    task: Task | None = Field(
        default=None, description="An operator with keyed state in front of the lookups; absent: none."
    )
    rescale: RescalePlan | tuple[RescalePlan, ...] | None = Field(
        default=None,
        description="Restarts with another number of subtasks, one or a list of them, each at a later checkpoint. The "
        "source then has a partition for each of 8 key groups.",
    )
    sink: Sink = Field(
        default="atomic",
        description="How outputs become visible. `atomic`: with the source position in one transaction; `two-phase`: "
        "prepared, then committed when all subtasks have acknowledged the checkpoint; `idempotent`: upserts by key.",
    )
    faults: tuple[AnyFault, ...] = Field(
        default=(), description="The faults to inject; empty: a run without faults."
    )
    lookups_from: LookupsFrom | None = Field(
        default=None,
        description="The server that lookups ask. `replica`: a second one, which follows the sink's with a delay, not "
        "at level sim. Absent: the sink's.",
    )
    own_schema: FilePath | None = Field(
        default=None,
        alias="schema",
        description="A file of SQL that makes the tables of your own lookup, in a database of the run; paths are "
        "relative to this file. Absent: the table `customer`.",
    )
    data: tuple[FilePath, ...] | None = Field(
        default=None,
        description="Files that fill the tables of `schema`: SQL, or CSV or JSON lines named after their table.",
    )
    records: FilePath | None = Field(
        default=None,
        description="A file of JSON lines with the records of the input, in place of those that the seed draws: `key`, "
        "and if you like `id`, `ts`, and what else the lookup reads.",
    )
    sql: Sql | None = Field(
        default=None,
        description="What answers your lookup's SQL at level sim. `model`: SQLite, SELECTs of table `customer` alone; "
        "`real`: a database server of this machine, in no virtual time. Absent: `real` if the lookup brings its own "
        "client or has a `schema`, else `model`. Other levels have a real server.",
    )
    effects: OwnEffects | None = Field(
        default=None, description="The table that the lookup writes to; absent: it only reads."
    )
    decisive: tuple[_Invariant, ...] = Field(
        min_length=1,
        description="The invariants that the scenario tests; one that it could not violate is an error.",
    )
    expects: Expectations = Field(
        default=Expectations(), description="What a run must observe at least, or it counts as vacuous."
    )
    thresholds: Thresholds | None = Field(
        default=None,
        description="What a run may take at most; one that takes more fails, with exit code 1. What could not be "
        "measured is unknown, never a pass.",
    )
    mutant: Name | None = Field(
        default=None,
        description="The planted defect that this scenario must detect (docs/reference/mutants.md).",
    )
    pitfall: Pitfall | None = Field(
        default=None,
        description="The mistake that a run must report, or it counts as vacuous (docs/explanation/pitfalls.md).",
    )
    budget: Span = Field(default=60_000, description="The time limit of a run.")
    choices: SavedChoices | None = Field(
        default=None,
        description="The choices of a run, so that a saved finding repeats its history; absent: `--seed` decides, or "
        "a new seed.",
    )
    shows: ShownViolation | None = Field(
        default=None,
        description="The violation that a run of it shows, with which system; absent: it is no saved finding.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        parts = Standing(
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
            rescales=self.rescales,
            has_task=self.task is not None,
            pitfall=self.pitfall,
            schema=self.own_schema,
            data=self.data,
            records=self.records,
            has_effects=self.effects is not None,
            lookups_from=self.lookups_from,
        )
        refuse("Scenario", breaches(parts))
        return self

    @property
    def changing(self) -> tuple[ChangeRows, ...]:
        """The faults that change rows of the looked-up table."""
        return tuple(fault for fault in self.faults if isinstance(fault, ChangeRows))

    @property
    def rescales(self) -> tuple[RescalePlan, ...]:
        """The rescales, in order; empty: the number of subtasks stays."""
        if self.rescale is None:
            return ()
        return (self.rescale,) if isinstance(self.rescale, RescalePlan) else self.rescale

    @property
    def subtask_numbers(self) -> int:
        """How many subtasks the run has over all; those that a rescale begins have numbers of their own."""
        return self.workload.subtasks + sum(rescale.to for rescale in self.rescales)

    @property
    def most_subtasks(self) -> int:
        """How many subtasks run at the same time at most."""
        return max([self.workload.subtasks, *(rescale.to for rescale in self.rescales)])

    @property
    def has_two_servers(self) -> bool:
        """Whether its world has a replica, because of a fault or of its lookups."""
        return self.lookups_from == "replica" or any("replica" in fault.abilities for fault in self.faults)

    @property
    def own_records(self) -> tuple[OwnRecord, ...] | None:
        """The records of the file that it names; None: they are drawn. Raises UsageError."""
        return None if self.records is None else read_records(self.records)

    @property
    def claims_order(self) -> bool:
        """Whether a subtask's rows must be in the order of their ids.

        Not after a rescale, which gives a subtask what several had in flight; not with two inputs, whose records the
        operator takes in another order; and not where a key keeps the first place of a row that is written again.
        """
        has_one_input = self.task is None or self.task.inputs == 1
        replaces_rows = SINK_FORMS[self.sink].has_output_key
        return self.operator.mode == "ordered" and has_one_input and not self.rescales and not replaces_rows

    @property
    def planned_crashes(self) -> list[Crash]:
        """The kills that its faults ask for."""
        crashes = []
        for fault in self.faults:
            if isinstance(fault, KillWorker):
                at = fault.when
                assert isinstance(at, Phase), "a worker is killed at a phase"
                crashes.append(
                    Crash(fault=fault.id, subtask=fault.subtask, phase=at.phase, hit=at.hit, how=fault.how)
                )
        return crashes

    @property
    def planned_inside(self) -> list[Json]:
        """The inside and workload faults, and those that stop the attempt at a phase, as JSON for the plan."""
        return [
            fault.model_dump(mode="json", by_alias=True)
            for fault in self.faults
            if fault.by in {"inside", "workload"} or (fault.attempts_own and isinstance(fault.when, Phase))
        ]
