"""The rows of checking on Spark's executors: a folder of Parquet, against one process of this machine, in turns.

Invariant: a history is judged alike in every way, and acquitted, or there is no time. Spark's start is not counted; the
detail of the first row has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.history.columnar import write_parts
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.registry import CHECKERS
from harness.levels.spark.checking import CHECKING, check_on_spark
from harness.levels.spark.executors import SparkExecutors, open_executors
from harness.system.clock import monotonic_us
from tools.bench.judging_memory import require_clean
from tools.bench.regular_history import regular_header, regular_history
from tools.bench.rounds import take_turns
from tools.bench.row import Row, ratio_row

MASTER = "local-cluster[2,1,1024]"
"""Two executors, each a JVM of its own with one core, as on two hosts."""
_TASK_MB = 512


def rows_on_executors(
    *, sizes: tuple[int, ...], rounds: int, say: Callable[[str], None], master: str = MASTER
) -> Iterator[Row]:
    """Measure all rows, with histories of these sizes in events."""
    with TemporaryDirectory(prefix="floodmark-judging-on-") as name:
        folders = {size: Path(name) / f"{size}" for size in sizes}
        for size, folder in folders.items():
            say(f"a folder of {size:,} events in Parquet")
            write_parts(folder, regular_header("ordered"), regular_history("ordered", size))
        say(f"{master} starts")
        began_us = monotonic_us()
        with open_executors(master, settings=CHECKING) as executors:
            started_s = (monotonic_us() - began_us) / 1e6
            for size, folder in folders.items():
                say(f"checking {size:,} events on {master}")
                yield from _rows(executors, folder, size, rounds, f"{master}, started in {started_s:.1f} s")


def _rows(executors: SparkExecutors, folder: Path, size: int, rounds: int, detail: str) -> Iterator[Row]:
    largest: list[int] = []
    costs = take_turns(
        {
            "one process": partial(_alone_s, folder, size),
            "executors": partial(_on_executors_s, executors, folder, size, largest),
        },
        rounds=rounds,
    )
    rates = ", ".join(f"{name} {costs.per_second(name):,.0f}/s" for name in costs.of)
    yield ratio_row(
        f"{size:,} events in a folder of Parquet: time of `check --on {MASTER}`, against one process",
        costs.cost("executors", against="one process"),
        goal=1,
        larger_is_better=False,
        rounds=rounds,
        detail=f"{rates}; {detail}",
    )
    yield Row(
        name=f"{size:,} events in a folder of Parquet: memory of the largest task",
        value=max(largest),
        unit="MB",
        rounds=rounds,
        goal=_TASK_MB,
        larger_is_better=False,
        detail="the peak of an executor's Python process; without a history it has some 100 MB",
    )


def _alone_s(folder: Path, size: int) -> float:
    began_us = monotonic_us()
    judged = judge_file(folder)
    took_us = monotonic_us() - began_us
    require_clean(judged)
    return took_us / 1e6 / size


def _on_executors_s(executors: SparkExecutors, folder: Path, size: int, largest: list[int]) -> float:
    began_us = monotonic_us()
    done = check_on_spark(executors.session, folder, checkers=CHECKERS, slots=executors.slots)
    took_us = monotonic_us() - began_us
    require_clean(done.judged)
    largest.append(done.largest_task_mb)
    return took_us / 1e6 / size
