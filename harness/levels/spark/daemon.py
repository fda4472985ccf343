"""The process that Spark forks its Python workers from, with what an attempt needs already imported.

Answers to `pyspark.daemon`, which it becomes. Invariant: it does nothing of its own but import, so a worker
differs from PySpark's only in how soon it can begin: what a killed worker's successor costs is then Spark's.
"""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped]  # its stubs are half as large as it
import pyarrow as pa
from pyspark.daemon import manager

import harness.levels.live.place
import harness.levels.spark.job

__all__ = ["PRELOADED"]

PRELOADED = (pd, pa, harness.levels.live.place, harness.levels.spark.job)
"""Held so that no tool takes the imports for unused."""

if __name__ == "__main__":
    manager()
