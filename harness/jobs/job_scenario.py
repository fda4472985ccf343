"""The job scenario: what a user's job gets to read, which faults come, and how long it may take.

Invariant: it names no job, no world and no seed, so the same scenario runs with every job whose engine it allows.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from harness.faults.registry import AnyFault
from harness.scenario_parts.parts import Part
from harness.scenario_parts.values import Name, Span, Whole

__all__ = ["JobEngine", "JobScenario"]

JobEngine = Literal["plain", "spark"]


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
    offer: Literal["all"] | Span = Field(
        default="all", description="`all`: all records at once; a duration: spread over it."
    )
    faults: tuple[AnyFault, ...] = Field(default=(), description="The faults to inject; empty: none.")
    budget: Span = Field(default=60_000, description="The time limit of a run, without its calm twin.")
