"""What a level gives: a run under way, to be polled and, if need be, stopped.

Invariant: `poll` never blocks, and after `stop` no process of the execution does work any more, not one that was
stopped or superseded either.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.faults.real.workers import Workers
from harness.runs.plan import RunPlan

__all__ = ["ATTEMPTS_MAX", "Execution", "ExecutionState", "LevelRunner", "ProcessEnd"]

ATTEMPTS_MAX = 4
"""Failures and kills that a subtask may have; with the last one the run has failed. Spark's default too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """A worker's process as it was reaped."""

    subtask: int
    pid: int
    code: int
    """Its exit code, or the signal that ended it, negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionState:
    """Whether it still runs, and why it stopped early if it did."""

    running: bool
    error: str | None = None
    ends: tuple[ProcessEnd, ...] = ()
    """The processes that were reaped since the last look, where this level reaps them itself."""


class Execution(Workers, Protocol):
    """A run under way."""

    def poll(self) -> ExecutionState:
        """Restart what died, reap what ended, and say how it stands."""

    def stop(self) -> None:
        """End every attempt, within a few seconds."""


class LevelRunner(Protocol):
    """Starts runs at one level (`live`, `spark`)."""

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> Execution:
        """Begin all subtasks of `plan`; what they print goes to files in `logs`."""
