"""`flap`: the link goes down and up again, turn after turn.

Evidence: as many connections lost or refused as there were turns, or more, at least one of them in half of the turns;
and the link was up for as much of the time as asked, within a tenth of it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Closed, Lasts, Open
from harness.faults.real.evidence import Evidence, Seen, loss_evidence
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import taking_turns
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.link_acts import ShutPort

if TYPE_CHECKING:
    from harness.levels.sim.hub import Due
    from harness.levels.sim.link import Flight, Link

__all__ = ["Flap", "SimulatedFlap"]

_SHARE_OFF_MAX = 0.1
_NOTICE_US = 100_000
"""How long after a cut a client may take to notice and to write it down."""


class Flap(LinkFault):
    """Takes `link` down for `closed`, up for `open`, and so on."""

    about = "The link is down for `closed` and up for `open`, turn after turn."
    must_show = (
        "Connections were lost or refused, one a turn or more; the link was up for the share asked, "
        "within 10 %."
    )

    do: Literal["flap"]
    lasts: Lasts
    open: Open
    closed: Closed

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """It is up at the end, whichever turn it was."""

        def close() -> None:
            site.found(closed=monotonic_us())
            site.control.disable(self.link)

        def open_again() -> None:
            site.control.enable(self.link)
            site.found(opened=monotonic_us())

        try:
            with taking_turns((close, self.closed / 1000), (open_again, self.open / 1000)):
                yield
        finally:
            site.control.enable(self.link)

    def evidence(self, seen: Seen) -> Evidence:
        """How often it was down, what was lost then, and how much of the time it was up."""
        over = seen.over(self.link)
        closed = [facts["closed"] for facts in seen.found if "closed" in facts]
        opened = [facts["opened"] for facts in seen.found if "opened" in facts]
        turns = list(zip(closed, opened, strict=False))
        bitten = sum(any(down <= loss[0] <= up + _NOTICE_US for loss in over.losses) for down, up in turns)
        return self.told(turns, bitten=bitten, lost=loss_evidence(over, grace_us=_NOTICE_US))

    def told(self, turns: Sequence[tuple[int, int]], *, bitten: int, lost: Evidence) -> Evidence:
        """The evidence of `turns`: when the link went down and up again, of each turn that was whole, in one unit.

        `bitten` counts the turns in which a connection was `lost`.
        """
        if not turns or not lost or lost["connections_lost"] < len(turns) or bitten * 2 < len(turns):
            return {}
        told = {**lost, "turns": len(turns), "turns_with_losses": bitten}
        if len(turns) == 1:
            return told
        down = sum(up - down for down, up in turns[:-1])
        share = 1 - down / (turns[-1][0] - turns[0][0])
        asked = self.open / (self.open + self.closed)
        if abs(share - asked) > _SHARE_OFF_MAX:
            return {}
        return {**told, "share_up": round(share, 3), "share_asked": round(asked, 3)}

    def on_links(self) -> LinkAct:
        return SimulatedFlap(self)


class SimulatedFlap:
    """Down, up, down, up, until it heals. Mutable: counts what each turn cost."""

    def __init__(self, fault: Flap) -> None:
        self._fault = fault
        self._down = ShutPort()
        self._closed_ms: int | None = None
        """Since when it is closed; None: it is open."""
        self._lost_before = 0
        self._turns: list[tuple[int, int]] = []
        self._bitten = 0
        self._next: Due | None = None

    def begins(self, link: Link) -> None:
        """It closes."""
        self._closed_ms, self._lost_before = link.hub.now_ms, self._lost()
        self._down.begins(link)
        self._flips_after(self._fault.closed, link)

    def _flips_after(self, wait_ms: int, link: Link) -> None:
        self._next = link.hub.at(link.hub.now_ms + wait_ms, lambda: self._flips(link))

    def _flips(self, link: Link) -> None:
        if self._closed_ms is None:
            self.begins(link)
            return
        self._turns.append((self._closed_ms, link.hub.now_ms))
        self._bitten += self._lost() > self._lost_before
        self._closed_ms = None
        self._flips_after(self._fault.open, link)

    def _lost(self) -> int:
        lost: int = self._down.evidence().get("connections_lost", 0)
        return lost

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it while it is closed."""
        if self._closed_ms is not None:
            self._down.meets(link, flight)

    def ends(self, link: Link) -> None:
        """It listens, and goes on doing so; a turn that was cut short is none."""
        self._closed_ms = None
        if self._next is not None:
            link.hub.cancel(self._next)

    def evidence(self) -> Evidence:
        """As the real one's."""
        return self._fault.told(self._turns, bitten=self._bitten, lost=self._down.evidence())
