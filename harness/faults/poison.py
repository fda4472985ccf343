"""`poison`: the calls of one record raise, are never answered, or kill the worker, `times` times over all attempts.

Answers to a user function that has a bug for one record. Evidence by `how`: `raises`, the call failed with that error;
`silent`, the attempt recorded no result of the call except a timeout; `kills`, the attempt's process is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from harness.faults.model.fault import Effect
from harness.faults.model.fields import Way
from harness.faults.model.workload import CallFault, StruckCall, find_calls
from harness.faults.real.evidence import RecordedFault
from harness.history.event import Kill, Res
from harness.history.notes import Acted, Line


class Poison(CallFault):
    """Makes the calls of one record go wrong."""

    about = "The calls of one record raise, are never answered, or kill the worker."
    must_show = (
        "The call failed with that error, had no result except a timeout, or its attempt's process is gone."
    )
    can = ("late",)

    do: Literal["poison"]
    how: Annotated[Literal["raises", "silent", "kills"], Way]

    @property
    def effects(self) -> tuple[Effect, ...]:
        """A silent call times out; the other failures name it."""
        return self.can if self.how == "silent" else ()

    @property
    def does(self) -> str:
        return self.how

    @property
    def records(self) -> int:
        """One record; `times` counts its calls."""
        return 1

    def act_on_call(self, call: StruckCall) -> None:
        match self.how:
            case "raises":
                call.fail(f"record {call.id} is poisoned")
            case "kills":
                call.die(f"record {call.id} is poisoned")
            case "silent":
                """The call is never made and never completes."""

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        return find_calls(self, lines, _came_of)


def _came_of(act: Acted, lines: Sequence[Line]) -> Line | None:
    """The line that shows that this call went wrong in the requested way."""
    mine = [
        line
        for line in lines
        if (getattr(line, "s", None), getattr(line, "a", None)) == (act.s, act.a)
        and line.t >= act.t
        and line is not act
    ]
    if act.what == "kills":
        return next((line for line in mine if isinstance(line, Kill)), None)
    outcome = next((line for line in mine if isinstance(line, Res) and line.id == act.facts["id"]), None)
    if act.what == "raises":
        failed = outcome is not None and outcome.r == "fail" and "Poisoned" in str(outcome.error)
        return outcome if failed else None
    if outcome is None:
        return mine[-1] if mine else None
    return outcome if outcome.r == "timeout" else None
