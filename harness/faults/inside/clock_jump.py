"""`clock_jump`: the attempt's wall clock is set (`jump`), stands still (`freeze`), or runs too fast or slow (`smear`).

The monotonic clock, on which every timer must count, is not touched: nobody can. Evidence: the difference between the
two clocks changed as asked, measured through the door that the operator would use.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line, acts, measurements
from harness.faults.kind import FaultKind
from harness.scenario import Fault

__all__ = ["KIND", "find_jump"]

_SHARE = 0.9
"""How much of what was asked for must have been measured: the two clocks are read one after the other."""


def find_jump(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find it in the attempt that acted it out first."""
    jumps = acts(fault.id, lines)
    if not jumps:
        return None
    first = jumps[0]
    measured = [
        line for line in measurements(fault.id, lines) if (line["s"], line["a"]) == (first["s"], first["a"])
    ]
    end = next((line for line in measured if line["when"] == "end"), None)
    ended_us = end["t"] if end is not None else lines[-1]["t"] if fault.lasts is None else None
    asked_ms = -(fault.lasts or 0) if first["how"] == "freeze" else fault.shift or 0
    moved = next((line for line in measured if _as_asked(_change_ms(line), asked_ms)), None)
    if moved is None:
        return Found(began_us=first["t"], ended_us=ended_us)
    evidence = {
        "subtask": first["s"],
        "how": first["how"],
        "asked_ms": asked_ms,
        "offset_changed_ms": max((_change_ms(line) for line in measured), key=abs),
    }
    return Found(began_us=first["t"], measured_us=moved["t"], ended_us=ended_us, evidence=evidence)


def _as_asked(change_ms: float, asked_ms: int) -> bool:
    return change_ms * asked_ms > 0 and abs(change_ms) >= abs(asked_ms) * _SHARE


def _change_ms(line: Line) -> float:
    """How far the fault had moved the clock: what it was set by at its begin, what had to be set back at its end."""
    before_ms, after_ms = line["before_ms"], line["after_ms"]
    change_ms: float = after_ms - before_ms if line["when"] == "begin" else before_ms - after_ms
    return round(change_ms, 1)


KIND = FaultKind(
    name="clock_jump",
    about="The attempt's wall clock is set forward or back, stands still, or is smeared; timers must not care.",
    evidence="The offset between the wall clock and the monotonic one changed as asked, measured in the attempt.",
    found=find_jump,
)
