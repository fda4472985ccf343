"""The operator's rate inside a Spark task, against the same function in this process, in turns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from harness.levels.spark.session import spark_session
from harness.system.clock import monotonic_us
from tools.bench.operator_rate import OperatorLoad, run_operator
from tools.bench.row import Row

_ROUNDS = 5
_LOAD = OperatorLoad(records=40_000, capacity=100, latency_ms=5)
_GOAL = 0.9


def _in_task(load: OperatorLoad, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        took = [run_operator(load) for _ in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(took, pa.float64())], names=["seconds"])


def spark_rows(folder: Path) -> list[Row]:
    """Spark's rate over the plain one with 100 lookups of 5 ms in flight, for the operator and for the whole job."""
    plain, inside, whole = [], [], []
    with spark_session(slots=2, folder=folder) as session:
        _job(session, OperatorLoad(records=100, capacity=100, latency_ms=1))  # starts the Python worker
        for _ in range(_ROUNDS):
            plain.append(run_operator(_LOAD))
            began_us = monotonic_us()
            inside.append(_job(session, _LOAD))
            whole.append((monotonic_us() - began_us) / 1e6)
    detail = f"{_LOAD.records} records; plain {median(plain):.2f} s, ideal {_LOAD.ideal_s:.2f} s"
    return [
        _row("operator under Spark / without, 100 in flight, 5 ms", median(plain) / median(inside), detail),
        _row("the same, with the whole Spark job's time", median(plain) / median(whole), detail),
    ]


def _row(name: str, ratio: float, detail: str) -> Row:
    return Row(
        name=name, value=ratio, unit="x", rounds=_ROUNDS, goal=_GOAL, larger_is_better=True, detail=detail
    )


def _job(session: Any, load: OperatorLoad) -> float:
    """Seconds of the operator inside one task of this Spark session."""
    one = session.range(0, 1, 1, 1)
    return float(one.mapInArrow(partial(_in_task, load), "seconds double").collect()[0][0])
