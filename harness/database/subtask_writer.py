"""What every sink of a subtask does alike: its session, its fence, its open epoch's rows.

Answers to the fencing token of Kleppmann's "How to do distributed locking". Invariant: a transaction that passed
`check_fence` commits before any later attempt takes over, or never: the row it read is locked until it ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from harness.database.epoch import DeadRow, Fenced, Visible
from harness.database.transactions import STATEMENT_S, Transactions
from harness.runs.plan import Endpoint

__all__ = ["SubtaskWriter"]

_T = TypeVar("_T")

INSERT_OUTPUT = "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)"


def _nobody_listens(phase: str) -> None:
    """Where no fault waits, a phase is nothing."""


class SubtaskWriter:
    """The writer of `subtask`, for one attempt. Mutable: its token, and what its open epoch holds."""

    def __init__(
        self, endpoint: Endpoint, *, subtask: int, seed: int = 0, statement_s: float = STATEMENT_S
    ) -> None:
        self.subtask = subtask
        self.token = 0
        """The attempt's number; 0 until it has taken over."""
        self.reach: Callable[[str], None] = _nobody_listens
        """Told of the phases of a commit; it may raise, or not return."""
        self.transactions = Transactions(
            endpoint,
            name=f"{endpoint.database}/{subtask}",
            seed=seed,
            check=self._check_newest,
            statement_s=statement_s,
        )
        self._rows: list[Visible] = []
        self._dead: list[DeadRow] = []

    def listen(self, *, on_loss: Callable[[int | str], None], on_error: Callable[[int | str], None]) -> None:
        """From now on tell of each connection lost and of each other error of the server."""
        self.transactions.on_loss = on_loss
        self.transactions.on_error = on_error

    def insist(self, work: Callable[[Any], _T], what: str) -> _T:
        """See `Transactions.insist`."""
        return self.transactions.insist(work, what)

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch; nothing is visible yet."""
        self._rows.append(row)

    def bury(self, *, id: int, error: str) -> None:
        """Take a dead letter into the open epoch."""
        self._dead.append(DeadRow(id=id, error=error))

    def forget_rows(self) -> None:
        """The open epoch is the database's now; a new one begins."""
        self._rows.clear()
        self._dead.clear()

    def fence_off(self, cursor: Any, now_ms: int) -> tuple[int, int]:
        """Raise the token, in the caller's transaction: (the new one, when the first attempt began)."""
        cursor.execute(
            "UPDATE fence SET token = token + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s)"
            " WHERE subtask = %s",
            (now_ms, self.subtask),
        )
        cursor.execute("SELECT token, origin_ms FROM fence WHERE subtask = %s", (self.subtask,))
        token, origin_ms = cursor.fetchone()
        return token, origin_ms

    def check_fence(self, cursor: Any) -> None:
        """Lock the fence until the caller's transaction ends. Raises `Fenced`."""
        cursor.execute("SELECT token FROM fence WHERE subtask = %s FOR UPDATE", (self.subtask,))
        self._refuse_other(cursor)

    def _check_newest(self, cursor: Any) -> None:
        """Before another session is ended: an attempt that is superseded may not end its successor's."""
        if self.token:
            cursor.execute("SELECT token FROM fence WHERE subtask = %s", (self.subtask,))
            self._refuse_other(cursor)

    def _refuse_other(self, cursor: Any) -> None:
        holder = cursor.fetchone()[0]
        if holder != self.token:
            cursor.connection.rollback()
            message = f"attempt {self.token} of subtask {self.subtask} is fenced: attempt {holder} took over"
            raise Fenced(message)

    def has_epoch(self, cursor: Any, epoch: int) -> bool:
        """Whether its row is there: whatever was answered or not, the epoch is visible."""
        cursor.execute("SELECT token FROM epoch WHERE subtask = %s AND epoch = %s", (self.subtask, epoch))
        return cursor.fetchone() is not None

    def write_rows(self, cursor: Any, epoch: int, *, insert: str = INSERT_OUTPUT) -> None:
        """The outputs and dead letters of the open epoch, in the caller's transaction."""
        rows = [(self.subtask, r.id, r.j, json.dumps(r.value), epoch, self.token) for r in self._rows]
        if rows:
            cursor.executemany(insert, rows)
        dead = [(self.subtask, r.id, r.error, epoch, self.token) for r in self._dead]
        if dead:
            cursor.executemany(
                "INSERT INTO dead_letter (subtask, id, error, epoch, token) VALUES (%s, %s, %s, %s, %s)",
                dead,
            )

    def write_epoch(self, cursor: Any, epoch: int, position: int, elements: str) -> None:
        """The epoch's row, in the caller's transaction."""
        cursor.execute(
            "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)",
            (self.subtask, epoch, self.token, position, elements),
        )

    def close(self) -> None:
        """Give the connection up; what was not committed is rolled back by the server."""
        self.transactions.close()
