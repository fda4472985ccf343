"""The process from which Spark forks its Python workers, with an attempt's imports already loaded.

Answers to `pyspark.daemon`, which it becomes. Invariant: it only imports, so a worker differs from PySpark's only in
its shorter start; the restart time after a kill is Spark's own.
"""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped]  # its stubs are half as large as it
import pyarrow as pa
from pyspark.daemon import manager

import harness.levels.live.place
import harness.levels.spark.job

PRELOADED = (pd, pa, harness.levels.live.place, harness.levels.spark.job)
"""Referenced so that tools do not remove the imports as unused."""

if __name__ == "__main__":
    manager()
