"""Replies of the simulated server, its error codes and messages, and a client's two connection errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

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
