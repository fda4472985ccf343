"""A link that loses answers: the statement took effect, and nobody is told.

Answers to the lost reply to a COMMIT. Invariant: never two in a row, so that whoever insists is answered in the end.
"""

from __future__ import annotations

from typing import Any

from harness.sim.link import LOST_CONNECTION, Flight, Link

__all__ = ["LossyLink"]


class LossyLink(Link):
    """Mutable: remembers whether the last answer was lost. `loss_share` is in percent."""

    def __init__(self, name: str, *, loss_share: int, **parts: Any) -> None:
        super().__init__(name, **parts)
        self._loss_share = loss_share
        self._lost_last = False

    def send(self, flight: Flight, *, service_ms: int) -> None:
        """See `Link`."""
        super().send(flight, service_ms=service_ms)
        loses = (
            not self._lost_last
            and not flight.over
            and flight.doom is None
            and self.draw.chance(10 * self._loss_share)
        )
        self._lost_last = loses
        if loses:
            flight.doom = LOST_CONNECTION
