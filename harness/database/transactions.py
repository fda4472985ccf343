"""Transactions of one writer: each made again as a whole, by the class of its error, until its outcome is known.

Answers to the connection of Flink's JDBC sinks, and to the advice of every database's manual on deadlocks.
Invariant: at most one session of a writer lives in the server once a transaction begins: it holds a lock by the
writer's name, and who finds that lock held by another session, left over on a dead link or by a frozen
predecessor, ends that one first. No wait is unbounded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from harness.choices import Choices
from harness.clock import REAL_CLOCK, Clock, Deadline
from harness.database.backoff import Backoff
from harness.database.driver import Driver
from harness.database.epoch import SinkLost
from harness.database.error_classes import ErrorClass, class_of, code_of

__all__ = ["SETTLE_S", "STATEMENT_S", "Transactions"]

_T = TypeVar("_T")

SETTLE_S = 20.0
"""As long as a transaction is made again."""
_IDLE_S = 60
"""After so long the server ends a session that is silent, and with it the locks of its transaction."""
_LOCK_WAIT_S = 2
STATEMENT_S = 5
"""As long as one answer may take; a transaction has a few rows."""
_NAME_WAIT_S = 1
"""A session that has just been closed lets go of its name by then."""
_NAME_MAX = 64
_ENDED_SESSION = frozenset({1094, 1095})
"""What KILL is refused with: no such session; or not ours to end, which MariaDB 10.11 was seen to answer while the
session was ending. In both cases the name is waited for."""


class _NameHeld(Exception):
    """Another session holds the writer's name, and did not end yet."""


def _nothing(code: int | str) -> None:
    """Default callback: ignores the error code."""


class Transactions:
    """Those of the writer `name`. Mutable: holds its one connection.

    `check(cursor)` is called before another session by the same name is ended: it raises if this one is the
    superseded one. `on_loss` and `on_error` are told the code of each error, as by the lookups' pool.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        name: str,
        seed: int,
        check: Callable[[Any], None],
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
        self._connection: Any = None

    def insist(self, work: Callable[[Any], _T], what: str) -> _T:
        """Do `work(cursor)`, which begins and ends a transaction, until it is done; what it returned.

        Raises `SinkLost` after `SETTLE_S`, and what no repetition helps against, at once.
        """
        deadline = Deadline(SETTLE_S, clock=self._clock)
        backoff = Backoff(self._choices)
        while True:
            try:
                with self.open().cursor() as cursor:
                    return work(cursor)
            except self._errors as error:
                self._recover(error)
                if deadline.passed:
                    message = f"{self._name} could not {what} within {SETTLE_S:.3g} s: {error}"
                    raise SinkLost(message) from error
                self._clock.pause(backoff.next_ms() / 1000)

    def once(self, work: Callable[[Any], _T]) -> _T | None:
        """Do `work(cursor)` if that is possible now; None: it was not, and may be soon."""
        try:
            with self.open().cursor() as cursor:
                return work(cursor)
        except self._errors as error:
            self._recover(error)
            return None

    def open(self) -> Any:
        """The session, a new one if there is none."""
        if self._connection is None:
            connection = self._driver.connect(statement_s=self._statement_s)
            try:
                self._begin(connection)
            except BaseException:
                self._driver.hang_up(connection)
                raise
            self._connection = connection
        return self._connection

    def _begin(self, connection: Any) -> None:
        """Limits on the server's side, and the name."""
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
                connection.rollback()  # what was checked was read in a transaction; nothing else here begins one

    def _takes_name(self, cursor: Any) -> bool:
        cursor.execute("SELECT GET_LOCK(%s, %s)", (self._name, _NAME_WAIT_S))
        return bool(cursor.fetchone()[0])

    def _end_holder(self, cursor: Any) -> None:
        """The server knows who holds the name now, which a number that was written down once would not tell."""
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
        """After `error`, the next try finds no transaction of ours; raises what no repetition helps against."""
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
        """An error may leave the transaction open (1205)."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.rollback()
        except self._driver.errors as error:
            self.close()
            self.on_loss(code_of(error))

    def end_session(self) -> None:
        """Say goodbye to the server: the session ends, what it prepared stays."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            with suppress(*self._driver.errors):
                connection.close()

    def close(self) -> None:
        """Give the connection up; what was not committed is rolled back by the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.hang_up(connection)
