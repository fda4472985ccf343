"""Where the packets of one direction of a MySQL connection begin and end, however its bytes were cut in pieces.

Answers to the net layer of MySQL's clients (`my_net_read`), which reads; this only measures. Invariant: any splitting
of the same bytes gives the same packets; a payload of 16 MB and more, with its follow-up frames and the empty one, is
one packet.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["HEADER_BYTES", "LONGEST_FRAME", "FrameTracker", "Packet", "PacketReader", "Part", "framed"]

HEADER_BYTES = 4
"""Three of the payload's length, one of the sequence number."""
LONGEST_FRAME = 0xFFFFFF
"""A payload of so many bytes goes on in a next frame, which may be empty."""


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """One packet, as far as its first bytes tell."""

    sequence: int
    message: object
    """What it belongs to: the exchange whose request or reply it is a part of."""
    number: int
    """Which packet of its message it is, from 1."""
    last: bool
    """Whether its message ends with it."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some bytes of one packet; of no known packet if the stream is not understood here."""

    data: bytes
    packet: Packet | None
    starts: bool = False
    """Whether it holds the packet's first byte."""
    ends: bool = False
    """Whether it holds the packet's last byte."""


class PacketReader(Protocol):
    """Who makes sense of the packets of one direction."""

    reach: int
    """How many bytes of a payload it wants to see before it is asked."""

    def quick(self, chunk: bytes) -> bool:
        """Bytes that begin where a packet begins: if they are one whole message of a common kind, it is read now."""

    def plausible(self, length: int, sequence: int) -> bool:
        """Whether such a packet may come here; asked before the rest of one, or of its header (0, 0), is waited for."""

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
        """A packet's first frame: `length` bytes of payload, from `buffer[at]` on; False: understood no more."""

    def packet(self, sequence: int) -> Packet:
        """The packet that was read last."""


class FrameTracker:
    """Follows the packets of one direction; asks its reader once a packet, as soon as enough of it is there."""

    __slots__ = ("_goes_on", "_kept", "_left", "_packet", "_passed", "_reader", "lost")

    def __init__(self, reader: PacketReader) -> None:
        self._reader = reader
        self._left = 0
        """Bytes of the current frame that are still to come."""
        self._goes_on = False
        """Whether the frame after this one belongs to the same packet."""
        self._kept = b""
        """The beginning of a frame, too short to be read yet."""
        self._passed = 0
        """How many of the kept bytes the peer has been given already."""
        self._packet: Packet | None = None
        """The packet whose bytes come now, where parts are asked for."""
        self.lost = False
        """Whether the stream is not understood any more; then everything is one part of no packet."""

    def track(self, chunk: bytes) -> bool:
        """Follow bytes that go on to the peer as they are; whether they could be read in a glance."""
        if self.lost:
            return False
        if not (self._left or self._kept or self._goes_on) and self._reader.quick(chunk):
            return True
        self._scan(chunk, None)
        self._passed = len(self._kept)
        return False

    def parts(self, chunk: bytes) -> list[Part]:
        """The bytes that may go on now, by packets; the beginning of one that cannot be read yet is kept back."""
        parts: list[Part] = []
        if self.lost:
            parts.append(Part(data=chunk, packet=None))
        else:
            self._scan(chunk, parts)
        return parts

    def release(self) -> bytes:
        """What is kept back, to be given to the peer now."""
        kept, self._passed = self._kept[self._passed :], len(self._kept)
        return kept

    @property
    def at_boundary(self) -> bool:
        """Whether the last packet has ended and no other has begun."""
        return not (self._left or self._goes_on or self._kept)

    def _scan(self, chunk: bytes, parts: list[Part] | None) -> None:
        buffer = self._kept + chunk if self._kept else chunk
        at, size, passed = 0, len(buffer), self._passed
        self._kept, self._passed = b"", 0
        reader = self._reader
        while at < size:
            if self._left:
                at = self._payload(buffer, at, passed, parts)
                continue
            if at + HEADER_BYTES > size:
                self.lost = not (self._goes_on or reader.plausible(0, 0))
                break
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            begins = not self._goes_on
            if begins:
                if size - at - HEADER_BYTES < min(length, reader.reach):
                    self.lost = not reader.plausible(length, buffer[at + 3])
                    break
                if not reader.read(length, buffer[at + 3], buffer, at + HEADER_BYTES):
                    self.lost = True
                    break
            if parts is not None and begins:
                self._packet = reader.packet(buffer[at + 3])
            self._left = length
            self._goes_on = length == LONGEST_FRAME
            at = self._frame(buffer, at, passed, begins=begins, parts=parts)
        if at < size:
            self._keep(buffer, at, passed, parts)

    def _frame(self, buffer: bytes, at: int, passed: int, *, begins: bool, parts: list[Part] | None) -> int:
        """A frame's header, and what of its payload is there; answers where that ends."""
        end = min(at + HEADER_BYTES + self._left, len(buffer))
        self._left -= end - at - HEADER_BYTES
        if parts is not None:
            self._part(buffer, at, end, passed, starts=begins, parts=parts)
        return end

    def _payload(self, buffer: bytes, at: int, passed: int, parts: list[Part] | None) -> int:
        end = min(at + self._left, len(buffer))
        self._left -= end - at
        if parts is not None:
            self._part(buffer, at, end, passed, starts=False, parts=parts)
        return end

    def _part(
        self, buffer: bytes, at: int, end: int, passed: int, *, starts: bool, parts: list[Part]
    ) -> None:
        """Bytes that the peer has already are left out; a packet whose start it has cannot be acted on as a whole."""
        known = max(at, passed)
        if known < end:
            ends = not self._left and not self._goes_on
            parts.append(
                Part(data=buffer[known:end], packet=self._packet, starts=starts and known == at, ends=ends)
            )
        if not self._left and not self._goes_on:
            self._packet = None

    def _keep(self, buffer: bytes, at: int, passed: int, parts: list[Part] | None) -> None:
        if not self.lost:
            self._kept, self._passed = buffer[at:], max(passed - at, 0)
        elif parts is not None:
            parts.append(Part(data=buffer[max(at, passed) :], packet=None))


def framed(payload: bytes, *, sequence: int) -> bytes:
    """A short payload as a packet."""
    if len(payload) >= LONGEST_FRAME:
        raise ValueError(f"{len(payload)} bytes do not fit into one frame; nothing of ours is so long")
    return len(payload).to_bytes(3, "little") + bytes([sequence & 0xFF]) + payload
