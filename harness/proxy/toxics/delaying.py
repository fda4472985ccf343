"""The toxics that delay bytes: latency, bandwidth and slicer, like Toxiproxy's of the same names.

Invariant: no byte is lost, repeated or overtaken, and removal passes everything held at once, in order. A delay counts
from a chunk's arrival. At a rate of 0 nothing passes; the log (`paced`) says how many bytes passed in how many
microseconds, and how often the queue ran empty. The log of a slicer (Toxiproxy's crashes at a size of 0) says how
large the pieces and how long the gaps really were; the last piece of a chunk (`tails`) may be small and is counted
separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.proxy.toxics.stage import HELD_MAX, Attributes, HeldBytes, Receiver, StagePlace, Timer, ToxicKind

_Due = TypeVar("_Due")


class _HoldingToxic(Generic[_Due]):
    """A queue of bytes that a timer passes on; removal passes all of them at once, in order."""

    next: Receiver
    held_max = HELD_MAX

    def __init__(self, place: StagePlace) -> None:
        self._place = place
        self._line: HeldBytes[_Due] = HeldBytes()
        self._timer: Timer | None = None

    @property
    def held(self) -> int:
        """Bytes that may not pass yet."""
        return self._line.bytes

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


class LatencyToxic(_HoldingToxic[float]):
    """A queue of chunks, each with the time at which it is due."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        super().__init__(place)
        self._last_due = 0.0
        self.update(attributes)

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


_SLICE_S = 0.02
"""A long chunk is passed on in pieces of this duration."""
_SHORT_OF_A_BYTE = 1e-9


class BandwidthToxic(_HoldingToxic[None]):
    """A queue of bytes and the time up to which the rate is used up."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        super().__init__(place)
        self._used_until = place.now()
        self._passed_at = self._used_until
        self._noticed = False  # whether a queued byte waits at least a millisecond (or the rate is 0)
        self._bytes_per_s = 0
        self.update(attributes)

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


_PIECES_MAX = 256
"""Pieces of one turn, before other connections are served."""


@dataclass(slots=True, kw_only=True)
class _SlicedTurn:
    """The pieces of one turn. Mutable: counts them."""

    bytes: int = 0
    pieces: int = 0
    tails: int = 0
    tail_bytes: int = 0


class SlicerToxic(_HoldingToxic[None]):
    """A queue of bytes and the time at which the next piece may leave."""

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        super().__init__(place)
        self._free_at = place.now()
        self._last_at: float | None = None
        """When the previous piece left; None: the next piece has no predecessor to be measured from."""
        self._sliced = False  # whether the queued bytes were cut into more than one piece
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        self._size = max(1, int(attributes["average_size"]))
        self._variation = max(0, int(attributes["size_variation"]))
        self._pause_s = max(0, int(attributes["delay"])) / 1_000_000

    def data(self, chunk: bytes) -> None:
        if not self._line:
            self._sliced = False
            self._last_at = None
            self._free_at = max(self._free_at, self._place.now())
        self._line.put(None, chunk)
        if self._timer is None:
            self._pass()

    def _pass(self) -> None:
        """Pass every piece that is due; after a late wake-up these are several."""
        self._timer = None
        now = self._place.now()
        cut = _SlicedTurn()
        while self._line and self._free_at <= now and cut.pieces < _PIECES_MAX:
            self._free_at += self._pause_s
            self.next.data(self._piece(cut))
        self._sliced = self._sliced or cut.pieces > 1 or bool(self._line)
        if cut.pieces and self._sliced:  # a chunk that fits into one piece is not sliced
            self._log(cut, now)
        self._line.pass_end(self.next)
        if self._line:
            self._timer = self._place.later(self._free_at - now, self._pass)
        self._place.eased()

    def _piece(self, cut: _SlicedTurn) -> bytes:
        length = self._length()
        is_tail = length > self._line.first_length
        piece = self._line.split(length)
        cut.bytes += len(piece)
        cut.pieces += 1
        if is_tail:
            cut.tails += 1
            cut.tail_bytes += len(piece)
        return piece

    def _log(self, cut: _SlicedTurn, now: float) -> None:
        """Log the pieces and the time since the previous one."""
        before, self._last_at = self._last_at, now
        gaps = cut.pieces - (before is None)
        waited_us = 0 if before is None else round((now - before) * 1_000_000)
        self._place.log_event(
            "sliced",
            bytes=cut.bytes,
            pieces=cut.pieces,
            tails=cut.tails,
            tail_bytes=cut.tail_bytes,
            gaps=gaps,
            gap_us=waited_us,
        )

    def _length(self) -> int:
        if not self._variation:
            return self._size
        return max(1, self._size + self._place.choices.between(-self._variation, self._variation))


SLICER = ToxicKind(
    name="slicer",
    attributes={"average_size": 0, "size_variation": 0, "delay": 0},
    refuse=lambda given: "average_size must be at least 1" if int(given["average_size"]) < 1 else "",
    stage=SlicerToxic,
)
