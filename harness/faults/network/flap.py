"""`flap`: the link goes down and up again, turn after turn.

Evidence: as many connections lost or refused as there were turns, or more, at least one of them in half of the turns;
and the link was up for as much of the time as asked, within a tenth of it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.clock import monotonic_us
from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of
from harness.faults.repeating import taking_turns
from harness.faults.seen import Evidence, Seen, loss_evidence
from harness.scenario import Fault

__all__ = ["KIND", "Flap"]

_SHARE_OFF_MAX = 0.1
_NOTICE_US = 100_000
"""How long after a cut a client may take to notice and to write it down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flap:
    """Takes `link` down for `closed_ms`, up for `open_ms`, and so on."""

    name: str
    link: str
    open_ms: int
    closed_ms: int

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
            with taking_turns((close, self.closed_ms / 1000), (open_again, self.open_ms / 1000)):
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
        asked = self.open_ms / (self.open_ms + self.closed_ms)
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


def _made(fault: Fault, _seed: int) -> Flap:
    return Flap(name=fault.id, link=link_of(fault), open_ms=fault.open or 0, closed_ms=fault.closed or 0)


KIND = FaultKind(
    name="flap",
    about="The link is down for `closed` and up for `open`, turn after turn.",
    evidence="Connections were lost or refused, one a turn or more; the link was up for the share asked, within 10 %.",
    outside=_made,
)
