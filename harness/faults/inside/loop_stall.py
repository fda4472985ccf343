"""`loop_stall`: the task's thread stands still for a while, and with it the event loop of its attempt.

Evidence: a callback that was due when it began was run later than that, by at least the time that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line, acts, measurements
from harness.faults.kind import FaultKind
from harness.scenario import Fault

__all__ = ["KIND", "find_stall"]


def find_stall(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find all times of it, from the first to the last; the loop must have been that late each time."""
    stalls = acts(fault.id, lines)
    if not stalls:
        return None
    began_us = stalls[0]["t"]
    lags = list(measurements(fault.id, lines))
    late = [line for line in lags if line["lag_ms"] >= (fault.lasts or 0)]
    if not late or len(late) < len(lags):
        return Found(began_us=began_us, ended_us=lags[-1]["t"] if lags else None)
    evidence = {
        "subtask": stalls[0]["s"],
        "asked_ms": fault.lasts,
        "loop_lag_ms": min(line["lag_ms"] for line in late),
        "times": len(late),
    }
    return Found(began_us=began_us, measured_us=late[0]["t"], ended_us=late[-1]["t"], evidence=evidence)


KIND = FaultKind(
    name="loop_stall",
    about="The task's thread stands still for a while, and with it its event loop.",
    evidence="A callback that was due when it began came late by at least that while.",
    found=find_stall,
    stalls=True,
)
