"""Fast path: whether a chunk is exactly one complete result of a statement, the common case.

`ReplyReader` parses packet by packet and is always right; this is tried before it, for bytes that pass untouched.
Invariant: it says yes only where the reader would find that the reply begins with the chunk's first byte and ends with
its last; in doubt it says no, and the reader parses.
"""

from __future__ import annotations

from typing import Final

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
