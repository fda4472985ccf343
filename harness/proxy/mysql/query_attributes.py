"""Where the statement begins in a COM_QUERY of a client that may send attributes with its queries.

Answers to MySQL's `parse_com_query_attributes`. Invariant: a payload that cannot be followed gives no statement, so
that no rule takes an attribute for one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["counted", "without_attributes"]

_SIZES: Final = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 0, 8: 8, 9: 4, 13: 2}
"""Bytes of a value by its type: numbers and NULL."""
_SHORT: Final = frozenset({7, 10, 11, 12})
"""Dates and times: one byte says how long they are. All else is counted as text."""
_COUNTS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


def counted(buffer: bytes, at: int) -> tuple[int, int]:
    """A length-encoded number, and where it ends. Raises `IndexError` if it is not all there."""
    first = buffer[at]
    size = _COUNTS.get(first, 0)
    if not size:
        return first, at + 1
    if at + 1 + size > len(buffer):
        raise IndexError("the number is cut off")
    return int.from_bytes(buffer[at + 1 : at + 1 + size], "little"), at + 1 + size


def without_attributes(text: bytes) -> bytes:
    """What follows the command's byte, from where the statement begins."""
    try:
        count, at = counted(text, 0)
        _, at = counted(text, at)  # how many sets of them: always one
        return text[_values_end(text, at, count) if count else at :]
    except IndexError:
        return b""


def _values_end(text: bytes, at: int, count: int) -> int:
    nulls = text[at : at + (count + 7) // 8]
    at += len(nulls) + 1  # and the byte that says that types follow
    kinds = []
    for _ in range(count):
        kinds.append(text[at])
        length, at = counted(text, at + 2)  # the type has a second byte, its sign; then the name
        at += length
    for index, kind in enumerate(kinds):
        if nulls[index // 8] >> index % 8 & 1:
            continue
        if kind in _SIZES:
            at += _SIZES[kind]
        elif kind in _SHORT:
            at += 1 + text[at]
        else:
            length, at = counted(text, at)
            at += length
    return at
