"""The workers of a run, as faults see them: whose process is whose, and how one is taken for dead.

Answers to Spark's scheduler and its executors, from outside. Invariant: a process is named by pid and start time, so
that no signal can reach one that got the pid later; whatever was stopped goes on, or is ended with the run.
"""

from __future__ import annotations

from typing import Protocol

from harness.process_identity import ProcessIdentity

__all__ = ["Succession", "Workers"]


class Succession(Protocol):
    """A worker that was taken for dead while it lived, and who came in its place."""

    def successor_commits(self) -> int:
        """How many epochs of the subtask became visible since."""

    def old_one_is_over(self) -> bool:
        """Whether the process that was taken for dead has ended by itself."""


class Workers(Protocol):
    """The processes of a run; every method may be called from any thread."""

    def process(self, subtask: int) -> ProcessIdentity | None:
        """The process of its newest attempt; None while there is none."""

    def supersede(self, subtask: int) -> Succession:
        """Start a successor although the process lives; it is ended with the run, if it does not end itself."""

    def executor(self) -> ProcessIdentity | None:
        """The process that runs the workers; None where each stands by itself."""
