"""The sinks whose checkpoints a coordinator completes, and the idempotent sink, which writes rows by key.

`CoordinatedSink` answers to Flink's `TwoPhaseCommitSinkFunction` and `AsyncSinkWriter` as the coordinator
sees them: a part is acknowledged only when all that it holds is durable, and only by the attempt with the
newest token; what is restored is the newest completed checkpoint that can be read. `IdempotentSink` answers
to Flink's JDBC sink in upsert mode: a row that is written again changes nothing.
"""

from __future__ import annotations

from typing import Any

from harness.database.epoch import Attempt, Part, Restore
from harness.database.subtask_writer import SubtaskWriter

__all__ = ["PARTS_KEPT", "CoordinatedSink", "IdempotentSink"]

PARTS_KEPT = 3
"""Completed checkpoints that may still be restored; older ones are retired."""


class CoordinatedSink(SubtaskWriter):
    """One subtask's sink: hands in its part of a checkpoint, and hears when all parts are there.

    Used by one attempt; `take_over` comes first.
    """

    def take_over(self, *, now_ms: int, restore: Restore) -> Attempt:
        """Fence all earlier attempts, then restore: in that order nothing can come between."""
        token, origin_ms = self.insist(
            lambda cursor: self._raise_token(cursor, now_ms), "take over the subtask"
        )
        self.token = token
        parts = self.insist(self._parts, "read which checkpoints are complete")
        committed = self.insist(self.floor, "read what is committed")
        restored = restore(parts, committed=committed)
        return Attempt(
            number=token, origin_ms=origin_ms, saved=restored.saved, passed_over=restored.passed_over
        )

    def _raise_token(self, cursor: Any, now_ms: int) -> tuple[int, int]:
        taken = self.fence_off(cursor, now_ms)
        cursor.connection.commit()
        return taken

    def _parts(self, cursor: Any) -> list[Part]:
        """Those of completed checkpoints that may still be restored, the newest first."""
        cursor.execute(
            "SELECT ack.epoch, ack.token, ack.file FROM ack JOIN completed ON completed.epoch = ack.epoch"
            " WHERE ack.subtask = %s ORDER BY ack.epoch DESC LIMIT %s",
            (self.subtask, PARTS_KEPT),
        )
        parts = [Part(epoch=epoch, token=token, file=file) for epoch, token, file in cursor.fetchall()]
        cursor.connection.rollback()
        return parts

    def floor(self, cursor: Any) -> int:
        """The newest epoch whose outputs a replay would show a second time; 0: none would."""
        del cursor
        return 0

    def settle_leftovers(self, restored: int) -> list[Part]:
        """Roll back what earlier attempts left and checkpoint `restored` does not hold; what it holds, to `show`."""
        del restored
        return []

    def prepare(self, epoch: int) -> None:
        """Make the open epoch durable; a new one begins."""
        raise NotImplementedError

    def acknowledge(self, epoch: int, *, file: str) -> None:
        """Hand in the part of checkpoint `epoch`. Raises `Fenced`."""
        self.insist(lambda cursor: self._acknowledge(cursor, epoch, file), f"acknowledge checkpoint {epoch}")

    def _acknowledge(self, cursor: Any, epoch: int, file: str) -> None:
        self.check_fence(cursor)
        cursor.execute(
            "REPLACE INTO ack (subtask, epoch, token, file) VALUES (%s, %s, %s, %s)",
            (self.subtask, epoch, self.token, file),
        )
        cursor.connection.commit()

    def newest_completed(self) -> int | None:
        """The newest completed checkpoint, 0 before the first; None if the database does not answer just now."""
        return self.transactions.once(_newest_completed)

    def show(self, part: Part) -> None:
        """Checkpoint `part.epoch` is complete: make visible what the part holds, if it is not yet."""

    def end(self) -> None:
        """The subtask has nothing left to do: no later checkpoint waits for it."""
        self.insist(self._end, "say that the subtask has ended")

    def _end(self, cursor: Any) -> None:
        self.check_fence(cursor)
        cursor.execute("UPDATE fence SET ended = 1 WHERE subtask = %s", (self.subtask,))
        cursor.connection.commit()


def _newest_completed(cursor: Any) -> int:
    cursor.execute("SELECT COALESCE(MAX(epoch), 0) FROM completed")
    newest = int(cursor.fetchone()[0])
    cursor.connection.rollback()
    return newest


_INSERT = (
    "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)"
    " ON DUPLICATE KEY UPDATE token = output.token"
)
"""Not INSERT IGNORE: that would let other errors pass as well."""


class IdempotentSink(CoordinatedSink):
    """Writes outputs by key; its table must be prepared with a key (`prepare_database(keyed=True)`).

    The table never holds two rows of one (subtask, id, j), however often an epoch is written. What is visible
    may run ahead of the last completed checkpoint, never behind it. It needs values that a replay gives
    again: of two different ones the first stays.
    """

    def prepare(self, epoch: int) -> None:
        """Write the open epoch, visible at once. Raises `Fenced`, `SinkLost`."""
        self.insist(lambda cursor: self._write(cursor, epoch), f"write epoch {epoch}")
        self.forget_rows()

    def _write(self, cursor: Any, epoch: int) -> None:
        self.check_fence(cursor)
        self.write_rows(cursor, epoch, insert=_INSERT)
        self.reach("commit.pre")
        cursor.connection.commit()
        self.reach("commit.post")
