"""V17, the time to recover, as values: a measurement of what each disturbance cost, never a verdict.

Answers to Jepsen's performance plots with their nemesis bands. Invariant: a number is given only where the
history holds what it is made of; where it does not, the reason stands in its place. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Cost", "Recovery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one fault or kill cost."""

    what: str
    """`fault "spike" (all subtasks)`, `kill of attempt 1 of subtask 0`."""
    event: int
    """The event by which it began."""
    begin_us: int
    """Since the history's first event."""
    detect_us: int | None = None
    """A fault: until the first call that failed, or attempt that failed or died. A kill: since its last sign."""
    first_output_us: int | None = None
    """From its end (a kill: from the kill) to the first result after it."""
    steady_us: int | None = None
    """From its end until results were again as quick as 99 in 100 were before, for a row of them."""
    replayed: int | None = None
    """A kill: records that the next attempt took up again."""
    replayed_of: int | None = None
    """The records accepted by then."""
    deficit: int = 0
    """Records by which what came in outran what left, summed over tenths of a second, from its begin until steady."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """The measures that have no number, and why."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {
            "what": self.what,
            "event": self.event,
            "begin_us": self.begin_us,
            "detect_us": self.detect_us,
            "first_output_us": self.first_output_us,
            "steady_us": self.steady_us,
            "replayed_records": self.replayed,
            "accepted_records": self.replayed_of,
            "deficit_records": self.deficit,
            "absent": dict(self.absent),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Every disturbance of a history with its cost; or why there is none."""

    costs: tuple[Cost, ...] = ()
    omitted: int = 0
    """Further disturbances that were only counted."""
    why: str = ""
    """Why nothing could be measured."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {"costs": [cost.as_json() for cost in self.costs], "omitted": self.omitted, "why": self.why}
