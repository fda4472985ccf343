"""What the server counts of a run's connections, past the proxy: how many were made, and how many lived at once.

Answers to `SHOW GLOBAL STATUS`. Invariant: the counters are of one life of the server; where it was restarted
meanwhile there is no answer, and never a wrong one.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pymysql

from harness.database.schema import connect
from harness.errors import WorldError
from harness.runs.plan import Endpoint

__all__ = ["ServerCounter", "ServerCounts"]

_STATUS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN"
    " ('Connections', 'Max_used_connections', 'Threads_connected', 'Uptime')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """Between two moments; the harness's own connections are among them."""

    opened: int
    """Connections that were made."""
    at_once: int
    """The most that there were at a time, above those that there were at the first moment."""


class ServerCounter:
    """Counts from the moment at which it is made. Raises WorldError if the server does not answer then."""

    def __init__(self, root: Endpoint) -> None:
        self._root = root
        try:
            self._before = _status(root, flush=True)
        except (pymysql.MySQLError, OSError) as error:
            message = f"the server at {root.host}:{root.port} does not tell its counters: {error}"
            raise WorldError(message, fix="floodmark doctor shows what the world lacks") from error

    def read(self) -> ServerCounts | None:
        """Up to now; None if the server was restarted meanwhile, or does not answer."""
        try:
            now = _status(self._root, flush=False)
        except (pymysql.MySQLError, OSError):
            return None
        if now["Uptime"] < self._before["Uptime"] or now["Connections"] < self._before["Connections"]:
            return None
        return ServerCounts(
            opened=now["Connections"] - self._before["Connections"],
            at_once=now["Max_used_connections"] - self._before["Threads_connected"],
        )


def _status(root: Endpoint, *, flush: bool) -> dict[str, int]:
    with closing(connect(root)) as connection, connection.cursor() as cursor:
        if flush:  # else the most at a time would be that of the server's whole life
            cursor.execute("FLUSH STATUS")
        cursor.execute(_STATUS)
        return {name: int(value) for name, value in cursor.fetchall()}
