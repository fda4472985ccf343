"""A run as one Spark job: one task is one subtask for the whole run.

Why not micro-batches: `docs/reference/references.md`.

Spark gives placement, retries and attempts; barriers, snapshots and commits are the subtask's own. Invariant: a
retried task does the same as a restarted process at level `live`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
import pyarrow as pa

from harness.engine.level import ExecutionState
from harness.levels.spark.driver import RunOfDriver, cause_of_failure
from harness.levels.spark.run_attempts import EndedWorkers, RunAttempts
from harness.levels.spark.session import gateway_pid
from harness.scenario.plan import RunPlan, decode_plan, encode_plan, numbers_of
from harness.sut.user_code import take_path
from harness.system.clock import Deadline, wait_until
from harness.system.errors import HarnessError
from harness.system.process_identity import ProcessIdentity, end_process, identify, is_alive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_S = 15.0
_EXECUTORS_S = 60.0
"""How long a run waits for executors that replace those which the run before has lost."""
_WARM = 2
"""Tasks to warm an executor."""
_RESULT = "subtask bigint, attempt int"


def _be_subtasks(plan: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The body of a task: run the subtask whose number is in the partition's only row."""
    orders = decode_plan(plan)
    if orders.sent_to is None:
        take_path(orders.path)  # elsewhere the archive of our code has the user's too
    from harness.engine.attempt import run_attempt  # noqa: PLC0415
    from harness.levels.live.place import real_parts  # noqa: PLC0415
    from harness.levels.spark.remote_place import remote_parts  # noqa: PLC0415
    from harness.sut.defects import variant_of  # noqa: PLC0415 - after the path is set

    parts = real_parts if orders.sent_to is None else remote_parts
    for batch in batches:
        for subtask in batch.column(0).to_pylist():
            number = run_attempt(parts(orders, subtask, variant=variant_of(orders.mutant)))
            yield pa.RecordBatch.from_arrays(
                [pa.array([subtask], pa.int64()), pa.array([number], pa.int32())],
                names=["subtask", "attempt"],
            )


def perform_continuous(run: RunOfDriver) -> None:
    """One job, each of whose tasks is a subtask for the whole run."""
    plan = msgspec.structs.replace(run.plan, generation=run.start)
    if plan.sent_to is not None:
        _warm_executors(run.session)
    run_job(run.session, plan, subtasks=run.subtasks)


def _warm_executors(session: SparkSession) -> None:
    """Lets every executor load what attempts need, so that subtasks start together; they are dealt out in turn."""
    conf = session.sparkContext.getConf()
    wanted = int(conf.get("spark.cores.max", "0")) // int(conf.get("spark.executor.cores", "1"))

    def all_warm() -> bool:
        tasks = _WARM * max(1, wanted)
        rows = session.range(0, tasks, 1, tasks).mapInArrow(_be_warm, "executor string").collect()
        return len({row.executor for row in rows}) >= wanted

    wait_until(all_warm, deadline=Deadline(_EXECUTORS_S), every_s=0.2)


def _be_warm(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Loads what an attempt needs, and tells in which executor that was."""
    import harness.levels.spark.remote_place  # noqa: F401, PLC0415

    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([str(Path.cwd())] * batch.num_rows)], names=["executor"])


def run_job(session: SparkSession, plan: RunPlan, *, subtasks: int) -> None:
    """Runs the job of `plan` to its end, with one partition for each subtask. Raises Spark's errors."""
    own = numbers_of(plan, subtasks=subtasks)
    numbers = session.range(own.start, own.stop, 1, subtasks)
    numbers.mapInArrow(partial(_be_subtasks, encode_plan(plan)), _RESULT).collect()


class SparkRunner:
    """Starts runs at level `spark`, one job each, in one session; its daemon writes to the file `ended`."""

    def __init__(self, session: SparkSession, *, ended: Path) -> None:
        self._session = session
        self._ended = ended

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> SparkExecution:  # noqa: ARG002 - the JVM has its own log
        """Start one job with one partition for each subtask."""
        return SparkExecution(self._session, plan, subtasks=subtasks, ended=EndedWorkers(self._ended))


class SparkExecution:
    """One run as one Spark job, with a thread that waits for it; implements `Execution`."""

    def __init__(self, session: SparkSession, plan: RunPlan, *, subtasks: int, ended: EndedWorkers) -> None:
        self._session = session
        self._attempts = RunAttempts(plan.folder, ended=ended)
        self._plan = plan
        self._subtasks = subtasks
        self._error: str | None = None
        self._thread = threading.Thread(target=self._work, name=f"spark-job-{plan.run_id}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        context = self._session.sparkContext
        context.setJobGroup(self._plan.run_id, f"floodmark {self._plan.run_id}", interruptOnCancel=True)
        try:
            run_job(self._session, self._plan, subtasks=self._subtasks)
        except Exception as error:  # noqa: BLE001 - every failure of the job is the run's error
            self._error = cause_of_failure(error)

    def poll(self) -> ExecutionState:
        """The job's state; Spark itself restarts tasks, and its daemon reports how workers have ended."""
        running = self._thread.is_alive()
        ends = self._attempts.new_ends()
        error = None if self._error is None else self._attempts.death() or self._error
        return ExecutionState(running=running, error=error, ends=tuple(ends))

    def process(self, subtask: int) -> ProcessIdentity | None:
        """See `Workers`; the Python worker's process, as recorded by the newest attempt."""
        return self._attempts.process(subtask)

    def supersede(self, subtask: int) -> NoReturn:
        """Always raises: Spark starts a task's next attempt only after the last one has ended."""
        message = f"subtask {subtask} cannot be superseded at level spark"
        raise HarnessError(message, fix="a fault that needs it should have been refused: please report it")

    def spark(self) -> None:
        """None: it is one process."""
        return

    def executor(self) -> ProcessIdentity | None:
        """See `Workers`: the JVM, which is both driver and executor."""
        return identify(gateway_pid())

    def stop(self) -> list[int]:
        """Cancel the job; workers that go on are killed by the pid in their recording, also if Spark is gone."""
        running = self._attempts.running()
        # Before the job is cancelled, since Spark may kill them then.
        killed = [who.pid for who in running if is_alive(who)]
        with ExitStack() as stack:
            for who in running:
                stack.callback(end_process, who)
            if self._thread.is_alive():  # else the virtual machine may be gone, which is the run's error
                self._session.sparkContext.cancelJobGroup(self._plan.run_id)
        self._thread.join(timeout=_STOP_S)
        return killed
