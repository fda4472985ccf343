"""Finds the packets in the byte stream of one direction of a MySQL connection, and whole results.

Answers to the net layer of MySQL's client (`my_net_read`), which reads packets; this only measures them. Invariant:
the same bytes give the same packets, however they are split; a payload of 16 MB or more with its continuation frames
is one packet.

`ReplyReader` parses packet by packet and is always right; this is tried before it, for bytes that pass untouched.
Invariant: it says yes only where the reader would find that the reply begins with the chunk's first byte and ends with
its last; in doubt it says no, and the reader parses.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

_HEADER: Final = 4
_COLUMNS_MAX: Final = 250
"""The largest column count that takes one byte."""
_EOF: Final = 0xFE
_EOF_BYTES: Final = 5
_ONE_BYTE: Final = 251
_CURSOR: Final = 0x40
_MORE_RESULTS: Final = 0x08
_AFTER_EOF: Final = _HEADER + _EOF_BYTES


def is_whole_result(chunk: bytes, *, eof_is_old: bool) -> bool:
    """Column count, columns, rows, end. `eof_is_old`: without DEPRECATE_EOF, an EOF packet follows the columns."""
    size = len(chunk)
    if size <= _HEADER or chunk[0] != 1 or chunk[1] or chunk[2] or not 1 <= chunk[4] <= _COLUMNS_MAX:
        return False
    at = _HEADER + 1
    for _ in range(chunk[4]):
        if at + _HEADER >= size or chunk[at + _HEADER] >= _EOF:
            return False
        at += _HEADER + (chunk[at] | chunk[at + 1] << 8 | chunk[at + 2] << 16)
    if eof_is_old:
        if (
            at + _AFTER_EOF > size
            or chunk[at] != _EOF_BYTES
            or chunk[at + 4] != _EOF
            or chunk[at + 7] & _CURSOR
        ):
            return False
        at += _AFTER_EOF
    while at + _HEADER < size:
        length = chunk[at] | chunk[at + 1] << 8 | chunk[at + 2] << 16
        end = at + _HEADER + length
        if chunk[at + _HEADER] >= _EOF:
            return end == size and _is_end(chunk, at, length, eof_is_old=eof_is_old)
        if not length:
            return False
        at = end
    return False


def _is_end(chunk: bytes, at: int, length: int, *, eof_is_old: bool) -> bool:
    """Whether the packet at `at` ends the last result; both forms have the status flags at the same offset."""
    if chunk[at + _HEADER] != _EOF or length < _EOF_BYTES or chunk[at + 7] & _MORE_RESULTS:
        return False
    if eof_is_old:
        return length == _EOF_BYTES
    return chunk[at + 5] < _ONE_BYTE and chunk[at + 6] < _ONE_BYTE


HEADER_BYTES = 4
"""Three bytes of payload length, one of the sequence number."""
LONGEST_FRAME = 0xFFFFFF
"""A frame with this payload length is continued by another frame, which may be empty."""


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """One packet, as known from its first bytes."""

    sequence: int
    message: object
    """The exchange whose request or reply it belongs to."""
    number: int
    """Its number in that message, from 1."""
    last: bool
    """Whether it is the last packet of the message."""


class PacketPart(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one packet; `packet` is None once the stream is not understood."""

    data: bytes
    packet: Packet | None
    starts: bool = False
    """Whether it holds the packet's first byte."""
    ends: bool = False
    """Whether it holds the packet's last byte."""


class PacketReader(Protocol):
    """Parses the packets of one direction."""

    reach: int
    """How many bytes of a payload must be available before `read` is called."""

    def quick(self, chunk: bytes) -> bool:
        """Try to parse `chunk`, which begins at a packet's start, as one whole message of a common kind."""

    def plausible(self, length: int, sequence: int) -> bool:
        """Whether such a packet can come here; asked while a packet, or its header (0, 0), is incomplete."""

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
        """Parse a packet's first frame: `length` bytes of payload at `buffer[at]`. False: not understood any more."""

    def packet(self, sequence: int) -> Packet:
        """The packet parsed last."""


class FrameTracker:
    """Follows the packets of one direction; calls its reader once for each, as soon as enough bytes are there."""

    __slots__ = ("_goes_on", "_kept", "_left", "_packet", "_passed", "_reader", "lost")

    def __init__(self, reader: PacketReader) -> None:
        self._reader = reader
        self._left = 0
        """Bytes of the current frame still to come."""
        self._goes_on = False
        """Whether the next frame continues the same packet."""
        self._kept = b""
        """The beginning of a frame that is too short to be parsed."""
        self._passed = 0
        """How many of the kept bytes were already sent to the peer."""
        self._packet: Packet | None = None
        """The packet whose bytes are coming, when parts are asked for."""
        self.lost = False
        """Whether the stream is not understood any more; then all bytes are one part without a packet."""

    def track(self, chunk: bytes) -> bool:
        """Follow bytes that are sent on unchanged; returns whether the reader's `quick` parsed them."""
        if self.lost:
            return False
        if not (self._left or self._kept or self._goes_on) and self._reader.quick(chunk):
            return True
        self._scan(chunk, None)
        self._passed = len(self._kept)
        return False

    def parts(self, chunk: bytes) -> list[PacketPart]:
        """The bytes that may be sent on now, by packet; the beginning of a packet that cannot be parsed yet is kept."""
        parts: list[PacketPart] = []
        if self.lost:
            parts.append(PacketPart(data=chunk, packet=None))
        else:
            self._scan(chunk, parts)
        return parts

    def release(self) -> bytes:
        """The kept bytes, to be sent to the peer now."""
        kept, self._passed = self._kept[self._passed :], len(self._kept)
        return kept

    @property
    def at_boundary(self) -> bool:
        """Whether the stream is between two packets."""
        return not (self._left or self._goes_on or self._kept)

    def _scan(self, chunk: bytes, parts: list[PacketPart] | None) -> None:
        buffer = self._kept + chunk if self._kept else chunk
        at, size, passed = 0, len(buffer), self._passed
        self._kept, self._passed = b"", 0
        reader = self._reader
        while at < size:
            if self._left:
                at = self._take(buffer, at, passed, header=0, starts=False, parts=parts)
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
            at = self._take(buffer, at, passed, header=HEADER_BYTES, starts=begins, parts=parts)
        if at < size:
            self._keep(buffer, at, passed, parts)

    def _take(
        self,
        buffer: bytes,
        at: int,
        passed: int,
        *,
        header: int,
        starts: bool,
        parts: list[PacketPart] | None,
    ) -> int:
        """Take a frame's header (0: it was taken) and the available part of its payload; returns the position after it.

        Skips bytes that the peer already has; a packet whose start was sent is not marked as starting.
        """
        end = min(at + header + self._left, len(buffer))
        self._left -= end - at - header
        if parts is None:
            return end
        ends, known = not self._left and not self._goes_on, max(at, passed)
        if known < end:
            data = buffer[known:end]
            parts.append(PacketPart(data=data, packet=self._packet, starts=starts and known == at, ends=ends))
        if ends:
            self._packet = None
        return end

    def _keep(self, buffer: bytes, at: int, passed: int, parts: list[PacketPart] | None) -> None:
        if not self.lost:
            self._kept, self._passed = buffer[at:], max(passed - at, 0)
        elif parts is not None:
            parts.append(PacketPart(data=buffer[max(at, passed) :], packet=None))


def framed(payload: bytes, *, sequence: int) -> bytes:
    """A packet with this payload, which must fit into one frame."""
    if len(payload) >= LONGEST_FRAME:
        raise ValueError(f"{len(payload)} bytes do not fit into one frame")
    return len(payload).to_bytes(3, "little") + bytes([sequence & 0xFF]) + payload
