"""An act: one time that a fault of a scenario acts in a simulated run, from its beginning to what is left of it.

The counterpart of `OutsideFault.inject`. Invariant: what `evidence` tells was counted by the act itself while it
lasted; an act that met nobody has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["Act", "Evidence", "LinkAct", "OnLinks"]

Evidence = dict[str, Any]


class Act(Protocol):
    """Begun once and ended once; the hub's time passes in between."""

    @property
    def settles_ms(self) -> int:
        """How long after its end there may be more to tell; 0: nothing comes after."""

    def begins(self) -> None:
        """From now on. Where an attempt does it to itself, this may return only when it is over."""

    def ends(self) -> None:
        """It is healed."""

    def evidence(self) -> Evidence:
        """What it did so far; empty: nothing."""


class LinkAct(Protocol):
    """What acts on simulated links while it lasts."""

    def begins(self, link: Link) -> None:
        """It acts from now on, and on what is on its way."""

    def meets(self, link: Link, flight: Flight) -> None:
        """A request is sent: change when, or how, it ends."""

    def ends(self, link: Link) -> None:
        """It is healed."""

    def evidence(self) -> Evidence:
        """What it did; empty: nothing."""


class OnLinks:
    """A link act on several links."""

    settles_ms = 0

    def __init__(self, act: LinkAct, links: Sequence[Link]) -> None:
        self._act = act
        self._links = links

    def begins(self) -> None:
        """On each in turn."""
        for link in self._links:
            link.begin(self._act)

    def ends(self) -> None:
        """In the reverse order."""
        for link in reversed(self._links):
            link.heal(self._act)

    def evidence(self) -> Evidence:
        """Of all of them."""
        return self._act.evidence()
