"""`timeout`: bytes of this direction are lost, and after so long the connection is closed; 0 means never.

Answers to Toxiproxy's toxic of the same name, whose timer starts again with every chunk; here the time counts from
when the toxic began to act. Invariant: the peer's FIN passes; removal closes the connections it acted on.
"""

from __future__ import annotations

from harness.proxy.stage import Attributes, Place, Receiver, Timer
from harness.proxy.toxics.kind import ToxicKind

__all__ = ["TIMEOUT", "Timeout"]


class Timeout:
    """Nothing but a clock."""

    next: Receiver
    held = 0
    held_max = 1

    def __init__(self, place: Place, attributes: Attributes) -> None:
        self._place = place
        self._timer: Timer | None = None
        self._timeout_ms = 0
        self._over = False
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        timeout_ms = int(attributes["timeout"])
        if timeout_ms == self._timeout_ms:
            return
        self._timeout_ms = timeout_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if timeout_ms > 0:
            self._timer = self._place.later(timeout_ms / 1_000, self._close)

    def data(self, chunk: bytes) -> None:
        self._place.deed("swallowed", bytes=len(chunk), chunks=1)

    def eof(self) -> None:
        if not self._over:
            self.next.eof()

    def reset(self) -> None:
        self.next.reset()

    def removed(self) -> None:
        self._close()

    def _close(self) -> None:
        """Behind what was before the toxic and is still on its way."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._over:
            self._over = True
            self._place.deed("cut", ms=max(0, self._timeout_ms))
            self._place.wire.close_behind(self._place.stream)
            self.next.eof()


TIMEOUT = ToxicKind(name="timeout", attributes={"timeout": 0}, stage=Timeout)
