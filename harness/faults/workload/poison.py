"""`poison`: the calls of one record raise, never answer, or kill the worker; so often in all attempts together.

Evidence: of a call that raises, its failure with that error (or the dead letter); of one that is silent, that its
attempt recorded no answer of it but its timeout; of one that kills, that the attempt's process is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line
from harness.faults.kind import FaultKind
from harness.faults.workload.calls import find_calls
from harness.scenario import Fault

__all__ = ["KIND", "find_poison"]


def find_poison(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find each call that it struck."""
    return find_calls(fault, lines, _came_of)


def _came_of(act: Line, lines: Sequence[Line]) -> Line | None:
    """The line that shows that this call went wrong as meant."""
    mine = [
        line
        for line in lines
        if (line.get("s"), line.get("a")) == (act["s"], act["a"])
        and line["t"] >= act["t"]
        and line is not act
    ]
    if act["what"] == "kills":
        return next((line for line in mine if line["k"] == "kill"), None)
    outcome = next((line for line in mine if line["k"] == "res" and line["id"] == act["id"]), None)
    if act["what"] == "raises":
        failed = outcome is not None and outcome["r"] == "fail" and "Poisoned" in str(outcome.get("error"))
        return outcome if failed else None
    last = mine[-1] if mine else None
    return (last if outcome is None else outcome) if outcome is None or outcome["r"] == "timeout" else None


KIND = FaultKind(
    name="poison",
    about="The calls of one record raise, are never answered, or kill the worker.",
    evidence="The call failed with that error, had no answer but its timeout, or its attempt's process is gone.",
    found=find_poison,
)
