"""The job scenario: what a user's job gets to read, which faults come, and how long it may take.

Invariant: it names no job, no world and no seed, so the same scenario runs with every job whose engine it allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from harness.faults.model.fault import Fault
from harness.faults.parts.parts import Breach, LookupsFrom, Part
from harness.faults.parts.thresholds import Thresholds
from harness.faults.parts.triggers import (
    TRIGGER_FORMS,
    At,
    Between,
    MomentOfJob,
    RecordTaken,
    SparkGap,
    name_of,
)
from harness.faults.parts.values import Name, Span, Whole
from harness.faults.registry import AnyFault
from harness.scenario.rules import at_one_moment

JobEngine = Literal["plain", "spark"]


class ShownByJob(Part):
    """What a saved find of a job shows, with which job and seed."""

    invariant: str = Field(description="The invariant that is violated.")
    kind: str = Field(description="The kind of the violation.")
    job: str = Field(description="The job, as `--job` names it; a path is relative to this file.")
    seed: Whole = Field(ge=0, description="The seed of the run.")


class JobScenario(Part):
    """Everything that a run of a job needs except the job, a world and a seed."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    pitfall: ClassVar[str | None] = None
    """No job scenario expects a pitfall."""

    scenario: Name = Field(
        alias="job_scenario", description="The scenario's name, unique in the catalogue of job scenarios."
    )
    version: Literal[1] = Field(default=1, description="Version of the file format.")
    about: str = Field(
        min_length=10, description="Which fault is injected and what must hold, in one sentence."
    )
    tags: tuple[str, ...] = Field(
        default=(), description="Words by which `floodmark job --tag` selects scenarios."
    )
    engines: Annotated[tuple[JobEngine, ...], Field(min_length=1)] = Field(
        default=("plain", "spark"), description="The kinds of jobs that it is for."
    )
    records: Annotated[Whole, Field(ge=1, le=1_000_000)] = Field(
        default=200, description="How many records the source offers."
    )
    keys: Annotated[Whole, Field(ge=1, le=100_000)] = Field(
        default=40, description="How many keys the records have, each with a row to look up."
    )
    keys_come: Literal["drawn", "in-turn"] = Field(
        default="drawn",
        description="`drawn`: each record has a drawn key; `in-turn`: 1, 2, ... `keys`, 1, 2, ..., so that records of "
        "a key are never neighbours, and a job that keeps no order shows it only if it is disturbed.",
    )
    offer: Literal["all"] | Span = Field(
        default="all",
        description="`all`: all records at once; a duration: a few at the start, the others spread over it from the "
        "job's first message on, or over the time in which the job writes without faults, if that is longer.",
    )
    gaps: bool = Field(
        default=False,
        description="Whether it is only for jobs whose source has gaps (`source.gaps` in job.toml).",
    )
    faults: tuple[AnyFault, ...] = Field(default=(), description="The faults to inject; empty: none.")
    lookups_from: LookupsFrom | None = Field(
        default=None,
        description="The server that the lookups' link leads to. `replica`: a second one, which follows the sink's "
        "with a delay. Absent: the sink's server.",
    )
    thresholds: Thresholds | None = Field(
        default=None,
        description="What a run may take at most; one that takes more fails, with exit code 1. Seen from outside, only "
        "recovery and first results can be measured.",
    )
    budget: Span = Field(default=60_000, description="The time limit of a run, without its calm twin.")
    shows: ShownByJob | None = Field(
        default=None,
        description="The violation that a run of it in virtual time shows; absent: it is no saved find.",
    )

    @property
    def has_two_servers(self) -> bool:
        """Whether its world has a replica, because of a fault or of its lookups."""
        return self.lookups_from == "replica" or any("replica" in fault.abilities for fault in self.faults)

    @property
    def loses_commits(self) -> bool:
        """Whether another server has the table in the end, and lacks commits of the first one."""
        return any(fault.loses_commits for fault in self.faults)

    def breaches(self) -> Iterator[Breach]:
        """The faults that no run of a job can do or show, and those that this scenario's engines lack."""
        seen: dict[str, int] = {}
        yield from at_one_moment(enumerate(self.faults))
        for index, fault in enumerate(self.faults):
            if fault.id in seen:
                say = f"faults {seen[fault.id]} and {index} (from 0) are both called `{fault.id}`"
                yield Breach(path=("faults", index, "id"), say=say, hint="give each its own id")
            seen.setdefault(fault.id, index)
            if self.loses_commits and "server-process" in fault.abilities:
                say = f"`{fault.do}` ends or stops the old primary, which must answer when the replica is promoted"
                yield Breach(path=("faults", index, "do"), say=say, hint="put it into a scenario of its own")
            yield from _breaches_of(fault, index)
            if "plain" in self.engines and (fault.do == "kill_executor" or isinstance(fault.when, SparkGap)):
                what = "`kill_executor`" if fault.do == "kill_executor" else "a `spark` moment"
                yield Breach(
                    path=("faults", index), say=f"{what} is of Spark jobs only", hint="write engines: [spark]"
                )


_OF_ATTEMPTS: Final = frozenset({"process", "inside", "workload"})
_SHOWN: Final = (At, Between, RecordTaken, MomentOfJob)
"""The triggers that can be seen from outside of a job."""


def _breaches_of(fault: Fault, index: int) -> Iterator[Breach]:
    if fault.by in _OF_ATTEMPTS:
        say = f"`{fault.do}` acts inside Floodmark's own operator or its source, which a job does not have"
        hint = (
            "use kill_driver, kill_owner, kill_at_message or frozen_start, or a fault of a link or the server"
        )
        yield Breach(path=("faults", index, "do"), say=say, hint=hint)
    elif fault.not_in_jobs:
        why, _, instead = fault.not_in_jobs.partition("; ")
        yield Breach(
            path=("faults", index, "do"), say=f"`{fault.do}` {why}", hint=instead or "leave this fault out"
        )
    elif not isinstance(fault.when, _SHOWN):
        say = f"a `{name_of(fault.when)}` happens inside an operator of Floodmark's own, which a job does not have"
        hint = f"write {' or '.join(TRIGGER_FORMS[name] for name in ('at', 'record', 'sink'))}"
        yield Breach(path=("faults", index, "when"), say=say, hint=hint)
