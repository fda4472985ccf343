"""Transactions of one writer, retried as a whole until their outcome is known, depending on the class of the error.

Answers to the connection handling of Flink's JDBC sinks, to the retry classes of JDBC drivers, and to Flink's
`ExponentialDelayRestartBackoffTimeStrategy`. Invariants: when a transaction begins, the writer has no other session in
the server: it holds a lock with the writer's name, and kills an old session that still holds it. An error number has
the same class for pool and sinks, at every level; a number not in the table is not retried. Equal choices give equal
waits, and every wait is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeVar

from harness.database.driver import BlockingConnection, Cursor, Driver
from harness.database.epoch import SinkLost
from harness.system.choices import Choices
from harness.system.clock import REAL_CLOCK, Clock, Deadline

_FIRST_MS = 25
_LONGEST_MS = 400


class Backoff:
    """The waits between the tries of one series: growing up to a longest wait.

    Mutable: counts the tries.
    """

    def __init__(self, choices: Choices, *, first_ms: int = _FIRST_MS, longest_ms: int = _LONGEST_MS) -> None:
        self._choices = choices
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._up_to_ms = first_ms

    def next_ms(self) -> int:
        """The next wait: between half and all of a bound that doubles up to the longest."""
        up_to_ms = self._up_to_ms
        self._up_to_ms = min(2 * up_to_ms, self._longest_ms)
        return self._choices.between(up_to_ms // 2, up_to_ms)

    def reset(self) -> None:
        """The try succeeded: the next series starts with the first wait."""
        self._up_to_ms = self._first_ms


class ErrorClass(Enum):
    """How to react to an error."""

    RECONNECT = "the connection is gone, or could not be had: again on another one"
    RETRY = "the server ended the statement: roll back, and make the transaction again as a whole"
    BACK_OFF = "the server cannot do it now, and may soon: roll back, wait, and make the transaction again"
    DONE = "its key is there already: an earlier try took effect, which a look at the epoch row settles"
    FAIL = "no repetition helps: the caller fails, visibly"


NO_SUCH_BRANCH: Final = 1397
"""XAER_NOTA: the branch was committed, rolled back, or never prepared; the epoch row shows which."""

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
"""Class by error number, of servers and clients."""


def class_of(code: int | str) -> ErrorClass:
    """The class of an error code from `code_of`."""
    if isinstance(code, str):  # not from the server: a socket error, a time limit, a malformed packet
        return ErrorClass.RECONNECT
    return ERRORS.get(code, ErrorClass.FAIL)


def code_of(error: BaseException) -> int | str:
    """The error number of a driver's exception; for a socket error or a time limit, the exception's class name."""
    if isinstance(error, OSError) or not error.args or not isinstance(error.args[0], int):
        return type(error).__name__
    return error.args[0]


_T = TypeVar("_T")

SETTLE_S = 20.0
"""How long a transaction is retried."""
_IDLE_S = 60
"""The server ends a session idle for this long, which releases its transaction's locks."""
_LOCK_WAIT_S = 2
STATEMENT_S = 5
"""Limit of one answer; a transaction has only a few rows."""
_NAME_WAIT_S = 1
"""How long to wait for the name; a session that was just closed has released it by then."""
_NAME_MAX = 64
_ENDED_SESSION = frozenset({1094, 1095})
"""KILL's errors: no such session, or not ours to end, which MariaDB 10.11 was seen to answer while the session was
ending. In both cases the session is about to end, and the name is awaited.
"""


class _NameHeld(Exception):
    """Another session still holds the writer's name."""


def _nothing(code: int | str) -> None:
    """Default callback: ignores the error code."""


class Transactions:
    """The transactions of the writer `name`. Mutable: holds its one connection.

    `check(cursor)` is called before another session with the same name is killed; it raises if this attempt is
    superseded. `on_loss` and `on_error` get the code of each error, as with the lookups' pool.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        name: str,
        seed: int,
        check: Callable[[Cursor], None],
        statement_s: float = STATEMENT_S,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self.on_loss: Callable[[int | str], None] = _nothing
        self.on_error: Callable[[int | str], None] = _nothing
        assert len(name) <= _NAME_MAX, f"MySQL takes no lock name longer than {_NAME_MAX}: {name}"
        self.database = driver.database
        self._driver = driver
        self._clock = clock
        self._errors: tuple[type[Exception], ...] = (*driver.errors, _NameHeld)
        self._name = name
        self._check = check
        self._statement_s = statement_s
        self._choices = Choices(seed, f"waits of {name}")
        self._connection: BlockingConnection | None = None

    def retry_until_settled(self, work: Callable[[Cursor], _T], what: str) -> _T:
        """Call `work(cursor)`, which begins and ends a transaction, until it succeeds; returns its result.

        Raises `SinkLost` after `SETTLE_S`, and an error of class FAIL at once.
        """
        deadline = Deadline(SETTLE_S, clock=self._clock)
        backoff: Backoff | None = None
        while True:
            try:
                with self.open().cursor() as cursor:
                    return work(cursor)
            except self._errors as error:
                self._recover(error)
                if deadline.passed:
                    message = f"{self._name} could not {what} within {SETTLE_S:.3g} s: {error}"
                    raise SinkLost(message) from error
                backoff = backoff or Backoff(self._choices)
                self._clock.pause(backoff.next_ms() / 1000)

    def once(self, work: Callable[[Cursor], _T]) -> _T | None:
        """Call `work(cursor)` once; None if it failed with an error that can be retried."""
        try:
            with self.open().cursor() as cursor:
                return work(cursor)
        except self._errors as error:
            self._recover(error)
            return None

    def open(self) -> BlockingConnection:
        """The session; connects if there is none."""
        if self._connection is None:
            connection = self._driver.connect(statement_s=self._statement_s)
            try:
                self._begin(connection)
            except BaseException:
                self._driver.hang_up(connection)
                raise
            self._connection = connection
        return self._connection

    def _begin(self, connection: BlockingConnection) -> None:
        """Set the session's limits and take the writer's name."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"SET SESSION wait_timeout = CAST(LEAST(@@GLOBAL.wait_timeout, {_IDLE_S}) AS UNSIGNED),"
                f" innodb_lock_wait_timeout = {_LOCK_WAIT_S}"
            )
            if not self._takes_name(cursor):
                self._check(cursor)
                self._end_holder(cursor)
                if not self._takes_name(cursor):
                    raise _NameHeld(f"the name {self._name} is still held by another session")
                connection.rollback()  # the check read in a transaction; nothing else here begins one

    def _takes_name(self, cursor: Cursor) -> bool:
        cursor.execute("SELECT GET_LOCK(%s, %s)", (self._name, _NAME_WAIT_S))
        return bool(cursor.fetchone()[0])

    def _end_holder(self, cursor: Cursor) -> None:
        """Kill the session that holds the name; the server says which it is now."""
        cursor.execute("SELECT IS_USED_LOCK(%s)", (self._name,))
        holder = cursor.fetchone()[0]
        if holder is None:
            return
        try:
            cursor.execute(f"KILL {int(holder)}")
        except self._driver.errors as error:
            if code_of(error) not in _ENDED_SESSION:
                raise

    def _recover(self, error: Exception) -> None:
        """Make sure that the next try finds no transaction of ours open; raises an error of class FAIL."""
        if isinstance(error, _NameHeld):
            return
        code = code_of(error)
        match class_of(code):
            case ErrorClass.RECONNECT:
                self.close()
                self.on_loss(code)
            case ErrorClass.RETRY | ErrorClass.BACK_OFF | ErrorClass.DONE:
                self.on_error(code)
                self._roll_back()
            case ErrorClass.FAIL:
                self.on_error(code)
                self.close()
                raise error

    def _roll_back(self) -> None:
        """Roll back, since some errors (1205) leave the transaction open."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.rollback()
        except self._driver.errors as error:
            self.close()
            self.on_loss(code_of(error))

    def end_session(self) -> None:
        """End the session in order; prepared branches stay."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            with suppress(*self._driver.errors):
                connection.close()

    def close(self) -> None:
        """Drop the connection; the server rolls back what was not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.hang_up(connection)
