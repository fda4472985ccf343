"""Spark's executors as machines for work: simulated runs, parts of a history (`harness.system.pool`).

Each piece is a partition, small enough that Spark runs a lost executor's share again at little cost. Some jobs overlap,
so that no slot waits for the slowest piece of a job. Invariants: results come in order, each once, because Spark takes
one result for each partition; an error of the work is raised as itself and is not tried again.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from harness.levels.spark.session import spark_session
from harness.levels.spark.shipped_code import code_archive, executor_settings, home_of_our_code
from harness.system.clock import monotonic_us
from harness.system.errors import FloodmarkError, UsageError, WorldError
from harness.system.pool import always

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_PIECE_S: Final = 2.0
"""How long a piece should take: its start costs about 20 ms, and a lost executor loses at most this much."""
_FIRST: Final = 8
"""Items of the first pieces, while it is not known how long one takes."""
_JOBS: Final = 3
"""Jobs under way at a time."""
_WAVES: Final = 2
"""Pieces of a job for each slot."""
_FAILURES_MAX: Final = 8
"""How often one piece may fail, with its executor, before the campaign does."""
_POLL_S: Final = 0.2
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_PRETEND = re.compile(r"local-cluster\[\d+,\d+,\d+\]")
_OF_A_CLUSTER = re.compile(r"spark://[^:,/]+:\d+(?:,[^:,/]+:\d+)*")
_FORMS: Final = "local[2], local-cluster[2,1,1024] or spark://HOST:PORT"
_LAST_ERROR = re.compile(r"^\s*(?:\w+\.)*(\w*(?:Error|Exception)\b: .+)$", re.MULTILINE)


class _Done(NamedTuple):
    """What a piece sends back."""

    packed: bytes
    """The pickled result, or the error that the work raised."""
    failed: bool
    items: int
    took_us: int


class SparkExecutors:
    """The `Executors` of a session. Mutable: it learns how long an item takes."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._context = session.sparkContext
        self._groups = count(1)

    @property
    def slots(self) -> int:
        """How many pieces can run at a time, by what the cluster offers now."""
        return max(1, int(self._context.defaultParallelism))

    def map(
        self,
        work: Callable[[Sequence[_Item]], _Result],
        items: Sequence[_Item],
        *,
        most: int,
        goes_on: Callable[[], bool] = always,
    ) -> Iterator[_Result]:
        """See `harness.system.pool.Executors`."""
        group = f"floodmark-{next(self._groups)}"
        size, at = min(_FIRST, most), 0
        under_way: deque[Future[list[_Done]]] = deque()
        is_over = False
        with ThreadPoolExecutor(_JOBS) as threads:
            try:
                while at < len(items) or under_way:
                    while at < len(items) and len(under_way) < _JOBS:
                        pieces = self._cut(items, at, size)
                        at += sum(map(len, pieces))
                        under_way.append(threads.submit(self._job, group, work, pieces))
                    dones = _awaited(under_way.popleft(), goes_on)
                    for done in dones:
                        found = pickle.loads(done.packed)  # noqa: S301 - our own executor wrote it
                        if done.failed:
                            raise found
                        yield found
                        if not goes_on():
                            return
                    if not dones:
                        return
                    is_over = at == len(items) and not under_way
                    # Items that take `_PIECE_S`, by the pieces of the last job.
                    count, took_us = sum(done.items for done in dones), sum(done.took_us for done in dones)
                    size = max(1, min(most, round(count * _PIECE_S * 1e6 / max(1, took_us))))
            finally:
                # Futures that have not begun would begin a job after the cancellation.
                for future in under_way:
                    future.cancel()
                if not is_over:
                    with suppress(Exception):  # a dead JVM has no jobs
                        self._context.cancelJobGroup(group)

    def _cut(self, items: Sequence[_Item], at: int, size: int) -> list[Sequence[Any]]:
        """The pieces of the next job; near the end, smaller ones, so that every slot has some."""
        rest, pieces = len(items) - at, self.slots * _WAVES
        size = min(size, max(1, -(-rest // pieces)))
        ends = range(at, min(len(items), at + size * pieces), size)
        return [items[first : first + size] for first in ends]

    def _job(self, group: str, work: Callable[[Any], Any], pieces: Sequence[Any]) -> list[_Done]:
        """One job, with a partition for each piece; called in a thread of its own."""
        self._context.setJobGroup(group, "floodmark", interruptOnCancel=False)
        given = self._context.parallelize([(work, piece) for piece in pieces], len(pieces))
        return list(given.map(_perform).collect())


def _perform(task: tuple[Callable[[Any], Any], Sequence[Any]]) -> _Done:
    """One piece, on an executor."""
    work, items = task
    began_us = monotonic_us()
    failed = False
    try:
        packed = pickle.dumps(work(items), protocol=pickle.HIGHEST_PROTOCOL)
    except FloodmarkError as error:
        packed, failed = pickle.dumps(error), True
    return _Done(packed, failed, len(items), monotonic_us() - began_us)


def _awaited(future: Future[list[_Done]], goes_on: Callable[[], bool]) -> list[_Done]:
    """The results of a job; none if the work is stopped meanwhile."""
    while True:
        try:
            return future.result(timeout=_POLL_S)
        except NotYet:
            if not goes_on():
                return []
        except FloodmarkError:
            raise
        except Exception as error:
            if not goes_on():
                return []
            raise _failure(error) from error


def _failure(error: Exception) -> WorldError:
    """The error of a job, without its Java stack."""
    said = _LAST_ERROR.findall(str(error))
    why = said[-1] if said else str(error).partition("\n")[0]
    if "ModuleNotFoundError" in why:
        fix = "install Floodmark's dependencies where the executors run, or name a Python there with PYSPARK_PYTHON"
        return WorldError(f"the executors lack a package: {why}", fix=fix)
    return WorldError(
        f"Spark could not do the work: {why}", fix="look at the executors' logs, and at the cluster's health"
    )


@contextmanager
def open_executors(
    master: str, *, modules_in: Sequence[Path] = (), settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkExecutors]:
    """The executors of `master` while the block lasts; `modules_in`: folders of a user's modules to send to them.

    Raises UsageError for a master that Spark does not know, WorldError if no session can be started.
    """
    refuse_master(master)
    local = _LOCAL.fullmatch(master)
    folder, application = Path(tempfile.mkdtemp(prefix="floodmark-executors-")), ""
    try:
        with spark_session(
            folder=folder,
            master=f"local[{local[1] or 1},{_FAILURES_MAX}]" if local else master,  # with retries
            settings={**_settings(master, folder, modules_in), **settings},
        ) as session:
            application = session.sparkContext.applicationId
            yield SparkExecutors(session)
    finally:
        _sweep_work_folder(application)
        shutil.rmtree(folder, ignore_errors=True)


def _settings(master: str, folder: Path, modules_in: Sequence[Path]) -> dict[str, str]:
    """The settings of a session for work, which starts nothing that must be watched."""
    found = {
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.task.maxFailures": str(_FAILURES_MAX),
        "spark.python.worker.reuse": "true",
        **_address_towards(master),
    }
    if _LOCAL.fullmatch(master):
        places = [str(home_of_our_code()), *map(str, modules_in)]
        return {**found, "spark.executorEnv.PYTHONPATH": os.pathsep.join(places)}
    return {**found, **executor_settings(code_archive(folder, modules_in=modules_in))}


def refuse_master(master: str) -> None:
    """Raises UsageError if its form is unknown."""
    if not (_LOCAL.fullmatch(master) or _PRETEND.fullmatch(master) or _OF_A_CLUSTER.fullmatch(master)):
        raise UsageError(f"--on {master} names no master of Spark", fix=f"name one as {_FORMS}")


def _address_towards(master: str) -> dict[str, str]:
    """The driver's address on the way to a master (the first of several) on another machine; here: the loopback's."""
    host = master.removeprefix("spark://").partition(":")[0] if master.startswith("spark://") else ""
    if not host or host == "localhost" or host.startswith("127."):
        return {}
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 7077))
            return {"spark.driver.host": probe.getsockname()[0], "spark.driver.bindAddress": "0.0.0.0"}  # noqa: S104
    except OSError as error:
        message = f"--on {master}: {host} cannot be reached: {error.strerror or error}"
        raise WorldError(message, fix="name the master by an address that this machine knows") from error


def _sweep_work_folder(application: str) -> None:
    """Removes what the executors of `local-cluster` leave in PySpark's own folder."""
    spark = find_spec("pyspark")
    if application and spark is not None and spark.origin is not None:
        work = Path(spark.origin).parent / "work"
        shutil.rmtree(work / application, ignore_errors=True)
        with suppress(OSError):  # absent, or another application's are in it
            work.rmdir()
