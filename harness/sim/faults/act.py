"""An act: one time that a fault of a scenario acts in a simulated run, from its beginning to what is left of it.

The counterpart of `harness.faults.fault.OutsideFault`. Invariant: what `evidence` tells was counted by the act itself
while it lasted; an act that met nobody has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from harness.sim.link import Link, LinkFault

__all__ = ["Act", "Evidence", "OnLinks"]

Evidence = dict[str, Any]


class Act(Protocol):
    """Begun once and ended once; the hub's time passes in between."""

    def begins(self) -> None:
        """From now on. Where an attempt does it to itself, this may return only when it is over."""

    def ends(self) -> None:
        """It is healed."""

    def evidence(self) -> Evidence:
        """What it did so far; empty: nothing."""

    @property
    def settles_ms(self) -> int:
        """How long after its end there may be more to tell; 0: nothing comes after."""


class OnLinks:
    """A fault of links, acting on these. Mutable: knows whether it does."""

    settles_ms = 0

    def __init__(self, fault: LinkFault, links: Sequence[Link]) -> None:
        self._fault = fault
        self._links = links

    def begins(self) -> None:
        """On each in turn."""
        for link in self._links:
            link.begin(self._fault)

    def ends(self) -> None:
        """In the reverse order."""
        for link in reversed(self._links):
            link.heal(self._fault)

    def evidence(self) -> Evidence:
        """Of all of them."""
        return self._fault.evidence()
