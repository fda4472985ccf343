"""The plan of one run: all that an attempt of a subtask needs, as one JSON value.

Invariants: a plan is complete and does not change during a run, so an attempt in a new process needs nothing from its
predecessor. It holds the database's password, so it is passed by pipe or closure, never by file, argument or log.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from harness.database.endpoint import Endpoint
from harness.runs.expected import Expected
from harness.scenario_parts.own_records import OwnRecord

__all__ = ["RUNNERS", "Crash", "RunPlan", "Runner", "decode_plan", "encode_plan"]

Runner = Literal["continuous", "micro-batch", "stateful"]
"""How level spark runs the operator: one task a subtask for the whole run; a task a subtask and batch, with one
transaction of the driver for all; or the same with the snapshot in Spark's own state."""
RUNNERS: tuple[Runner, ...] = get_args(Runner)


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """Ends an attempt of `subtask` at the `hit`-th time of `phase`, once in a run."""

    fault: str
    subtask: int
    phase: str
    hit: int
    how: str = "sigkill"
    """`sigkill`, `sigsegv`, `exit` or `exception`."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one run, for its subtasks."""

    run_id: str
    scenario: dict[str, Any]
    """The scenario as JSON; `Scenario.model_validate` reads it back."""
    seed: int
    sut: str
    mutant: str | None
    lookups: Endpoint
    sink: Endpoint
    folder: str
    """The folder where attempts write their event files."""
    path: list[str]
    """Additions to the import path of an attempt's process, to find a user's own function."""
    table: list[list[Any]]
    """The rows of the lookup table, to compute the expected results."""
    crashes: list[Crash]
    expected: Expected | None = None
    """What the records of a user's lookup must yield; None for our own lookup, whose results `table` gives."""
    own: list[OwnRecord] | None = None
    """The records of the user's file; None: they are drawn."""
    replica: Endpoint | None = None
    """The second server, which follows the sink's; None: there is none."""
    runner: Runner = "continuous"
    inside: list[dict[str, Any]] = []
    """The other faults that attempts perform themselves, as JSON; `fault_of` reads them back."""


def encode_plan(plan: RunPlan) -> bytes:
    """Writes a plan as one line of JSON."""
    return msgspec.json.encode(plan)


def decode_plan(line: bytes) -> RunPlan:
    """Reads what `encode_plan` wrote."""
    return msgspec.json.decode(line, type=RunPlan)
