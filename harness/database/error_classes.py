"""What an error of the database calls for: one table of numbers, which the pool and the sinks go by.

Answers to the retry classes of JDBC drivers and to what was measured of each error (`docs/references.md`, Measured).
Invariant: a number has one class, whoever meets it; what is not in the table fails, for nobody knows better. It
needs no client, so that level sim goes by the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["ERRORS", "NO_SUCH_BRANCH", "ErrorClass", "class_of", "code_of"]


class ErrorClass(Enum):
    """What to do about an error."""

    RECONNECT = "the connection is gone, or could not be had: again on another one"
    RETRY = "the server ended the statement: roll back, and make the transaction again as a whole"
    BACK_OFF = "the server cannot do it now, and may soon: roll back, wait, and make the transaction again"
    DONE = "its key is there already: an earlier try took effect, which a look at the epoch row settles"
    FAIL = "no repetition helps: the caller fails, visibly"


NO_SUCH_BRANCH: Final = 1397
"""XAER_NOTA: the branch was committed, rolled back, or never prepared; the epoch row knows which."""

_BY_CLASS: Mapping[ErrorClass, Mapping[int, str]] = {
    ErrorClass.RECONNECT: {
        0: "the driver finds the connection closed",
        1040: "too many connections",
        1042: "the server cannot reach the client",
        1043: "the handshake was cut",
        1053: "the server shuts down",
        1079: "the server has shut down",
        1080: "the server closes the thread",
        1152: "the connection was aborted",
        1153: "the packet is too large; the server hangs up, and may take more by the next time",
        1158: "reading from the network failed",
        1159: "reading from the network took too long",
        1160: "writing to the network failed",
        1161: "writing to the network took too long",
        1184: "the connection was aborted",
        1203: "the user has too many connections",
        1226: "the user has used up a resource",
        1927: "the connection was killed",
        2002: "the server's socket does not answer",
        2003: "the server does not answer",
        2006: "the server has gone away",
        2013: "the connection was lost during the statement",
        2014: "the connection is out of step",
        2027: "a packet is malformed",
        2055: "the connection was lost",
        3032: "the server is offline",
        3168: "the server is not available",
        4031: "the server hung up on an idle client",
    },
    ErrorClass.RETRY: {
        1020: "the row has changed since it was read",
        1205: "a lock was not had in time",
        1213: "a deadlock",
        1317: "the statement was killed",
        1412: "the table has changed since the transaction began",
        1613: "the branch was rolled back: it took too long",
        1614: "the branch was rolled back: a deadlock",
        1615: "the statement needs to be prepared again",
        1969: "the statement took too long",
        3024: "the statement took too long",
    },
    ErrorClass.BACK_OFF: {
        1021: "the disk is full",
        1030: "the storage engine failed, as on a full disk",
        1114: "the table is full, as on a full disk",
        1290: "the server only reads",
        1836: "the server only reads",
    },
    ErrorClass.DONE: {1062: "the key is there already"},
}

ERRORS: Mapping[int, ErrorClass] = MappingProxyType(
    {code: kind for kind, codes in _BY_CLASS.items() for code in codes}
)
"""Number -> class; servers' and clients' own numbers."""


def class_of(code: int | str) -> ErrorClass:
    """The class of what `code_of` gave."""
    if isinstance(code, str):  # no server's answer: a socket's error, a limit of time, a garbled packet
        return ErrorClass.RECONNECT
    return ERRORS.get(code, ErrorClass.FAIL)


def code_of(error: BaseException) -> int | str:
    """The number that a driver's error carries; of a socket's error or a limit of time, its name."""
    if isinstance(error, OSError) or not error.args or not isinstance(error.args[0], int):
        return type(error).__name__
    return error.args[0]
