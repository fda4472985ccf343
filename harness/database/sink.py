"""The exactly-once sink: data, epoch row and fencing check in one MySQL transaction.

Answers to Flink's `TwoPhaseCommitSinkFunction`, in the one-transaction form that needs no second phase
(why: `docs/references.md`, Measured). Invariant: the outputs of epoch c are in the table if and only if the epoch row c
is, and only the attempt that holds the newest token can put them there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pymysql
from pymysql.connections import Connection

from harness.clock import Deadline, pause
from harness.database.epoch import Attempt, Fenced, SavedEpoch, SinkLost, Visible
from harness.database.schema import connect
from harness.plan import Endpoint

__all__ = ["EpochSink", "SplitSink"]

_T = TypeVar("_T")

_LOST = frozenset({0, 1040, 1053, 1205, 1213, 2003, 2006, 2013, 2014, 2055, 3032})
_SETTLE_S = 20.0
_BETWEEN_TRIES_S = 0.05


class EpochSink:
    """One subtask's sink, used by one attempt; `take_over` comes first."""

    def __init__(self, endpoint: Endpoint, *, subtask: int) -> None:
        self.on_loss: Callable[[int | str], None] = lambda code: None
        """Told of each connection lost; set once the attempt has a journal, which it has from `take_over`."""
        self._endpoint = endpoint
        self._subtask = subtask
        self._connection: Connection[Any] | None = None
        self._token = 0
        self._rows: list[Visible] = []

    def take_over(self, *, now_ms: int) -> Attempt:
        """Fence all earlier attempts, then read the last epoch: in that order nothing can come between."""
        attempt: Attempt = self._insist(
            lambda cursor: self._take_over(cursor, now_ms), "take over the subtask"
        )
        self._token = attempt.number
        return attempt

    def _take_over(self, cursor: Any, now_ms: int) -> Attempt:
        cursor.execute(
            "UPDATE fence SET token = token + 1, origin_ms = COALESCE(origin_ms, %s) WHERE subtask = %s",
            (now_ms, self._subtask),
        )
        cursor.execute("SELECT token, origin_ms FROM fence WHERE subtask = %s", (self._subtask,))
        token, origin_ms = cursor.fetchone()
        cursor.execute(
            "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1",
            (self._subtask,),
        )
        row = cursor.fetchone()
        saved = row and SavedEpoch(epoch=row[0], position=row[1], elements=json.loads(row[2]))
        cursor.connection.commit()
        return Attempt(number=token, origin_ms=origin_ms, saved=saved or None)

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch; nothing is visible yet."""
        self._rows.append(row)

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """Fence check, outputs, snapshot and epoch row in one transaction.

        A COMMIT whose outcome is unknown is settled by reading the epoch row, under the fence's lock, which
        waits for the transaction in doubt to end. Raises `Fenced` if a newer attempt holds the token,
        `SinkLost` if the database does not answer in time.
        """
        text = json.dumps(list(elements))
        self._insist(lambda cursor: self._write(cursor, epoch, position, text), f"commit epoch {epoch}")
        self._rows.clear()

    def _write(self, cursor: Any, epoch: int, position: int, elements: str) -> None:
        cursor.execute("SELECT token FROM fence WHERE subtask = %s FOR UPDATE", (self._subtask,))
        holder = cursor.fetchone()[0]
        if holder != self._token:
            cursor.connection.rollback()
            message = (
                f"attempt {self._token} of subtask {self._subtask} is fenced: attempt {holder} took over"
            )
            raise Fenced(message)
        cursor.execute("SELECT token FROM epoch WHERE subtask = %s AND epoch = %s", (self._subtask, epoch))
        if cursor.fetchone() is not None:  # an earlier COMMIT of ours, whose answer was lost, took effect
            cursor.connection.rollback()
            return
        self._write_rows(cursor, epoch)
        cursor.execute(
            "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)",
            (self._subtask, epoch, self._token, position, elements),
        )
        cursor.connection.commit()

    def _write_rows(self, cursor: Any, epoch: int) -> None:
        rows = [(self._subtask, r.id, r.j, json.dumps(r.value), epoch, self._token) for r in self._rows]
        if rows:
            cursor.executemany(
                "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)", rows
            )

    def _insist(self, work: Callable[[Any], _T], what: str) -> _T:
        """Do `work` until it is done or `_SETTLE_S` are over, on a new connection after each loss."""
        deadline = Deadline(_SETTLE_S)
        while True:
            try:
                with self._open().cursor() as cursor:
                    return work(cursor)
            except (pymysql.MySQLError, OSError) as error:
                self._lost(error)
                if deadline.passed:
                    message = f"subtask {self._subtask} could not {what} within {_SETTLE_S:.0f} s: {error}"
                    raise SinkLost(message) from error
                pause(_BETWEEN_TRIES_S)

    def _open(self) -> Connection[Any]:
        if self._connection is None:
            self._connection = connect(self._endpoint)
        return self._connection

    def _lost(self, error: Exception) -> None:
        code = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else type(error).__name__
        self.close()
        if isinstance(error, pymysql.MySQLError) and code not in _LOST:
            raise error
        self.on_loss(code)

    def close(self) -> None:
        """Give the connection up; what was not committed is rolled back by the server."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            # Not the polite close(): its QUIT could wait on a dead link.
            connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001


class SplitSink(EpochSink):
    """A planted defect: outputs are committed one by one as they come, only the snapshot at the checkpoint."""

    def add(self, row: Visible) -> None:
        """Make the output visible at once."""
        self._rows.append(row)
        self._insist(self._write_at_once, "write an output")
        self._rows.clear()

    def _write_at_once(self, cursor: Any) -> None:
        self._write_rows(cursor, 0)
        cursor.connection.commit()
