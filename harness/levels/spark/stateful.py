"""Runner `stateful`: not yet."""

from __future__ import annotations

from harness.levels.spark.driver import RunOfDriver


def perform_stateful(run: RunOfDriver) -> None:
    raise NotImplementedError
