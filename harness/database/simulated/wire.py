"""The wire: the bytes and packets of a statement and its reply.

Invariant: a statement's text and arguments determine its packets, so that a fault that counts packets hits
the same ones when the run is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct


class WireRequest(Struct, frozen=True):
    """One request and its reply."""

    asks: int
    """Bytes of the request."""
    answers: tuple[int, ...]
    """Bytes of each packet of the reply."""


class SimulatedPacket(Struct, frozen=True):
    """One packet. `up`: to the server; `number` counts the statement's packets in this direction, from 1."""

    up: bool
    number: int
    bytes: int


_OK: Final = (11,)
_COLUMN: Final = 44
_END: Final = 9
_COUNT: Final = 5
_ROW: Final = 64

_HANDSHAKE: Final = WireRequest(96, (82, *_OK))
"""The server's greeting comes first; the request is the client's response to the greeting."""

_COMMIT: Final = re.compile(r"(xa )?commit\b")
_ROLLBACK: Final = re.compile(r"(xa )?rollback\b")
_READ: Final = re.compile(r"select\b|show\b|xa recover\b")
_COLUMNS: Final = re.compile(r"select\b(.*?)\bfrom\b", re.DOTALL)


def statement_of(sql: str, args: Sequence[Any], *, many: bool, row_bytes: int) -> WireRequest:
    """The wire form of `sql` with `args` (`many`: the rows of one INSERT). Empty `sql`: the handshake."""
    if not sql:
        return _HANDSHAKE
    _, columns = _form(sql)
    rows = args if many else [args]
    asks = 5 + len(sql) + sum(len(str(value)) + 4 for row in rows for value in row)
    answers = (_COUNT, *([_COLUMN] * columns), _END, _ROW + row_bytes, _END) if columns else _OK
    return WireRequest(asks, answers)


def kinds_of(sql: str) -> tuple[str, ...]:
    """Message kinds by which a fault selects the statement, as in the proxy. Empty `sql`: the handshake."""
    return _form(sql)[0] if sql else ("handshake",)


@lru_cache(maxsize=1024)
def _form(sql: str) -> tuple[tuple[str, ...], int]:
    """The statement's kinds, the most specific first, and the number of columns in its reply."""
    plain = " ".join(sql.split()).lower()
    if _COMMIT.match(plain):
        return ("commit", "query"), 0
    if _ROLLBACK.match(plain):
        return ("rollback", "query"), 0
    if not _READ.match(plain):
        return ("query",), 0
    named = _COLUMNS.match(plain)
    return ("query",), 1 + (named[1].count(",") if named else 0)


def packets(statement: WireRequest) -> Iterator[SimulatedPacket]:
    """All packets in their order; a handshake begins with the server's greeting."""
    answers = list(enumerate(statement.answers, start=1))
    if statement is _HANDSHAKE:
        number, size = answers.pop(0)
        yield SimulatedPacket(up=False, number=number, bytes=size)
    yield SimulatedPacket(up=True, number=1, bytes=statement.asks)
    for number, size in answers:
        yield SimulatedPacket(up=False, number=number, bytes=size)


def bytes_of(sql: str, args: Any) -> int:
    """The statement's approximate request size, which the server compares with `packet_bytes_max`."""
    size = len(sql)
    for arg in args or ():
        size += sum(len(str(one)) for one in arg) if isinstance(arg, list | tuple) else len(str(arg))
    return size
