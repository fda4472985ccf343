"""The run's own sessions, as the server lists them, and the ways to end them or what they do.

Invariant: only sessions of the run's user in the run's database are touched; one that has ended meanwhile is no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.faults.real.server_control import ServerControl

__all__ = ["Session", "end_sessions", "interrupt", "sessions_of_run"]

_NO_SUCH_SESSION = 1094
_SESSIONS = """
    SELECT ID, COMMAND, COALESCE(STATE, ''), COALESCE(INFO, '') FROM information_schema.PROCESSLIST
    WHERE USER = %s AND DB = %s ORDER BY ID"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of the run."""

    id: int
    command: str
    """`Sleep` while it waits for its client."""
    state: str
    """What its statement is doing."""
    statement: str
    """Empty while it runs none."""


def sessions_of_run(connection: Any, server: ServerControl) -> list[Session]:
    """The run's sessions now, the oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_SESSIONS, (server.user, server.database))
        rows = cursor.fetchall()
    return [
        Session(id=int(number), command=str(command), state=str(state), statement=str(statement))
        for number, command, state, statement in rows
    ]


def end_sessions(connection: Any, sessions: Iterable[Session]) -> int:
    """KILL CONNECTION each; how many there still were."""
    return sum(_kill(connection, "CONNECTION", session) for session in sessions)


def interrupt(connection: Any, sessions: Iterable[Session]) -> int:
    """KILL QUERY each; how many there still were."""
    return sum(_kill(connection, "QUERY", session) for session in sessions)


def _kill(connection: Any, what: str, session: Session) -> bool:
    import pymysql

    try:
        with connection.cursor() as cursor:
            cursor.execute(f"KILL {what} {session.id}")
    except pymysql.MySQLError as error:
        if error.args and error.args[0] == _NO_SUCH_SESSION:
            return False
        raise
    return True
