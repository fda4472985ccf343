"""The atomic sink for a database that may fail over: it notices that an epoch it committed is gone.

Answers to a Kafka sink that compares the broker's end offset with the one that it remembers. An asynchronous replica
that is promoted lacks the last commits of its primary. Invariant: no epoch is written unless the one before it, which
this attempt restored or committed, is in the database that answers now; otherwise the attempt fails, and its
successor goes on from the newest epoch that is there. Attempts get rising numbers although the row that counts them
may be lost too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.database.driver import Cursor, Driver
from harness.database.epoch import SinkLost, Takeover
from harness.database.sink import EpochSink


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

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        super().commit(epoch, position=position, elements=elements)
        self._last = epoch
