"""The kinds of faults of a link that any proxy with Toxiproxy's toxics can do, in the order of the scenario's table."""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.network import (
    bandwidth,
    blackhole,
    cut,
    down,
    flap,
    jitter,
    latency,
    limit,
    one_way,
    reset,
    slow_loris,
)

__all__ = ["NETWORK"]

NETWORK: tuple[FaultKind, ...] = (
    latency.KIND,
    jitter.KIND,
    one_way.KIND,
    blackhole.KIND,
    reset.KIND,
    cut.KIND,
    down.KIND,
    flap.KIND,
    bandwidth.KIND,
    slow_loris.KIND,
    limit.KIND,
)
