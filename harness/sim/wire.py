"""The wire: what a flight says on its connection, statement by statement, each one request and packets of answer.

Answers to MySQL's packets, by number and rough size. Invariant: the packets of a flight are a function of what it
asks and of whether its connection is new, so that a fault that counts them meets the same ones again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

__all__ = [
    "HANDSHAKE",
    "LOOKUP",
    "STATEMENT",
    "TAKE_OVER",
    "Packet",
    "Statement",
    "branch",
    "bytes_of",
    "effect_of",
    "packets",
    "transaction",
]


class Statement(Struct, frozen=True):
    """One request and its answer. `text` is how it begins, `answers` the bytes of each packet that comes back."""

    command: str
    """`handshake`, `query` or `commit`."""
    text: str
    asks: int
    answers: tuple[int, ...]


class Packet(Struct, frozen=True):
    """One packet of a flight: `up` to the server; `number` counts the packets of its statement in its direction."""

    up: bool
    statement: Statement
    number: int
    bytes: int


_OK: Final = (11,)
_COLUMN: Final = 44
_END: Final = 9

HANDSHAKE: Final = Statement("handshake", "", 96, (82, *_OK))
"""The server greets first; its request is the client's answer to that."""
_ROW: Final = 64
LOOKUP: Final = (Statement("query", "SELECT c.name", 108, (5, *([_COLUMN] * 5), _END, _ROW, _END)),)
"""Of the reference lookup: five columns, one row."""
_SELECT_TOKEN: Final = Statement("query", "SELECT token", 68, (5, _COLUMN, _END, 9, _END))
_SELECT_EPOCH: Final = Statement("query", "SELECT epoch", 92, (5, *([_COLUMN] * 3), _END, _ROW, _END))
_COMMIT: Final = Statement("commit", "COMMIT", 11, _OK)
TAKE_OVER: Final = (
    Statement("query", "UPDATE fence", 112, _OK),
    _SELECT_TOKEN,
    _SELECT_EPOCH,
    _COMMIT,
)
"""Of a sink: fence the others off, read where to go on."""
STATEMENT: Final = (Statement("commit", "XA COMMIT", 60, _OK),)
"""Of a sink: one that is a transaction by itself."""
_ROW_WRITTEN: Final = 120
"""Of one output in an INSERT, about."""


def transaction(rows: int) -> tuple[Statement, ...]:
    """Of a sink: the fence, the epoch, `rows` outputs, the epoch's own row, COMMIT."""
    return (_SELECT_TOKEN, _SELECT_TOKEN, *_inserts(rows), _COMMIT)


def branch(rows: int) -> tuple[Statement, ...]:
    """Of a two-phase sink: the fence, then a branch with `rows` outputs, prepared."""
    start, end = Statement("query", "XA START", 40, _OK), Statement("query", "XA END", 40, _OK)
    prepare = Statement("prepare", "XA PREPARE", 40, _OK)
    return (_SELECT_TOKEN, start, *_inserts(rows), end, prepare)


def _inserts(rows: int) -> tuple[Statement, ...]:
    written = (Statement("query", "INSERT INTO output", 90 + rows * _ROW_WRITTEN, _OK),) if rows else ()
    return (*written, Statement("query", "INSERT INTO epoch", 160, _OK))


def packets(says: Sequence[Statement], *, fresh: bool, row_bytes: int = 0) -> Iterator[Packet]:
    """All packets of a flight in their order, those of a new connection's handshake first."""
    if fresh:
        greeting, *rest = HANDSHAKE.answers
        yield Packet(False, HANDSHAKE, 1, greeting)
        yield Packet(True, HANDSHAKE, 1, HANDSHAKE.asks)
        for number, size in enumerate(rest, start=2):
            yield Packet(False, HANDSHAKE, number, size)
    for statement in says:
        yield Packet(True, statement, 1, statement.asks)
        for number, size in enumerate(statement.answers, start=1):
            yield Packet(False, statement, number, size + (row_bytes if size == _ROW else 0))


def effect_of(says: Sequence[Statement]) -> Statement:
    """The statement with which the flight takes effect: its COMMIT, or the only one that it has."""
    return says[-1]


def bytes_of(says: Sequence[Statement], *, fresh: bool, up: bool, row_bytes: int = 0) -> int:
    """What a flight moves in one direction."""
    return sum(one.bytes for one in packets(says, fresh=fresh, row_bytes=row_bytes) if one.up is up)
