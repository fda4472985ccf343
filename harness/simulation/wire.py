"""The wire: what a statement and its answer are in bytes and packets.

Invariant: packets are a function of a statement's text and arguments, so that a fault that counts them meets the same
ones again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

__all__ = ["SimulatedPacket", "Statement", "bytes_of", "packets", "statement_of"]


class Statement(Struct, frozen=True):
    """One request and its answer. `kinds` are the words by which a rule may ask for it, as our proxy has them."""

    kinds: tuple[str, ...]
    text: str
    asks: int
    """Bytes of the request."""
    answers: tuple[int, ...]
    """Bytes of each packet that comes back."""


class SimulatedPacket(Struct, frozen=True):
    """One packet: `up` to the server; `number` counts the packets of the statement in its direction."""

    up: bool
    number: int
    bytes: int


_OK: Final = (11,)
_COLUMN: Final = 44
_END: Final = 9
_COUNT: Final = 5
_ROW: Final = 64

_HANDSHAKE: Final = Statement(("handshake",), "", 96, (82, *_OK))
"""The server greets first; its request is the client's answer to that."""

_COMMIT: Final = re.compile(r"(xa )?commit\b")
_ROLLBACK: Final = re.compile(r"(xa )?rollback\b")
_READ: Final = re.compile(r"select\b|show\b|xa recover\b")
_COLUMNS: Final = re.compile(r"select\b(.*?)\bfrom\b", re.DOTALL)


def statement_of(sql: str, args: Sequence[Any], *, many: bool, row_bytes: int) -> Statement:
    """What `sql` with `args` is on the wire; `many`: `args` are rows of one INSERT. Empty: the handshake."""
    if not sql:
        return _HANDSHAKE
    kinds, columns = _form(sql)
    rows = args if many else [args]
    asks = 5 + len(sql) + sum(len(str(value)) + 4 for row in rows for value in row)
    answers = (_COUNT, *([_COLUMN] * columns), _END, _ROW + row_bytes, _END) if columns else _OK
    return Statement(kinds, sql, asks, answers)


@lru_cache(maxsize=1024)
def _form(sql: str) -> tuple[tuple[str, ...], int]:
    """Its kinds, the most telling first, and how many columns it answers with."""
    plain = " ".join(sql.split()).lower()
    if _COMMIT.match(plain):
        return ("commit", "query"), 0
    if _ROLLBACK.match(plain):
        return ("rollback", "query"), 0
    if not _READ.match(plain):
        return ("query",), 0
    named = _COLUMNS.match(plain)
    return ("query",), 1 + (named[1].count(",") if named else 0)


def packets(statement: Statement) -> Iterator[SimulatedPacket]:
    """All packets in their order; of a handshake the server's greeting comes first."""
    answers = list(enumerate(statement.answers, start=1))
    if statement is _HANDSHAKE:
        number, size = answers.pop(0)
        yield SimulatedPacket(up=False, number=number, bytes=size)
    yield SimulatedPacket(up=True, number=1, bytes=statement.asks)
    for number, size in answers:
        yield SimulatedPacket(up=False, number=number, bytes=size)


def bytes_of(sql: str, args: Any) -> int:
    """About as long as the statement is on the wire, as the server's limit of a packet counts it."""
    size = len(sql)
    for arg in args or ():
        size += sum(len(str(one)) for one in arg) if isinstance(arg, list | tuple) else len(str(arg))
    return size
