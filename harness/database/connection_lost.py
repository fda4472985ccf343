"""The one error of a pool that a lookup may answer by asking again.

Invariant: whoever sees it does not know whether the statement took effect. It needs no client, so that a pool of
level sim raises the same.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LOST", "ConnectionLost"]

LOST: Final = frozenset({1040, 1053, 1152, 1927, 2003, 2006, 2013, 2055, 3032})
"""Server and client error codes after which the call may be made again on another connection."""


class ConnectionLost(Exception):
    """The connection is gone, or could not be had; whether the statement took effect is not known."""

    def __init__(self, code: int | str, message: str) -> None:
        super().__init__(f"connection to the database lost ({code}): {message}")
        self.code = code
