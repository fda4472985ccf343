"""The kinds of faults of an attempt from inside, in the order of the scenario's table."""

from __future__ import annotations

from harness.faults.inside import (
    clock_jump,
    loop_stall,
    store_failing,
    store_newest_missing,
    store_slow,
    store_torn,
)
from harness.faults.kind import FaultKind

__all__ = ["INSIDE"]

INSIDE: tuple[FaultKind, ...] = (
    loop_stall.KIND,
    clock_jump.KIND,
    store_slow.KIND,
    store_failing.KIND,
    store_torn.KIND,
    store_newest_missing.KIND,
)
