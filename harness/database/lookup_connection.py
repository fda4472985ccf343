"""Creates connections for lookups, with or without a pool.

Invariant: every lookup uses the same database and user, with autocommit on.
"""

from __future__ import annotations

from typing import Any

from asyncmy.connection import Connection

from harness.runs.plan import Endpoint

__all__ = ["lookup_connection"]


def lookup_connection(endpoint: Endpoint, *, connect_timeout_s: int = 10) -> Any:
    """An unconnected connection: the caller calls `await connection.connect()`."""
    return Connection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        db=endpoint.database,
        autocommit=True,
        connect_timeout=connect_timeout_s,
    )
