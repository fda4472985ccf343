"""A Spark driver in a process of its own: `python -P -m harness.levels.spark.driver`; its orders come through stdin.

Answers to `spark-submit` in client mode. It holds one session, and performs the runs that it is told to, one after the
other or at a time. Invariants: it ends when the pipe closes, because the harness has ended it or has died; a plan
comes through the pipe only, for it holds a password; whatever a run left is in the run's folder and its database, so
that a driver started after a crash goes on from there.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from harness.scenario.plan import RunPlan
from harness.system.child import pipe_to_parent
from harness.system.own_packages import import_ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DriverSetUp(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: how to make the session."""

    master: str
    """The master URL: `local[N,F]`, or that of a cluster."""
    settings: dict[str, str] = {}
    """Further settings of Spark, which may replace those that runs rely on."""
    folder: str
    """For the files and the logs of the session."""


class Perform(msgspec.Struct, frozen=True, kw_only=True, tag="perform"):
    """Performs the run `plan`, or goes on with it."""

    plan: RunPlan
    subtasks: int
    start: int = 1
    """1 for the first driver that performs this run, and one more for each that goes on with it."""


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """Ends a run."""

    run_id: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The session is there; `jvm`: the pid of its virtual machine."""

    jvm: int


class DriverEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A run has ended; `error`: why, if it did not get to its end."""

    run_id: str
    error: str | None = None


DriverReply = Ready | DriverEnded

RUNNERS = {
    "continuous": "harness.levels.spark.job:perform_continuous",
    "micro-batch": "harness.levels.spark.micro_batch:perform_micro_batches",
    "stateful": "harness.levels.spark.stateful:perform_stateful",
}
"""What performs a run of each runner."""


class RunOfDriver:
    """One run that a driver performs, as its runner sees it."""

    def __init__(self, session: SparkSession, orders: Perform) -> None:
        self.session = session
        self.plan = orders.plan
        self.subtasks = orders.subtasks
        self.start = orders.start
        self.cancelled = threading.Event()
        """Set when the run is to end."""


class _Runs:
    """The runs of one session, a thread each. Mutable."""

    def __init__(self, session: SparkSession, tell: Callable[[DriverReply], object]) -> None:
        self._session = session
        self._tell = tell
        self._runs: dict[str, RunOfDriver] = {}

    def obey(self, orders: Perform | Cancel) -> None:
        if isinstance(orders, Cancel):
            if (known := self._runs.get(orders.run_id)) is not None:
                known.cancelled.set()
                self._session.sparkContext.cancelJobGroup(orders.run_id)
            return
        run = self._runs[orders.plan.run_id] = RunOfDriver(self._session, orders)
        name = f"run-{run.plan.run_id}"
        threading.Thread(target=self._perform, args=(run,), name=name, daemon=True).start()

    def _perform(self, run: RunOfDriver) -> None:
        run_id, error = run.plan.run_id, None
        self._session.sparkContext.setJobGroup(run_id, f"floodmark {run_id}", interruptOnCancel=True)
        try:
            module, _, function = RUNNERS[run.plan.runner].partition(":")
            getattr(import_module(module), function)(run)
        except Exception as failure:  # noqa: BLE001 - every failure of the job is the run's error
            traceback.print_exc()
            error = cause_of_failure(failure)
        self._runs.pop(run_id, None)
        self._tell(DriverEnded(run_id=run_id, error=error))


def cause_of_failure(error: Exception) -> str:
    """The most useful line of a Spark error: the Python worker's own error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(("harness.", "reference_impl."))]
    return f"the Spark job failed: {(own or lines or [type(error).__name__])[0]}"


class _Orders:
    """The lines of the pipe, read by a thread; before the session is up, the end of the pipe ends the process."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self.is_up = threading.Event()
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def _read(self) -> None:
        while line := self._pipe.readline():
            self._lines.put(line)
        if not self.is_up.is_set():
            os._exit(1)
        self._lines.put(b"")

    def __iter__(self) -> Iterator[Perform | Cancel]:
        decoder: msgspec.json.Decoder[Perform | Cancel] = msgspec.json.Decoder(Perform | Cancel)
        while line := self._lines.get():
            yield decoder.decode(line)


def main() -> None:
    """Makes the session, then performs what the pipe asks for, until it is closed."""
    pipe, out = sys.stdin.buffer, pipe_to_parent()

    def tell(reply: DriverReply) -> None:  # one write each, since runs reply from their threads
        out.write(msgspec.json.encode(reply) + b"\n")

    set_up = msgspec.json.decode(pipe.readline(), type=DriverSetUp)
    import_ours()
    from harness.levels.spark.session import gateway_pid, spark_session  # noqa: PLC0415 - pulls in pyspark

    orders = _Orders(pipe)
    with spark_session(folder=Path(set_up.folder), master=set_up.master, settings=set_up.settings) as session:
        orders.is_up.set()
        tell(Ready(jvm=gateway_pid()))
        runs = _Runs(session, tell)
        for one in orders:
            runs.obey(one)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001 - told in the log; threads of runs must not keep the process
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # a thread of a run may still wait for the machine that has just ended
