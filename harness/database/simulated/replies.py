"""Replies of the simulated server, its error codes and messages, and a client's two connection errors.

The wire: the bytes and packets of a statement and its reply.

Invariant: a statement's text and arguments determine its packets, so that a fault that counts packets hits
the same ones when the run is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
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


def bytes_of(sql: str, args: Iterable[object] | None) -> int:
    """The statement's approximate request size, which the server compares with `packet_bytes_max`."""
    size = len(sql)
    for arg in args or ():
        size += sum(len(str(one)) for one in arg) if isinstance(arg, list | tuple) else len(str(arg))
    return size


LOST_CONNECTION: Final = 2013
"""Client error: the connection was lost."""
REFUSED: Final = 2003
"""Client error: the connect was refused."""
KILLED: Final = 1927
INTERRUPTED: Final = 1317
NO_SUCH_SESSION: Final = 1094
LOCK_WAIT: Final = 1205
DEADLOCK: Final = 1213
READ_ONLY: Final = 1290
FULL: Final = 1114
PACKET: Final = 1153
SYNTAX: Final = 1064
TOO_LONG: Final = 1969
SHUTDOWN: Final = 1053
SILENT: Final = 4031
TOO_MANY: Final = 1040
OFFLINE: Final = 3032
XA_UNKNOWN: Final = 1397
XA_STATE: Final = 1399
XA_OUTSIDE: Final = 1400
XA_DUPLICATE: Final = 1440
XA_DEADLOCK: Final = 1614

MESSAGES: Mapping[int, str] = MappingProxyType(
    {
        KILLED: "Connection was killed",
        INTERRUPTED: "Query execution was interrupted",
        NO_SUCH_SESSION: "Unknown thread id",
        LOCK_WAIT: "Lock wait timeout exceeded; try restarting transaction",
        DEADLOCK: "Deadlock found when trying to get lock; try restarting transaction",
        READ_ONLY: "The MariaDB server is running with the --read-only option so it cannot execute this statement",
        FULL: "The table is full",
        PACKET: "Got a packet bigger than 'max_allowed_packet' bytes",
        TOO_LONG: "Query execution was interrupted (max_statement_time exceeded)",
        SHUTDOWN: "Server shutdown in progress",
        SILENT: "The client was disconnected by the server because of inactivity",
        TOO_MANY: "Too many connections",
        OFFLINE: "The server is currently in offline mode",
        XA_UNKNOWN: "XAER_NOTA: Unknown XID",
        XA_OUTSIDE: "XAER_OUTSIDE: Some work is done outside global transaction",
        XA_DEADLOCK: "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected",
        XA_DUPLICATE: "XAER_DUPID: The XID already exists",
    }
)


class Reply(Struct, gc=False):
    """The reply to one statement: the rows of a query, the number of rows that a write affected, or an error.

    `more_ms`: delay by the statement's SLEEP and the server's `slow_ms`.
    """

    rows: list[tuple[Any, ...]] | None = None
    affected: int = 0
    code: int | None = None
    message: str = ""
    more_ms: int = 0


Done = Callable[[Reply], None]


def refused(code: int) -> Reply:
    """An error reply with the server's message."""
    return Reply(code=code, message=MESSAGES[code])


def refused_in(state: str) -> Reply:
    """Error 1399: an XA branch in this state does not allow the statement."""
    message = f"XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} state"
    return Reply(code=XA_STATE, message=message)


class UnknownStatement(Exception):
    """The harness's own code sent a statement that the simulated server does not know: a harness defect."""

    def __init__(self, sql: str) -> None:
        super().__init__(
            f"the simulated server does not know this statement: {sql}"
            " (add it to harness/database/simulated/statements.py, or to the patterns in server.py)"
        )
        self.sql = sql


class ConnectRefused(Exception):
    """The server refuses a connect: `code` 1040 (too many sessions) or 3032 (offline)."""

    def __init__(self, code: int) -> None:
        super().__init__(code, MESSAGES[code])
        self.code = code
