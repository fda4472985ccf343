"""A kill from outside of a run, that its scenario did not plan."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.history.follower import Follower
from harness.system.clock import Deadline, wait_until

AT_WORK = {"records": 1000}
"""Of the workload: two seconds of work, so that a killer which a busy machine delays still finds its victim."""

_LIMIT_S = 60.0


@contextmanager
def killed_from_outside(folder: Path, *, subtask: int, after: int) -> Iterator[None]:
    """Kills the process of `subtask` by SIGKILL, once it has taken `after` records, in the run below `folder`."""
    over = threading.Event()

    def has_killed() -> bool:
        for raw in folder.rglob("raw"):
            progress = Follower(raw).poll()
            view = progress.attempts.get((subtask, 1))
            if progress.taken[subtask] >= after and view is not None and view.process is not None:
                psutil.Process(view.process.pid).kill()
                return True
        return over.is_set()

    thread = threading.Thread(target=wait_until, args=(has_killed,), kwargs={"deadline": Deadline(_LIMIT_S)})
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
