"""`bandwidth`: at most `rate` kilobytes (of 1 000 bytes) a second, for each connection, without bursts.

Answers to Toxiproxy's toxic of the same name. Invariant: a byte passes once the rate allowed it and all bytes before
it; at a rate of 0 nothing passes and nothing is lost; removal passes everything held at once, in order. The log
(`paced`) says how many bytes passed in how many microseconds, and how often the queue ran empty.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import HELD_MAX, HeldBytes, ToxicKind
from harness.proxy.toxics.stage import Attributes, Receiver, StagePlace, Timer

_SLICE_S = 0.02
"""A long chunk is passed on in pieces of this duration."""
_SHORT_OF_A_BYTE = 1e-9


class BandwidthToxic:
    """A queue of bytes and the time up to which the rate is used up."""

    next: Receiver
    held_max = HELD_MAX

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        self._place = place
        self._line: HeldBytes[None] = HeldBytes()
        self._used_until = place.now()
        self._passed_at = self._used_until
        self._noticed = False  # whether a queued byte waits at least a millisecond (or the rate is 0)
        self._timer: Timer | None = None
        self._bytes_per_s = 0
        self.update(attributes)

    @property
    def held(self) -> int:
        """Bytes that the rate did not allow yet."""
        return self._line.bytes

    def update(self, attributes: Attributes) -> None:
        if self._line and self._bytes_per_s > 0:
            self._pass()
        else:
            self._used_until = self._passed_at = self._place.now()
        self._bytes_per_s = 1_000 * int(attributes["rate"])
        self._stop_waiting()
        self._wait()

    def data(self, chunk: bytes) -> None:
        if not self._line:
            self._noticed = False
            # Idle time is not saved up for a burst.
            self._used_until = self._passed_at = self._place.now()
        waits_for = self._line.bytes + len(chunk)
        delay_ms = round(1_000 * waits_for / self._bytes_per_s) if self._bytes_per_s > 0 else 0
        if delay_ms or not self._bytes_per_s:  # else the wait rounds to 0 ms
            self._noticed = True
            self._place.log_event("held", bytes=len(chunk), chunks=1, ms=delay_ms)
        self._line.put(None, chunk)
        self._wait()

    def eof(self) -> None:
        self._line.end(self.next)

    def reset(self) -> None:
        self._line.drop()
        self.next.reset()

    def removed(self) -> None:
        self._stop_waiting()
        self._line.let_go(self.next)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        if self._timer is None and self._line and self._bytes_per_s > 0:
            whole_s = self._line.first_length / self._bytes_per_s
            until = self._used_until + max(min(whole_s, _SLICE_S), 1 / self._bytes_per_s)
            self._timer = self._place.later(until - self._place.now(), self._due)

    def _due(self) -> None:
        self._timer = None
        self._pass()
        self._line.pass_end(self.next)
        self._wait()
        self._place.eased()

    def _pass(self) -> None:
        """Pass everything that the rate allows by now."""
        now = self._place.now()
        passed = 0
        while self._line:
            free = int((now - self._used_until + _SHORT_OF_A_BYTE) * self._bytes_per_s)
            if free < 1:
                break
            piece = self._line.split(free)
            self._used_until += len(piece) / self._bytes_per_s
            passed += len(piece)
            self.next.data(piece)
        if passed and self._noticed:
            took_us = round((now - self._passed_at) * 1_000_000)
            self._passed_at = now
            self._place.log_event("paced", bytes=passed, us=took_us, empty=int(not self._line))


BANDWIDTH = ToxicKind(
    name="bandwidth",
    attributes={"rate": 0},
    refuse=lambda given: "rate must not be negative" if int(given["rate"]) < 0 else "",
    stage=BandwidthToxic,
)
