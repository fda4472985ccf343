"""`half_open`: swallows the bytes, FIN and RST of one direction, so the far end never learns of them.

Our own toxic; Toxiproxy has none for it. It imitates a peer that lost power or a firewall that dropped the
connection's state. Invariant: the other direction is unaffected; removal resets the connections whose bytes or end it
swallowed.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.stage import Attributes, Receiver, StagePlace


class HalfOpenToxic:
    """Swallows everything and remembers whether it did."""

    next: Receiver
    held = 0
    held_max = 1

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        del attributes
        self._place = place
        self._acted = False

    def update(self, attributes: Attributes) -> None:
        """The toxic has no attributes."""

    def data(self, chunk: bytes) -> None:
        self._swallowed(bytes=len(chunk), chunks=1)

    def eof(self) -> None:
        self._swallowed(bytes=0, fins=1)

    def reset(self) -> None:
        self._swallowed(bytes=0, resets=1)

    def removed(self) -> None:
        if self._acted:
            self._place.log_event("reset")
            self._place.wire.reset()

    def _swallowed(self, **numbers: int) -> None:
        self._acted = True
        self._place.log_event("swallowed", **numbers)


HALF_OPEN = ToxicKind(name="half_open", attributes={}, stage=HalfOpenToxic, own=True)
