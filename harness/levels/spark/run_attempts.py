"""The attempts of one run at level `spark`: which process runs them, and how Spark's workers have ended.

Answers to the listener of Spark's scheduler. Invariants: an attempt is known by what it has recorded itself, so what
Spark tells of its tasks is not needed; once a run is closed no attempt of it begins, for its database is about to go.

The Python workers of a Spark session that have ended, as its daemon writes them down.

Answers to the exit codes that a supervisor reads at level live. Invariant: a worker that Spark itself killed is not
among them, nor is one that ended by itself after its attempt had.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from harness.engine.level import ATTEMPTS_MAX, ProcessEnd, ending_of
from harness.history.follower import AttemptView, Follower
from harness.system.process_identity import ProcessIdentity, is_alive

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


_CLOSED = "closed"
"""A file in the folder of a run whose attempts must not begin any more."""


def is_closed(folder: Path) -> bool:
    """Whether the run in `folder` is over. A Python worker may begin seconds after Spark has given its task up."""
    return (folder / _CLOSED).exists()


class RunAttempts:
    """The attempts that the files in `folder` tell of. Mutable: remembers how workers have ended."""

    def __init__(self, folder: str, *, ended: EndedWorkers) -> None:
        self._folder = Path(folder)
        self._ended = ended
        self._died: dict[tuple[int, int], int] = {}
        """The exit codes of workers, by subtask and pid."""

    def views(self) -> Iterable[AttemptView]:
        return Follower(self._folder).poll().attempts.values()

    def new_ends(self) -> Sequence[ProcessEnd]:
        """The workers that ended since the last call."""
        ends = self._ended.new(self.views)
        for end in ends:
            self._died[end.subtask, end.pid] = end.code
        return ends

    def death(self) -> str | None:
        """How the process of the last attempt of a subtask ended without a word; None: all had one, or go on."""
        newest = {view.subtask: view for view in sorted(self.views(), key=lambda view: view.attempt)}
        for view in newest.values():
            pid = None if view.process is None or view.over else view.process.pid
            code = None if pid is None else self._died.get((view.subtask, pid))
            if code is not None and view.attempt >= ATTEMPTS_MAX:
                return f"subtask {view.subtask} failed {view.attempt} times; the last time: {ending_of(code)}"
        return None

    def process(self, subtask: int, *, besides: Collection[int] = ()) -> ProcessIdentity | None:
        """The living process of the subtask's newest attempt, as it recorded it; None: none, or one of `besides`."""
        attempts = Follower(self._folder).poll().attempts
        newest = max((name for name in attempts if name[0] == subtask), default=None)
        if newest is None or attempts[newest].over:
            return None
        who = attempts[newest].process
        return who if who is not None and who.pid not in besides and is_alive(who) else None

    def close(self) -> None:
        """Make attempts that begin from now on refuse to run."""
        (self._folder / _CLOSED).touch()

    def running(self) -> list[ProcessIdentity]:
        """The processes of attempts that are not over."""
        views = self.views()
        return [view.process for view in views if view.process is not None and not view.over]
