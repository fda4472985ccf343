"""The Python workers of a Spark session that have ended, as its daemon writes them down.

Answers to the exit codes that a supervisor reads at level live. Invariant: a worker that Spark itself killed is not
among them, nor is one that ended by itself after its attempt had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from harness.engine.level import ProcessEnd
from harness.history.follower import AttemptView

ENDED_WORKERS = "FLOODMARK_ENDED_WORKERS"
"""The environment variable that tells the daemon the file; Spark passes on nothing else."""


class EndedWorkers:
    """The lines of the file since it was made. Mutable: remembers how far it has read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def new(self, attempts: Callable[[], Iterable[AttemptView]]) -> list[ProcessEnd]:
        """The ends since the last call, of processes that run one of `attempts()`; each is reported once."""
        if not self._path.exists() or self._path.stat().st_size == self._offset:
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        views = {view.process.pid: view for view in attempts() if view.process is not None}
        ended = [msgspec.json.decode(line, type=tuple[int, int]) for line in whole.split(b"\n") if line]
        return [
            ProcessEnd(subtask=views[pid].subtask, pid=pid, code=code)
            for pid, code in ended
            if pid in views and (code < 0 or not views[pid].over)
        ]
