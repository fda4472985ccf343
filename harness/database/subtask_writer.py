"""What all sinks of a subtask share: the session, the fence and the rows of the open epoch.

Answers to the fencing token of Kleppmann's "How to do distributed locking". Invariant: a transaction that passed
`check_fence` commits before any later attempt takes over, or never, because it holds a lock on the fence's row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn, TypeVar

from harness.database.driver import Cursor, Driver
from harness.database.epoch import INSERT_DEAD_LETTER, INSERT_OUTPUT, DeadRow, Fenced, Visible
from harness.database.transactions import STATEMENT_S, Transactions
from harness.system.clock import REAL_CLOCK, Clock

_T = TypeVar("_T")


def _nobody_listens(phase: str) -> None:
    """Default callback: no fault waits for a phase."""


class SubtaskWriter:
    """The writer of one attempt of `subtask`. Mutable: its token and the rows of its open epoch."""

    def __init__(
        self,
        driver: Driver,
        *,
        subtask: int,
        seed: int = 0,
        statement_s: float = STATEMENT_S,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self.subtask = subtask
        self.token = 0
        """The attempt's number; 0 before it has taken over."""
        self.generation = 0
        """That of the Spark driver that has sent the attempt; 0: no driver is ever replaced."""
        self.reach: Callable[[str], None] = _nobody_listens
        """Called at each phase of a commit; a fault's callback may raise, or never return."""
        self.transactions = Transactions(
            driver,
            name=f"{driver.database}/{subtask}",
            seed=seed,
            check=self._check_newest,
            statement_s=statement_s,
            clock=clock,
        )
        self._rows: list[Visible] = []
        self._dead: list[DeadRow] = []

    def listen(self, *, on_loss: Callable[[int | str], None], on_error: Callable[[int | str], None]) -> None:
        """Set the callbacks for lost connections and for other errors of the server."""
        self.transactions.on_loss = on_loss
        self.transactions.on_error = on_error

    def retry_until_settled(self, work: Callable[[Cursor], _T], what: str) -> _T:
        return self.transactions.retry_until_settled(work, what)

    def add(self, row: Visible) -> None:
        """Add an output to the open epoch; it is not visible yet."""
        self._rows.append(row)

    def write_dead_letter(self, *, id: int, error: str) -> None:
        """Add a dead letter to the open epoch."""
        self._dead.append(DeadRow(id=id, error=error))

    def forget_rows(self) -> None:
        """The open epoch was written: begin an empty one."""
        self._rows.clear()
        self._dead.clear()

    def fence_off(self, cursor: Cursor, now_ms: int) -> tuple[int, int]:
        """Increase the token in the caller's transaction; returns the new one and when the first attempt began.

        Raises `Fenced` if an attempt of a later driver has taken over before: the driver that sent this one is dead, or
        has been replaced while it lived, and its retries must not fence off their successors.
        """
        if self.generation:
            self._refuse_earlier_driver(cursor, locks=True)
            cursor.execute(
                "UPDATE fence SET generation = %s WHERE subtask = %s", (self.generation, self.subtask)
            )
        cursor.execute(
            "UPDATE fence SET token = token + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s)"
            " WHERE subtask = %s",
            (now_ms, self.subtask),
        )
        cursor.execute("SELECT token, origin_ms FROM fence WHERE subtask = %s", (self.subtask,))
        token, origin_ms = cursor.fetchone()
        return token, origin_ms

    def check_fence(self, cursor: Cursor) -> None:
        """Check the token and lock the fence until the caller's transaction ends. Raises `Fenced`."""
        cursor.execute("SELECT token FROM fence WHERE subtask = %s FOR UPDATE", (self.subtask,))
        self._refuse_other(cursor)

    def _check_newest(self, cursor: Cursor) -> None:
        """Called before another session is killed: a superseded attempt must not kill its successor's."""
        if self.generation:
            self._refuse_earlier_driver(cursor, locks=False)
        if self.token:
            cursor.execute("SELECT token FROM fence WHERE subtask = %s", (self.subtask,))
            self._refuse_other(cursor)

    def _refuse_earlier_driver(self, cursor: Cursor, *, locks: bool) -> None:
        statement = "SELECT generation FROM fence WHERE subtask = %s"
        cursor.execute(f"{statement} FOR UPDATE" if locks else statement, (self.subtask,))
        newest = cursor.fetchone()[0]
        if newest > self.generation:
            cursor.connection.rollback()
            message = f"driver {self.generation} is fenced: driver {newest} took over subtask {self.subtask}"
            raise Fenced(message)

    def _refuse_other(self, cursor: Cursor) -> None:
        holder = cursor.fetchone()[0]
        if holder != self.token:
            self._raise_fenced(cursor, holder)

    def _raise_fenced(self, cursor: Cursor, holder: int) -> NoReturn:
        cursor.connection.rollback()
        raise Fenced(f"attempt {self.token} of subtask {self.subtask} is fenced: attempt {holder} took over")

    def has_epoch(self, cursor: Cursor, epoch: int) -> bool:
        """Whether the epoch's row exists: then the epoch is visible."""
        cursor.execute("SELECT token FROM epoch WHERE subtask = %s AND epoch = %s", (self.subtask, epoch))
        return cursor.fetchone() is not None

    def write_rows(
        self,
        cursor: Cursor,
        epoch: int,
        *,
        insert: str = INSERT_OUTPUT,
        insert_letter: str = INSERT_DEAD_LETTER,
    ) -> None:
        """Write the open epoch's outputs and dead letters in the caller's transaction."""
        rows = [(self.subtask, r.id, r.j, json.dumps(r.value), epoch, self.token) for r in self._rows]
        if rows:
            cursor.executemany(insert, rows)
        dead = [(self.subtask, r.id, r.error, epoch, self.token) for r in self._dead]
        if dead:
            cursor.executemany(insert_letter, dead)

    def write_epoch(self, cursor: Cursor, epoch: int, position: int, elements: str) -> None:
        """Write the epoch's row in the caller's transaction."""
        cursor.execute(
            "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)",
            (self.subtask, epoch, self.token, position, elements),
        )

    def close(self) -> None:
        """Drop the connection; the server rolls back what was not committed."""
        self.transactions.close()
