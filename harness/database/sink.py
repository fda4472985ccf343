"""The exactly-once sink, in one transaction, its form for a failover, and what all sinks of a subtask share.

`SubtaskWriter` answers to the fencing token of Kleppmann's "How to do distributed locking". Invariant: a transaction
that passed `check_fence` commits before any later attempt takes over, or never, because it holds a lock on the fence's
row.

`EpochSink` answers to Flink's `TwoPhaseCommitSinkFunction`, in a form that needs no second phase (why:
`docs/reference/references.md`, Measured). Invariant: the outputs of epoch c are in the table if and only if the epoch
row c is, and only the attempt with the newest token can write them.

`FailoverSink` answers to a Kafka sink that compares the broker's end offset with the one that it remembers. An
asynchronous replica that is promoted lacks the last commits of its primary. Invariant: no epoch is written unless the
one before it, which this attempt restored or committed, is in the database that answers now; otherwise the attempt
fails, and its successor goes on from the newest epoch that is there. Attempts get rising numbers although the row that
counts them may be lost too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from harness.database.driver import Cursor, Driver
from harness.database.epoch import (
    INSERT_DEAD_LETTER,
    INSERT_OUTPUT,
    DeadRow,
    Fenced,
    SavedEpoch,
    SinkLost,
    Takeover,
    Visible,
)
from harness.database.transactions import STATEMENT_S, Transactions
from harness.system.clock import REAL_CLOCK, Clock
from harness.system.json_types import Json

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


class EpochSink(SubtaskWriter):
    """The sink of one attempt of a subtask. Call `take_over` first."""

    def take_over(self, *, now_ms: int) -> Takeover:
        """Fence all earlier attempts, then read the last epoch; no earlier attempt can commit in between."""
        attempt: Takeover = self.retry_until_settled(
            lambda cursor: self._take_over(cursor, now_ms), "take over the subtask"
        )
        self.token = attempt.number
        return attempt

    def _take_over(self, cursor: Cursor, now_ms: int) -> Takeover:
        token, origin_ms = self.fence_off(cursor, now_ms)
        cursor.execute(
            "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1",
            (self.subtask,),
        )
        row = cursor.fetchone()
        saved = row and SavedEpoch(epoch=row[0], position=row[1], elements=json.loads(row[2]))
        cursor.connection.commit()
        return Takeover(number=token, origin_ms=origin_ms, saved=saved or None)

    def commit(self, epoch: int, *, position: int, elements: Sequence[Json]) -> None:
        """Fence check, outputs, snapshot and epoch row in one transaction.

        If the outcome of a COMMIT is unknown, the retry reads the epoch row while it holds the fence's lock, which it
        gets only after the earlier transaction has ended. Raises `Fenced` if a newer attempt holds the token,
        `SinkLost` if the database does not answer in time.
        """
        self.retry_until_settled(
            lambda cursor: self.write(cursor, epoch, position, elements), f"commit epoch {epoch}"
        )
        self.forget_rows()

    def write(self, cursor: Cursor, epoch: int, position: int, elements: Sequence[Json]) -> None:
        """The whole transaction, fence check to COMMIT."""
        self.check_fence(cursor)
        if self.has_epoch(cursor, epoch):  # an earlier COMMIT took effect, and its answer was lost
            cursor.connection.rollback()
            return
        self.write_rows(cursor, epoch)
        self.write_epoch(cursor, epoch, position, json.dumps(list(elements)))
        self.reach("commit.pre")
        cursor.connection.commit()


class CommitsGone(SinkLost):
    """The database that answers now lacks what another server has acknowledged to this attempt."""


class FailoverSink(EpochSink):
    """The sink of one attempt. Call `take_over` first. Mutable: it remembers its last epoch.

    `newest_attempt` says the highest number that an attempt of the subtask is known to have had, and `replica` is a
    driver for the other server, which a right sink never asks.
    """

    newest_attempt: Callable[[], int] = staticmethod(lambda: 0)
    replica: Driver | None = None
    _last: int | None = None

    def take_over(self, *, now_ms: int) -> Takeover:
        attempt = super().take_over(now_ms=now_ms)
        self._last = None if attempt.saved is None else attempt.saved.epoch
        return attempt

    def fence_off(self, cursor: Cursor, now_ms: int) -> tuple[int, int]:
        """As `SubtaskWriter.fence_off`; the token rises above that of every attempt that is known."""
        cursor.execute(
            "UPDATE fence SET token = GREATEST(token, %s) + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s)"
            " WHERE subtask = %s",
            (self.newest_attempt(), now_ms, self.subtask),
        )
        cursor.execute("SELECT token, origin_ms FROM fence WHERE subtask = %s", (self.subtask,))
        token, origin_ms = cursor.fetchone()
        return token, origin_ms

    def check_fence(self, cursor: Cursor) -> None:
        """Also raises `CommitsGone`: the token, or the last epoch, is from before a failover."""
        super().check_fence(cursor)
        if self._last is not None and not self.has_epoch(cursor, self._last):
            cursor.connection.rollback()
            raise CommitsGone(
                f"epoch {self._last} of subtask {self.subtask} was committed by this attempt or one before it, and the"
                " database that answers now does not have it: it has failed over and lost commits"
            )

    def _refuse_other(self, cursor: Cursor) -> None:
        holder = cursor.fetchone()[0]
        if holder < self.token:
            cursor.connection.rollback()
            raise CommitsGone(
                f"attempt {self.token} of subtask {self.subtask} had taken over, and the database that answers now"
                f" knows attempt {holder} only: it has failed over and lost commits"
            )
        if holder != self.token:
            self._raise_fenced(cursor, holder)

    def commit(self, epoch: int, *, position: int, elements: Sequence[Json]) -> None:
        super().commit(epoch, position=position, elements=elements)
        self._last = epoch
