"""`slow_close`: the peer's FIN is passed on later; bytes are not delayed.

Answers to Toxiproxy's toxic of the same name. Invariant: removal passes a waiting FIN on at once.
"""

from __future__ import annotations

from harness.proxy.stage import Attributes, Place, Receiver, Timer
from harness.proxy.toxics.kind import ToxicKind

__all__ = ["SLOW_CLOSE", "SlowClose"]


class SlowClose:
    """A FIN and the moment it came."""

    next: Receiver
    held = 0
    held_max = 1

    def __init__(self, place: Place, attributes: Attributes) -> None:
        self._place = place
        self._came: float | None = None
        self._timer: Timer | None = None
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        self._delay_ms = int(attributes["delay"])
        if self._came is not None:
            self._wait(self._came)

    def data(self, chunk: bytes) -> None:
        self.next.data(chunk)

    def eof(self) -> None:
        self._place.deed("held", bytes=0, fins=1, ms=max(0, self._delay_ms))
        self._came = self._place.now()
        self._wait(self._came)

    def reset(self) -> None:
        self._came = None
        self.next.reset()

    def removed(self) -> None:
        self._pass()

    def _wait(self, came: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._place.later(came + self._delay_ms / 1_000 - self._place.now(), self._pass)

    def _pass(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._came is not None:
            self._came = None
            self.next.eof()


SLOW_CLOSE = ToxicKind(name="slow_close", attributes={"delay": 0}, stage=SlowClose)
