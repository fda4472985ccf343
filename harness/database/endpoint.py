"""Where a database is, how a sink connects to it, and the statement of the reference lookup.

PyMySQL is imported when a connection is first made: level sim has none, and its simulated server knows the statement
by its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from pymysql.connections import Connection

MySqlConnection: TypeAlias = "Connection[Any]"
"""A connection of PyMySQL; its cursors give tuples."""

OWN = "_own"
"""What the database of a user's own tables is called after the run's."""
_CONNECT_S = 3
_STATEMENT_S = 10

QUERY = (
    "SELECT c.name, c.city, c.tier, asked.nonce, asked.slept, REPEAT('.', %s), c.ver"
    " FROM (SELECT %s AS nonce, SLEEP(%s) AS slept) AS asked LEFT JOIN customer AS c ON c.k = %s ORDER BY c.n"
)
"""One row at least, so that even a record without a customer is answered with its nonce; it sleeps once."""

QUERY_OF_PARTS = QUERY.replace("c.k = %s", "c.k = %s AND c.part = %s")
"""The same for a composite key."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client connects, as whom; a lookup object gets it as the argument of its `open`."""

    host: str
    port: int
    user: str
    password: str
    database: str

    def url(self, driver: str = "") -> str:
        """The address in one text: `mysql://...`, or with a driver as SQLAlchemy names it, `mysql+asyncmy://...`."""
        scheme = f"mysql+{driver}" if driver else "mysql"
        user, password = quote(self.user, safe=""), quote(self.password, safe="")
        return f"{scheme}://{user}:{password}@{self.host}:{self.port}/{quote(self.database, safe='')}"

    def __repr__(self) -> str:
        return f"Endpoint({self.user}@{self.host}:{self.port}/{self.database})"


NOWHERE = Endpoint(host="", port=0, user="", password="", database="")
"""The database at level sim, which has no server to connect to."""


class KeptConnection:
    """One connection for several questions, closed when the block ends. Mutable.

    The first question opens it; the next one after a loss opens another.
    """

    def __init__(self, endpoint: Endpoint, *, statement_s: float = _STATEMENT_S) -> None:
        self._endpoint = endpoint
        self._statement_s = statement_s
        self._connection: MySqlConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()

    def opened(self) -> MySqlConnection:
        """The open connection. Raises pymysql's errors."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, statement_s=self._statement_s)
        return self._connection


def connect(endpoint: Endpoint, *, statement_s: float = _STATEMENT_S) -> MySqlConnection:
    """A PyMySQL connection on which every wait is bounded; no TLS, for the proxy reads packets."""
    import pymysql  # noqa: PLC0415 - see above

    return pymysql.connect(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        database=endpoint.database or None,
        autocommit=False,
        ssl_disabled=True,
        connect_timeout=_CONNECT_S,
        read_timeout=statement_s,
        write_timeout=statement_s,
    )
