"""The toxics that end connections or swallow bytes: slow_close, reset_peer, timeout, limit_data, half_open.

`slow_close` delays the FIN and no bytes; removal passes the FIN at once. `reset_peer` loses the next bytes or FIN of
its direction, and `timeout` later resets both peers, also on connections opened before the toxic; an idle connection
stays. `timeout` loses all bytes and closes the connection after its time (0: never), counted from when it began to
act; Toxiproxy's counts from each chunk. Removing it closes the connections that it acted on.

Answers to Toxiproxy's toxic of the same name. Invariant: exactly that many bytes pass, then a FIN, then the connection
is closed; if the limit is lowered below the count, the next bytes close it.

Our own toxic; Toxiproxy has none for it. It imitates a peer that lost power or a firewall that dropped the
connection's state. Invariant: the other direction is unaffected; removal resets the connections whose bytes or end it
swallowed.
"""

from __future__ import annotations

from harness.proxy.toxics.stage import Attributes, Receiver, StagePlace, Timer, ToxicKind


class _HoldsNothing:
    """Common part of the toxics that hold no bytes."""

    next: Receiver
    held = 0
    held_max = 1

    def reset(self) -> None:
        self.next.reset()


class SlowCloseToxic(_HoldsNothing):
    """Holds the FIN of a direction."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
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
        self._place.log_event("held", bytes=0, fins=1, ms=max(0, self._delay_ms))
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


SLOW_CLOSE = ToxicKind(name="slow_close", attributes={"delay": 0}, stage=SlowCloseToxic)


class ResetPeerToxic(_HoldsNothing):
    """Waits for the first bytes or FIN, then for its timeout."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        self._place = place
        self._came: float | None = None
        self._swallowed = False
        self._fin = False
        self._timer: Timer | None = None
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        self._timeout_ms = max(0, int(attributes["timeout"]))
        if self._came is not None:
            self._wait(self._came)

    def data(self, chunk: bytes) -> None:
        self._swallowed = True
        self._place.log_event("swallowed", bytes=len(chunk), chunks=1)
        self._provoked()

    def eof(self) -> None:
        self._fin = True
        self._provoked()

    def removed(self) -> None:
        """Reset now if bytes were swallowed: the connection must not go on with a hole in its bytes."""
        if self._timer is not None:
            self._timer.cancel()
        if self._swallowed:
            self._reset()
        elif self._fin:
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
        self._place.log_event("reset", ms=self._timeout_ms)
        self._place.wire.reset()


RESET_PEER = ToxicKind(name="reset_peer", attributes={"timeout": 0}, stage=ResetPeerToxic)


class TimeoutToxic(_HoldsNothing):
    """Swallows all bytes until its timer closes the connection."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
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
        self._place.log_event("swallowed", bytes=len(chunk), chunks=1)

    def eof(self) -> None:
        if not self._over:
            self.next.eof()

    def removed(self) -> None:
        self._close()

    def _close(self) -> None:
        """FIN after the bytes that had passed the toxic and are still in flight."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._over:
            self._over = True
            self._place.log_event("cut", ms=max(0, self._timeout_ms))
            self._place.wire.close_behind(self._place.stream)
            self.next.eof()


TIMEOUT = ToxicKind(name="timeout", attributes={"timeout": 0}, stage=TimeoutToxic)


class LimitDataToxic(_HoldsNothing):
    """Counts the bytes that passed."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        self._place = place
        self._passed = 0
        self._over = False
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        self._limit = max(0, int(attributes["bytes"]))

    def data(self, chunk: bytes) -> None:
        if self._over:
            return
        left = max(0, self._limit - self._passed)
        within, beyond = chunk[:left], chunk[left:]
        if within:
            self._passed += len(within)
            self.next.data(within)
        if self._passed >= self._limit:
            self._over = True
            self._place.log_event("limited", bytes=self._passed, lost=len(beyond))
            self._place.wire.close_behind(self._place.stream)
            self.next.eof()

    def eof(self) -> None:
        if not self._over:
            self.next.eof()

    def removed(self) -> None:
        """Holds nothing; a connection over the limit is already closing."""


LIMIT_DATA = ToxicKind(name="limit_data", attributes={"bytes": 0}, stage=LimitDataToxic)


class HalfOpenToxic(_HoldsNothing):
    """Swallows everything and remembers whether it did."""

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
