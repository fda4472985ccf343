"""A connection of the lookups, before its handshake.

Invariant: whoever opens one, with a pool or without, asks the same database as the same user, and each statement is a
transaction of its own.
"""

from __future__ import annotations

from typing import Any

from asyncmy.connection import Connection

from harness.runs.plan import Endpoint

__all__ = ["lookup_connection"]


def lookup_connection(endpoint: Endpoint, *, connect_timeout_s: int = 10) -> Any:
    """Not connected yet: `await connection.connect()` is left to the caller, and so is what it costs."""
    return Connection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        db=endpoint.database,
        autocommit=True,
        connect_timeout=connect_timeout_s,
    )
