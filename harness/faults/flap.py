"""`flap`: the link goes down and up again, turn after turn.

Evidence: as many connections lost or refused as there were turns, or more, at least one of them in half of the turns;
and the link was up for as much of the time as asked, within a tenth of it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Closed, Lasts, Open
from harness.faults.real.fault_site import Site
from harness.faults.real.repeating import taking_turns
from harness.faults.real.seen import Evidence, Seen, loss_evidence
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.shut_port import ShutPort

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
        turns = self._turns(seen)
        lost = loss_evidence(seen.over(self.link), grace_us=_NOTICE_US)
        if not turns or not lost or lost["connections_lost"] < len(turns):
            return {}
        losses = [loss[0] for loss in seen.over(self.link).losses]
        bitten = sum(any(down <= at <= up + _NOTICE_US for at in losses) for down, up in turns)
        share = self._share_up(turns)
        asked = self.open / (self.open + self.closed)
        if bitten * 2 < len(turns) or (share is not None and abs(share - asked) > _SHARE_OFF_MAX):
            return {}
        told = {} if share is None else {"share_up": round(share, 3), "share_asked": round(asked, 3)}
        return {**lost, "turns": len(turns), "turns_with_losses": bitten, **told}

    def _turns(self, seen: Seen) -> list[tuple[int, int]]:
        """When it went down and up again, of each turn that was whole."""
        closed = [facts["closed"] for facts in seen.found if "closed" in facts]
        opened = [facts["opened"] for facts in seen.found if "opened" in facts]
        return list(zip(closed, opened, strict=False))

    def _share_up(self, turns: list[tuple[int, int]]) -> float | None:
        """Of the time from the first turn to the last; None if there is only one."""
        if len(turns) == 1:
            return None
        whole_us = turns[-1][0] - turns[0][0]
        down_us = sum(up - down for down, up in turns[:-1])
        return 1 - down_us / whole_us

    def on_links(self) -> LinkAct:
        """See `LinkFault`."""
        return SimulatedFlap(open_ms=self.open, closed_ms=self.closed)


class SimulatedFlap:
    """Down, up, down, up: closed for a while, open for a while, until it heals. Mutable: counts its cycles."""

    def __init__(self, *, open_ms: int, closed_ms: int) -> None:
        self._open_ms = open_ms
        self._closed_ms = closed_ms
        self._down = ShutPort()
        self._is_closed = False
        self._next: Due | None = None
        self._cycles = 0
        self._since_ms = 0
        self._closed_for_ms = 0
        self._up_for_ms = 0

    def begins(self, link: Link) -> None:
        """It closes."""
        self._is_closed = True
        self._cycles += 1
        self._down.begins(link)
        self._turn(link, self._closed_ms)

    def _turn(self, link: Link, after_ms: int) -> None:
        self._since_ms = link.hub.now_ms
        self._next = link.hub.at(link.hub.now_ms + after_ms, lambda: self._flips(link))

    def _flips(self, link: Link) -> None:
        self._count(link)
        if self._is_closed:
            self._is_closed = False
            self._turn(link, self._open_ms)
        else:
            self.begins(link)

    def _count(self, link: Link) -> None:
        past_ms = link.hub.now_ms - self._since_ms
        if self._is_closed:
            self._closed_for_ms += past_ms
        else:
            self._up_for_ms += past_ms

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it while it is closed."""
        if self._is_closed:
            self._down.meets(link, flight)

    def ends(self, link: Link) -> None:
        """It listens, and goes on doing so."""
        self._count(link)
        self._is_closed = False
        if self._next is not None:
            link.hub.cancel(self._next)

    def evidence(self) -> dict[str, Any]:
        """How often it closed, how long it was open, and what that cost."""
        found = self._down.evidence()
        if not found:
            return {}
        whole_ms = self._closed_for_ms + self._up_for_ms
        share = round(100 * self._up_for_ms / whole_ms) if whole_ms else 0
        return {"cycles": self._cycles, "open_percent": share, **found}
