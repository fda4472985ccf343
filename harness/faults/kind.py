"""A kind of fault: its words for people, how one is made from a scenario's entry, and how it is found in a run.

Invariant: a kind is either done from outside (`outside`) or by an attempt to itself (`found`), and either way what
shows that it bit comes from the run's recorded lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.faults.fault import OutsideFault
from harness.faults.found import Found, Line
from harness.scenario import Fault, FaultName

__all__ = ["FaultKind", "FindsIt", "MakesOutside"]

MakesOutside = Callable[[Fault, int], OutsideFault]
"""The fault that a scenario's entry means, in a run with this seed."""
FindsIt = Callable[[Fault, Sequence[Line]], Found | None]
"""What a run's lines show of it; None: it never began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind; exactly one of `outside` and `found` is there."""

    name: FaultName
    about: str
    """What it does, one sentence."""
    evidence: str
    """What must be found in the run, or the run is vacuous."""
    outside: MakesOutside | None = None
    found: FindsIt | None = None
    stalls: bool = False
    """Whether it stops or slows the operator's own process or clock, so that the operator may be late."""

    def __post_init__(self) -> None:
        if (self.outside is None) == (self.found is None):
            message = (
                f"the kind {self.name} is done from outside or found in the lines, and one of the two only"
            )
            raise ValueError(message)
