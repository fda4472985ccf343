"""`poison`: the calls of one record raise, are never answered, or kill the worker; so often in all attempts together.

Answers to a user's function with a bug for one record. Evidence: of a call that raises, its failure with that error
(or the dead letter); of one that is silent, that its attempt recorded no answer of it but its timeout; of one that
kills, that the attempt's process is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from harness.faults.model.fields import Way
from harness.faults.model.workload import CallFault, StruckCall
from harness.faults.real.calls import find_calls
from harness.faults.real.evidence import Found, Line

__all__ = ["Poison"]


class Poison(CallFault):
    """The calls of one record go wrong."""

    about = "The calls of one record raise, are never answered, or kill the worker."
    must_show = (
        "The call failed with that error, had no answer but its timeout, or its attempt's process is gone."
    )

    do: Literal["poison"]
    how: Annotated[Literal["raises", "silent", "kills"], Way]

    @property
    def does(self) -> str:
        return self.how

    @property
    def records(self) -> int:
        """One, however often its calls go wrong."""
        return 1

    def strike(self, call: StruckCall) -> None:
        match self.how:
            case "raises":
                call.fail(f"record {call.id} is poisoned")
            case "kills":
                call.die(f"record {call.id} is poisoned")
            case "silent":
                """It never ends."""

    def found(self, lines: Sequence[Line]) -> Found | None:
        """Each call that it struck."""
        return find_calls(self, lines, _came_of)


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
