"""The kinds of faults of the process of a worker, in the order of the scenario's table."""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.process import kill_worker, pause_executor, pause_worker, zombie

__all__ = ["PROCESS"]

PROCESS: tuple[FaultKind, ...] = (kill_worker.KIND, pause_worker.KIND, zombie.KIND, pause_executor.KIND)
