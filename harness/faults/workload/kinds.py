"""The kinds of faults of what a source sends and an adapter answers, in the order of the scenario's table."""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.workload import (
    duplicate_completion,
    hot_key,
    idle_input,
    missing_completion,
    poison,
    watermark_burst,
)

__all__ = ["WORKLOAD"]

WORKLOAD: tuple[FaultKind, ...] = (
    poison.KIND,
    duplicate_completion.KIND,
    missing_completion.KIND,
    hot_key.KIND,
    watermark_burst.KIND,
    idle_input.KIND,
)
