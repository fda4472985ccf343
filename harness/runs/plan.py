"""The plan of one run: everything that an attempt of a subtask needs, as one JSON value.

Invariant: a plan is complete and never changes during a run, so an attempt started after a crash, in a
new process and without memory, does exactly what its predecessor would have done. It holds the
database's password, and so travels by pipe or closure, never by file, argument or log.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.database.endpoint import Endpoint

__all__ = ["Crash", "RunPlan", "decode_plan", "encode_plan"]


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt's end at the `hit`-th `phase` of `subtask`, by its own hand, once in a run."""

    fault: str
    subtask: int
    phase: str
    hit: int
    how: str = "sigkill"
    """`sigkill`, `sigsegv`, `exit` or `exception`."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, seen from a subtask."""

    run_id: str
    scenario: dict[str, Any]
    """The scenario as JSON; `Scenario.model_validate` reads it back."""
    seed: int
    sut: str
    mutant: str | None
    lookups: Endpoint
    sink: Endpoint
    folder: str
    """Where attempts append their events."""
    path: list[str]
    """What an attempt's process adds to its import path, for a user's own function."""
    table: list[list[Any]]
    """The rows of the looked-up table, for the answers to expect."""
    crashes: list[Crash]
    inside: list[dict[str, Any]] = []
    """The other faults that attempts act out themselves, as JSON; `Fault.model_validate` reads them back."""


def encode_plan(plan: RunPlan) -> bytes:
    """As one line of JSON."""
    return msgspec.json.encode(plan)


def decode_plan(line: bytes) -> RunPlan:
    """What `encode_plan` wrote."""
    return msgspec.json.decode(line, type=RunPlan)
