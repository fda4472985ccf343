"""The toxics that end connections: `slow_close`, `reset_peer` and `timeout`, as Toxiproxy's of the same names.

`slow_close` passes the peer's FIN on later and delays no bytes; removal passes it on at once. `reset_peer`
loses the next bytes or FIN of its direction, and after a while both peers get a RST, on connections opened
before it too; an idle connection stays. `timeout` loses all bytes, and closes after a while (0: never) that
counts from when it began to act, not, as Toxiproxy's, from each chunk; removal closes the connections it
acted on.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.stage import Attributes, Place, Receiver, Timer

__all__ = ["RESET_PEER", "SLOW_CLOSE", "TIMEOUT", "ResetPeer", "SlowClose", "Timeout"]


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
