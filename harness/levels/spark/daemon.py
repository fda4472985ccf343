"""The process from which Spark forks its Python workers, with an attempt's imports already loaded.

Answers to `pyspark.daemon`, which it becomes. Invariants: it imports, so a worker differs from PySpark's only in its
shorter start; the restart time after a kill is Spark's own. It also writes down how each worker has ended, before the
worker leaves the process table; PySpark ignores the ends of its workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pandas as pd  # type: ignore[import-untyped]  # its stubs are half as large as it
import pyarrow as pa
from pyspark.daemon import manager

import harness.levels.live.place
import harness.levels.spark.job
from harness.levels.spark.run_attempts import ENDED_WORKERS

PRELOADED = (pd, pa, harness.levels.live.place, harness.levels.spark.job)
"""Referenced so that tools do not remove the imports as unused."""


class _Ends:
    """Writes the pid and the exit code of each worker that Spark did not kill; a signal's is negative. Mutable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._killed_by_spark: set[int] = set()
        self._signal = signal.signal
        self._kill = os.kill

    def install(self) -> None:
        """Replaces what `manager` calls; a worker undoes the handler after its fork."""
        signal.signal = self._set_handler  # type: ignore[assignment]
        os.kill = self._kill_for_spark

    def _set_handler(self, number: int, handler: Callable[..., object] | int | None) -> object:
        is_ignored = number == signal.SIGCHLD and handler is signal.SIG_IGN
        return self._signal(number, self._reap if is_ignored else handler)

    def _kill_for_spark(self, pid: int, number: int) -> None:
        self._killed_by_spark.add(pid)
        try:
            self._kill(pid, number)
        except ProcessLookupError:
            self._killed_by_spark.discard(pid)
            raise

    def _reap(self, *_: object) -> None:
        while True:
            try:
                end = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if end is None:
                return
            if end.si_pid not in self._killed_by_spark:
                code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                with self._path.open("ab") as file:
                    file.write(msgspec.json.encode([end.si_pid, code]) + b"\n")
            os.waitpid(end.si_pid, 0)
            self._killed_by_spark.discard(end.si_pid)  # a later worker may get this pid


if __name__ == "__main__":
    path = os.environ.get(ENDED_WORKERS)  # noqa: TID251 - the JVM that starts this process passes on nothing else
    if path is not None:
        _Ends(Path(path)).install()
    manager()
