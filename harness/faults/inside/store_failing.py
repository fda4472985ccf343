"""`store_failing`: for a while the checkpoint store refuses to write.

Evidence: the error of the system that the writer was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.faults.found import Found, Line, measurements
from harness.faults.inside.store_writes import found_writes
from harness.faults.kind import FaultKind
from harness.scenario import Fault

__all__ = ["KIND", "find_failing"]


def find_failing(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find the writes that it refused."""
    refused = list(measurements(fault.id, lines))
    errors = dict(sorted(Counter(line["errno"] for line in refused).items()))
    return found_writes(fault, lines, met=refused, evidence={"writes": len(refused), "errors": errors})


KIND = FaultKind(
    name="store_failing",
    about="For a while the store refuses to write: `no-space`, `read-only` or `io-error`.",
    evidence="A write was refused, with the error that the writer got.",
    found=find_failing,
    stalls=True,
)
