"""What a pool raises where a lookup may answer by asking again.

Invariant: whoever sees one does not know whether the statement took effect, unless its class says so. They need no
client, so that a pool of level sim raises the same.
"""

from __future__ import annotations

__all__ = ["CircuitOpen", "ConnectionLost", "MayAskAgain", "NoFreeConnection", "StatementEnded"]


class MayAskAgain(Exception):
    """A read may be made again; `code` is the server's or the driver's number, or the name of what happened."""

    def __init__(self, code: int | str, message: str) -> None:
        super().__init__(f"{self._what} ({code}): {message}")
        self.code = code

    _what = "the database did not answer"


class ConnectionLost(MayAskAgain):
    """The connection is gone, or could not be had; whether the statement took effect is not known."""

    _what = "connection to the database lost"


class NoFreeConnection(ConnectionLost):
    """Every connection of the pool was in use for as long as a call may wait; nothing was sent."""

    _what = "no connection to the database"


class CircuitOpen(ConnectionLost):
    """So many connects in a row have failed that the pool makes no more for a while; nothing was sent."""

    _what = "no connection to the database"


class StatementEnded(MayAskAgain):
    """The server ended the statement, or cannot do it now; it took no effect, and the connection may live."""

    _what = "the database ended the statement"
