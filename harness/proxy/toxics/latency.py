"""`latency`: delays the bytes of a direction; the TCP connect itself is not delayed.

Answers to Toxiproxy's toxic of the same name. Invariant: the delay counts from a chunk's arrival, chunks do not
overtake each other, and removal passes everything held at once, in order.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import HELD_MAX, HeldBytes, ToxicKind
from harness.proxy.toxics.stage import Attributes, Receiver, StagePlace, Timer


class LatencyToxic:
    """A queue of chunks, each with the time at which it is due."""

    next: Receiver
    held_max = HELD_MAX

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        self._place = place
        self._line: HeldBytes[float] = HeldBytes()
        self._last_due = 0.0
        self._timer: Timer | None = None
        self.update(attributes)

    @property
    def held(self) -> int:
        """Bytes that are not due yet."""
        return self._line.bytes

    def update(self, attributes: Attributes) -> None:
        self._latency_ms = int(attributes["latency"])
        self._jitter_ms = int(attributes["jitter"])

    def data(self, chunk: bytes) -> None:
        delay_ms = self._delay_ms()
        if delay_ms <= 0 and not self._line:
            self.next.data(chunk)
            return
        self._place.log_event("delayed", bytes=len(chunk), chunks=1, ms=max(0, delay_ms))
        due = max(self._last_due, self._place.now() + delay_ms / 1_000)
        self._last_due = due
        self._line.put(due, chunk)
        self._wait()

    def eof(self) -> None:
        self._line.end(self.next)

    def reset(self) -> None:
        self._line.drop()
        self.next.reset()

    def removed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._line.let_go(self.next)

    def _delay_ms(self) -> int:
        if self._jitter_ms <= 0:
            return self._latency_ms
        return self._latency_ms + self._place.choices.between(-self._jitter_ms, self._jitter_ms)

    def _wait(self) -> None:
        if self._timer is None and self._line:
            self._timer = self._place.later(self._line.first_due - self._place.now(), self._due)

    def _due(self) -> None:
        self._timer = None
        now = self._place.now()
        while self._line and self._line.first_due <= now:
            self.next.data(self._line.take())
        self._line.pass_end(self.next)
        self._wait()
        self._place.eased()


LATENCY = ToxicKind(name="latency", attributes={"latency": 0, "jitter": 0}, stage=LatencyToxic)
