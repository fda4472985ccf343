"""`flap`: the link goes down for `closed` and up for `open`, in turns.

Evidence: at least as many connections were lost or refused as there were turns, and in at least half of the turns; and
the share of time with the link up was within 10 percentage points of the requested one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Closed, Lasts, Open
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import taking_turns
from harness.faults.simulated.link_acts import ShutPort
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.hub import Due
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_SHARE_OFF_MAX = 0.1
_NOTICE_US = 100_000
"""How long a client may take to notice and record a lost connection."""


class Flap(LinkFault):
    """Takes `link` down for `closed` and up for `open`, in turns."""

    about = "The link goes down for `closed` and up for `open`, in turns."
    must_show = (
        "At least one connection a turn was lost or refused; the link was up for the requested share, within "
        "10 %."
    )
    can = ("res",)

    do: Literal["flap"]
    lasts: Lasts
    open: Open
    closed: Closed

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The link is up when the block ends."""

        def close() -> None:
            site.note_fact(closed=monotonic_us())
            site.control.disable(self.link)

        def open_again() -> None:
            site.control.enable(self.link)
            site.note_fact(opened=monotonic_us())

        try:
            with taking_turns((close, self.closed / 1000), (open_again, self.open / 1000)):
                yield
        finally:
            site.control.enable(self.link)

    def evidence(self, seen: Seen) -> Evidence:
        over = seen.over(self.link)
        closed = [facts["closed"] for facts in seen.facts if "closed" in facts]
        opened = [facts["opened"] for facts in seen.facts if "opened" in facts]
        turns = list(zip(closed, opened, strict=False))
        effective = sum(any(down <= loss[0] <= up + _NOTICE_US for loss in over.losses) for down, up in turns)
        return self.told(turns, effective=effective, lost=over.loss_evidence(grace_us=_NOTICE_US))

    def told(self, turns: Sequence[tuple[int, int]], *, effective: int, lost: Evidence) -> Evidence:
        """The evidence of complete `turns` (down at, up at; in any one unit of time).

        `effective` counts the turns in which a connection was lost.
        """
        if not turns or not lost or lost["connections_lost"] < len(turns) or effective * 2 < len(turns):
            return {}
        told = {**lost, "turns": len(turns), "turns_with_losses": effective}
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
    """Takes a simulated link down and up until it heals. Mutable: counts what was lost in each turn."""

    def __init__(self, fault: Flap) -> None:
        self._fault = fault
        self._down = ShutPort()
        self._closed_ms: int | None = None
        """Since when the link is down; None: it is up."""
        self._lost_before = 0
        self._turns: list[tuple[int, int]] = []
        self._effective = 0
        self._next: Due | None = None

    def begins(self, link: SimulatedLink) -> None:
        self._closed_ms, self._lost_before = link.hub.now_ms, self._lost()
        self._down.begins(link)
        self._flips_after(self._fault.closed, link)

    def _flips_after(self, wait_ms: int, link: SimulatedLink) -> None:
        self._next = link.hub.at(link.hub.now_ms + wait_ms, lambda: self._flips(link))

    def _flips(self, link: SimulatedLink) -> None:
        if self._closed_ms is None:
            self.begins(link)
            return
        self._turns.append((self._closed_ms, link.hub.now_ms))
        self._effective += self._lost() > self._lost_before
        self._closed_ms = None
        self._flips_after(self._fault.open, link)

    def _lost(self) -> int:
        lost: int = self._down.evidence().get("connections_lost", 0)
        return lost

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Refuses new connections while the link is down."""
        if self._closed_ms is not None:
            self._down.on_message(link, flight)

    def ends(self, link: SimulatedLink) -> None:
        """The link stays up; an incomplete turn does not count."""
        self._closed_ms = None
        if self._next is not None:
            link.hub.cancel(self._next)

    def evidence(self) -> Evidence:
        return self._fault.told(self._turns, effective=self._effective, lost=self._down.evidence())
