"""`watermark_burst`: before one record the source sends many watermarks in a row.

Evidence: an attempt took at least so many watermarks in a row, right before that record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from harness.faults.found import Found, Line
from harness.faults.kind import FaultKind
from harness.faults.workload.taken import first_record, inputs
from harness.scenario import Fault

__all__ = ["KIND", "find_burst"]


def find_burst(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find it in the first attempt that took its record."""
    for taken in inputs(fault, lines):
        place = first_record(fault, taken)
        if place is not None:
            return _found(fault, taken[:place], taken[place])
    return None


def _found(fault: Fault, before: Sequence[Line], record: Line) -> Found:
    burst = list(takewhile(lambda line: line["k"] == "wm", reversed(before)))
    began_us, ended_us = burst[-1]["t"] if burst else record["t"], record["t"]
    if len(burst) < (fault.count or 0):
        return Found(began_us=began_us, ended_us=ended_us)
    evidence = {
        "subtask": record["s"],
        "watermarks": len(burst),
        "within_ms": round((ended_us - began_us) / 1000, 1),
    }
    return Found(began_us=began_us, measured_us=ended_us, ended_us=ended_us, evidence=evidence)


KIND = FaultKind(
    name="watermark_burst",
    about="Before one record the source sends many watermarks in a row.",
    evidence="An attempt took at least so many watermarks in a row, right before that record.",
    found=find_burst,
)
