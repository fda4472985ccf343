"""`store_slow`: for a while each write of a checkpoint's part into the store takes longer.

Evidence: how long the writer was held, by its own clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line, measurements
from harness.faults.inside.store_writes import found_writes
from harness.faults.kind import FaultKind
from harness.scenario import Fault

__all__ = ["KIND", "find_slow"]


def find_slow(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find the writes that it held, each by at least what was asked for."""
    held = [line for line in measurements(fault.id, lines) if line["took_ms"] >= (fault.delay or 0)]
    slowest_ms = max((line["took_ms"] for line in held), default=0)
    return found_writes(fault, lines, met=held, evidence={"writes": len(held), "slowest_ms": slowest_ms})


KIND = FaultKind(
    name="store_slow",
    about="For a while each write of a checkpoint's part into the store takes longer, by `delay`.",
    evidence="A write was held by at least that long.",
    found=find_slow,
    stalls=True,
)
