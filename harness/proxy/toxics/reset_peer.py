"""`reset_peer`: the next bytes, or the FIN, of this direction are lost, and after so long both peers get a RST.

Answers to Toxiproxy's toxic of the same name, which resets only connections that were opened under it. Invariant: an
idle connection stays; removal before the time is up lets the connection live on without what it swallowed.
"""

from __future__ import annotations

from harness.proxy.stage import Attributes, Place, Receiver, Timer
from harness.proxy.toxics.kind import ToxicKind

__all__ = ["RESET_PEER", "ResetPeer"]


class ResetPeer:
    """Waits for something to pass, then for its time."""

    next: Receiver
    held = 0
    held_max = 1

    def __init__(self, place: Place, attributes: Attributes) -> None:
        self._place = place
        self._came: float | None = None
        self._fin = False
        self._timer: Timer | None = None
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        self._timeout_ms = max(0, int(attributes["timeout"]))
        if self._came is not None:
            self._wait(self._came)

    def data(self, chunk: bytes) -> None:
        self._place.deed("swallowed", bytes=len(chunk), chunks=1)
        self._provoked()

    def eof(self) -> None:
        self._fin = True
        self._provoked()

    def reset(self) -> None:
        self.next.reset()

    def removed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._fin:
            self.next.eof()

    def _provoked(self) -> None:
        if self._came is None:
            self._came = self._place.now()
            self._wait(self._came)

    def _wait(self, came: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left_s = came + self._timeout_ms / 1_000 - self._place.now()
        if left_s > 0:
            self._timer = self._place.later(left_s, self._reset)
        else:
            self._reset()

    def _reset(self) -> None:
        self._place.deed("reset", ms=self._timeout_ms)
        self._place.wire.reset()


RESET_PEER = ToxicKind(name="reset_peer", attributes={"timeout": 0}, stage=ResetPeer)
