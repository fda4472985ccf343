"""`half_open`: bytes, FIN and RST of this direction are swallowed; the far end never learns.

Own: Toxiproxy has no half-open link. Answers to a peer that lost its power, or a firewall that forgot the connection.
Invariant: the other direction flows as before; removal resets the connections it swallowed something of.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.stage import Attributes, Place, Receiver

__all__ = ["HALF_OPEN", "HalfOpen"]


class HalfOpen:
    """Remembers only whether it acted."""

    next: Receiver
    held = 0
    held_max = 1

    def __init__(self, place: Place, attributes: Attributes) -> None:
        del attributes
        self._place = place
        self._acted = False

    def update(self, attributes: Attributes) -> None:
        """There is nothing to set."""

    def data(self, chunk: bytes) -> None:
        self._swallowed(bytes=len(chunk), chunks=1)

    def eof(self) -> None:
        self._swallowed(bytes=0, fins=1)

    def reset(self) -> None:
        self._swallowed(bytes=0, resets=1)

    def removed(self) -> None:
        if self._acted:
            self._place.deed("reset")
            self._place.wire.reset()

    def _swallowed(self, **numbers: int) -> None:
        self._acted = True
        self._place.deed("swallowed", **numbers)


HALF_OPEN = ToxicKind(name="half_open", attributes={}, stage=HalfOpen, own=True)
