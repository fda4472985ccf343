"""A worker that was taken for dead while it lives: what its subtask has done since.

Answers to an executor whose heartbeat was lost. Invariant: commits are counted from the
run's files, where each attempt has written its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.history.follower import Follower

__all__ = ["Superseded"]


class Superseded:
    """A `Succession`. Mutable: it follows the files of the run."""

    def __init__(self, *, folder: Path, subtask: int, old: subprocess.Popen[bytes] | None) -> None:
        self._follower = Follower(folder)
        self._subtask = subtask
        self._old = old
        self._before = self._commits()

    def _commits(self) -> int:
        commits = self._follower.poll().commits
        return sum(times for (subtask, _), times in commits.items() if subtask == self._subtask)

    def successor_commits(self) -> int:
        """How many epochs of the subtask became visible since; the old process was stopped meanwhile."""
        return self._commits() - self._before

    def old_one_is_over(self) -> bool:
        """Whether the process that was taken for dead has ended by itself."""
        return self._old is None or self._old.poll() is not None
