"""Runner `stateful`: the operator in `transformWithState`, with its snapshots in Spark's own state."""

from __future__ import annotations

from harness.errors import HarnessError
from harness.levels.spark.driver import RunOfDriver

__all__ = ["perform_stateful"]


def perform_stateful(run: RunOfDriver) -> None:
    """Not built yet; `harness.levels.spark.runners` refuses it before anything is started."""
    message = f"runner {run.plan.runner} is not built"
    raise HarnessError(message, fix="use --runner micro-batch")
