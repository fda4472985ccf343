"""A scenario: a workload, operator settings, faults and expectations; the contract of every front end.

The pydantic model is the contract (`guide/decisions.md` 18); the file form is YAML, read with places by
`harness.scenario_file`. Invariant: a `Scenario` that exists is complete and consistent; it says nothing
about worlds, levels' mechanics or seeds, so it runs unchanged wherever it is run.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = [
    "Call",
    "CheckpointDone",
    "Duration",
    "Expectations",
    "Fault",
    "Level",
    "Link",
    "Operator",
    "Scenario",
    "When",
    "Workload",
]

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}
_DURATION = re.compile(r"^(\d+)\s*(ms|s|m)$")


def duration_ms(text: object) -> object:
    """`250ms`, `2s`, `1m` as integer milliseconds; a bare number is refused, for it hides its unit."""
    match = _DURATION.match(text) if isinstance(text, str) else None
    if match is None:
        message = f"{text!r} is not a duration; write a whole number with its unit: 250ms, 2s, 1m"
        raise ValueError(message)
    return int(match[1]) * _UNITS_MS[match[2]]


Duration = Annotated[
    int,
    BeforeValidator(duration_ms, json_schema_input_type=str),
    Field(json_schema_extra={"type": "string", "pattern": _DURATION.pattern, "examples": ["250ms", "2s"]}),
]
"""Milliseconds, written with a unit."""

Level = Literal["live", "spark"]
Link = Literal["lookups", "sink"]


class Part(BaseModel):
    """A part of a scenario: frozen, and a field that does not exist is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Operator(Part):
    """The settings of the asynchronous operator under test (A1-A3, A44, A45)."""

    mode: Literal["ordered", "unordered"]
    capacity: int = Field(default=100, gt=0, description="Elements in the queue at most (A2, A8).")
    timeout: Duration = Field(default=0, description="Of one record, from its call; 0ms is none (A3).")
    on_timeout: Literal["fail"] | list[Any] = Field(
        default="fail",
        description="`fail` fails the task (A44); a list holds the results that stand in (A45).",
    )


class Workload(Part):
    """What the deterministic source sends to each subtask, and how fast."""

    kind: Literal["lookups"] = "lookups"
    records: int = Field(gt=0, description="Records of each subtask.")
    subtasks: int = Field(default=2, gt=0, le=16)
    keys: int = Field(default=100, gt=0, description="Distinct keys in the database's table.")
    rate: int = Field(default=500, gt=0, description="Records a second and subtask, at most.")
    watermark_every: int = Field(default=10, ge=0, description="Records between two watermarks; 0: none.")
    checkpoint_every: int = Field(default=50, gt=0, description="Source positions between two barriers.")
    service: Duration = Field(
        default=0, description="Time the database itself takes for a lookup, at most; drawn per record."
    )


class CheckpointDone(Part):
    """When checkpoint `checkpoint` of `subtask` (any, if absent) has been acknowledged."""

    checkpoint: int = Field(gt=0)
    subtask: int | None = Field(default=None, ge=0)


class Call(Part):
    """When the `call`-th external call of `subtask` (any, if absent) begins."""

    call: int = Field(gt=0)
    subtask: int | None = Field(default=None, ge=0)


class At(Part):
    """When `at` has passed since the first record was taken."""

    at: Duration


class Phase(Part):
    """When the task reaches the named phase for the `hit`-th time (of this subtask's whole life)."""

    phase: Literal["snapshot-taken", "committed", "call"]
    hit: int = Field(default=1, gt=0)


When = At | CheckpointDone | Call | Phase


class Fault(Part):
    """One disturbance: what (`do`), where, when it begins and how long it lasts."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    do: Literal["latency", "blackhole", "down", "reset", "kill_worker"]
    link: Link | None = None
    direction: Literal["up", "down"] | None = None
    delay: Duration | None = None
    jitter: Duration | None = None
    subtask: int | None = Field(default=None, ge=0)
    when: When
    lasts: Duration | None = Field(default=None, alias="for")


class Expectations(Part):
    """What must at least have been observed, or the run is `vacuous` (V23)."""

    records: int | None = Field(default=None, ge=0)
    checkpoints: int | None = Field(default=None, ge=0)
    restores: int | None = Field(default=None, ge=0)


class Scenario(Part):
    """Everything that a run needs beside a world, a level, a system under test and a seed."""

    scenario: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="Its name, unique in the catalogue.")
    version: Literal[1] = 1
    about: str = Field(min_length=10, description="What it shows, one sentence.")
    tags: list[str] = []
    levels: list[Level] = ["live", "spark"]
    operator: Operator
    workload: Workload
    faults: list[Fault] = []
    decisive: list[str] = Field(min_length=1, description="Invariants that this scenario is about.")
    expects: Expectations = Expectations()
    budget: Duration = Field(default=60_000, description="After which the run is given up.")
