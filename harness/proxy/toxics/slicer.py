"""`slicer`: cuts the bytes of a direction into small pieces with a pause after each.

Answers to Toxiproxy's toxic of the same name, which crashes at a size of 0. Invariant: no byte is lost or reordered;
removal passes everything held at once, in order. The log says how large the pieces and how long the gaps really were;
the last piece of a chunk (`tails`) may be small and is counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.proxy.toxics.kind import HELD_MAX, HeldBytes, ToxicKind
from harness.proxy.toxics.stage import Attributes, Receiver, StagePlace, Timer

_PIECES_MAX = 256
"""Pieces of one turn, before other connections are served."""


@dataclass(slots=True, kw_only=True)
class _SlicedTurn:
    """The pieces of one turn. Mutable: counts them."""

    bytes: int = 0
    pieces: int = 0
    tails: int = 0
    tail_bytes: int = 0


class SlicerToxic:
    """A queue of bytes and the time at which the next piece may leave."""

    next: Receiver
    held_max = HELD_MAX

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        self._place = place
        self._line: HeldBytes[None] = HeldBytes()
        self._free_at = place.now()
        self._timer: Timer | None = None
        self._last_at: float | None = None
        """When the previous piece left; None: the next piece has no predecessor to be measured from."""
        self._sliced = False  # whether the queued bytes were cut into more than one piece
        self.update(attributes)

    @property
    def held(self) -> int:
        return self._line.bytes

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
