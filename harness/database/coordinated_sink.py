"""The sinks whose checkpoints a coordinator completes (`CoordinatedSink`), and the sink that upserts by key.

`CoordinatedSink` answers to the sink's side of Flink's checkpointing (`TwoPhaseCommitSinkFunction`,
`AsyncSinkWriter`): a part is acknowledged only when everything in it is durable, and only by the attempt with
the newest token; a restore uses the newest completed checkpoint that can be read. `IdempotentSink` answers to
Flink's JDBC sink in upsert mode: writing a row again changes nothing.
"""

from __future__ import annotations

from harness.database.driver import Cursor
from harness.database.epoch import (
    INSERT_DEAD_LETTER,
    INSERT_OUTPUT,
    CheckpointPart,
    RestoreFromStore,
    Takeover,
)
from harness.database.subtask_writer import SubtaskWriter

PARTS_KEPT = 3
"""How many completed checkpoints may still be restored; older ones are removed."""


class CoordinatedSink(SubtaskWriter):
    """The sink of one attempt: acknowledges its part of a checkpoint and learns when the checkpoint is complete.

    Call `take_over` first.
    """

    def take_over(self, *, now_ms: int, restore: RestoreFromStore) -> Takeover:
        """Fence all earlier attempts, then restore; no earlier attempt can commit in between."""
        token, origin_ms = self.retry_until_settled(
            lambda cursor: self._raise_token(cursor, now_ms), "take over the subtask"
        )
        self.token = token
        parts = self.retry_until_settled(self._parts, "read which checkpoints are complete")
        committed = self.retry_until_settled(self.floor, "read what is committed")
        restored = restore(parts, committed=committed)
        return Takeover(
            number=token, origin_ms=origin_ms, saved=restored.saved, passed_over=restored.passed_over
        )

    def _raise_token(self, cursor: Cursor, now_ms: int) -> tuple[int, int]:
        taken = self.fence_off(cursor, now_ms)
        cursor.connection.commit()
        return taken

    def _parts(self, cursor: Cursor) -> list[CheckpointPart]:
        """This subtask's parts of completed checkpoints that may be restored, newest first."""
        cursor.execute(
            "SELECT ack.epoch, ack.token, ack.file FROM ack JOIN completed ON completed.epoch = ack.epoch"
            " WHERE ack.subtask = %s ORDER BY ack.epoch DESC LIMIT %s",
            (self.subtask, PARTS_KEPT),
        )
        parts = [
            CheckpointPart(epoch=epoch, token=token, file=file) for epoch, token, file in cursor.fetchall()
        ]
        cursor.connection.rollback()
        return parts

    def floor(self, cursor: Cursor) -> int:
        """The newest epoch whose outputs a replay would write a second time; 0: none."""
        del cursor
        return 0

    def settle_leftovers(self, restored: int) -> list[CheckpointPart]:
        """Roll back what earlier attempts prepared outside checkpoint `restored`; returns what it holds, for `show`."""
        del restored
        return []

    def prepare(self, epoch: int) -> None:
        """Make the open epoch's outputs durable and begin a new epoch."""
        raise NotImplementedError

    def acknowledge(self, epoch: int, *, file: str) -> None:
        """Acknowledge checkpoint `epoch` with the stored file of its part. Raises `Fenced`."""
        self.retry_until_settled(
            lambda cursor: self._acknowledge(cursor, epoch, file), f"acknowledge checkpoint {epoch}"
        )

    def _acknowledge(self, cursor: Cursor, epoch: int, file: str) -> None:
        self.check_fence(cursor)
        cursor.execute(
            "REPLACE INTO ack (subtask, epoch, token, file) VALUES (%s, %s, %s, %s)",
            (self.subtask, epoch, self.token, file),
        )
        cursor.connection.commit()

    def newest_completed(self) -> int | None:
        """The newest completed checkpoint (0: none yet); None if the database does not answer now."""
        return self.transactions.once(_newest_completed)

    def show(self, part: CheckpointPart) -> None:
        """Checkpoint `part.epoch` is complete: make its outputs visible, unless they are already."""

    def end(self) -> None:
        """The subtask has finished: later checkpoints do not wait for it."""
        self.retry_until_settled(self._end, "say that the subtask has ended")

    def _end(self, cursor: Cursor) -> None:
        self.check_fence(cursor)
        cursor.execute("UPDATE fence SET ended = 1 WHERE subtask = %s", (self.subtask,))
        cursor.connection.commit()


def _newest_completed(cursor: Cursor) -> int:
    cursor.execute("SELECT COALESCE(MAX(epoch), 0) FROM completed")
    newest = int(cursor.fetchone()[0])
    cursor.connection.rollback()
    return newest


_UPSERT = f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE token = output.token"
"""Not INSERT IGNORE, which would also hide other errors."""
_UPSERT_LETTER = f"{INSERT_DEAD_LETTER} ON DUPLICATE KEY UPDATE token = dead_letter.token"


class IdempotentSink(CoordinatedSink):
    """Writes outputs and dead letters by key; its tables need that key (`prepare_database(keyed=True)`).

    `output` never has two rows with the same (subtask, id, j), `dead_letter` never two with the same (subtask, id),
    however often an epoch is written. Visible rows may be ahead of the last completed checkpoint, never behind it. A
    replay must produce the same values: of two different ones the first stays.
    """

    def prepare(self, epoch: int) -> None:
        """Write the open epoch's rows; they are visible at once. Raises `Fenced`, `SinkLost`."""
        self.retry_until_settled(lambda cursor: self._write(cursor, epoch), f"write epoch {epoch}")
        self.forget_rows()

    def _write(self, cursor: Cursor, epoch: int) -> None:
        self.check_fence(cursor)
        self.write_rows(cursor, epoch, insert=_UPSERT, insert_letter=_UPSERT_LETTER)
        self.reach("commit.pre")
        cursor.connection.commit()
        self.reach("commit.post")
