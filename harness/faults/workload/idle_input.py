"""`idle_input`: before one record the source of a subtask is silent for a while; the others go on.

Evidence: the attempt took nothing for at least half of that while, right before that record. A source that is behind
its rate has a backlog, and taking that uses up some of the while.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line
from harness.faults.kind import FaultKind
from harness.faults.workload.taken import first_record, inputs
from harness.scenario import Fault

__all__ = ["KIND", "find_silence"]

_SHARE = 0.5
"""How much of the while must be found: what was due before it may have been late."""


def find_silence(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find it in the first attempt that took its record."""
    for taken in inputs(fault, lines):
        place = first_record(fault, taken)
        if place:
            return _found(fault, taken[place - 1], taken[place])
    return None


def _found(fault: Fault, before: Line, record: Line) -> Found:
    silent_ms = (record["t"] - before["t"]) / 1000
    began_us, ended_us = before["t"], record["t"]
    if silent_ms < (fault.lasts or 0) * _SHARE:
        return Found(began_us=began_us, ended_us=ended_us)
    evidence = {"subtask": record["s"], "silent_ms": round(silent_ms, 1), "asked_ms": fault.lasts}
    return Found(began_us=began_us, measured_us=ended_us, ended_us=ended_us, evidence=evidence)


KIND = FaultKind(
    name="idle_input",
    about="The source of one subtask is silent for a while.",
    evidence="The attempt took nothing for at least half of that while; a backlog uses up the rest.",
    found=find_silence,
)
