"""The exactly-once sink: outputs, epoch row and fencing check in one MySQL transaction.

Answers to Flink's `TwoPhaseCommitSinkFunction`, in a form that needs no second phase (why:
`docs/reference/references.md`, Measured). Invariant: the outputs of epoch c are in the table if and only if the epoch
row c is, and only the attempt with the newest token can write them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from harness.database.driver import Cursor
from harness.database.epoch import SavedEpoch, Takeover
from harness.database.subtask_writer import SubtaskWriter


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

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """Fence check, outputs, snapshot and epoch row in one transaction.

        If the outcome of a COMMIT is unknown, the retry reads the epoch row while it holds the fence's lock, which it
        gets only after the earlier transaction has ended. Raises `Fenced` if a newer attempt holds the token,
        `SinkLost` if the database does not answer in time.
        """
        self.retry_until_settled(
            lambda cursor: self.write(cursor, epoch, position, elements), f"commit epoch {epoch}"
        )
        self.forget_rows()

    def write(self, cursor: Cursor, epoch: int, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """The whole transaction, fence check to COMMIT."""
        self.check_fence(cursor)
        if self.has_epoch(cursor, epoch):  # an earlier COMMIT took effect, and its answer was lost
            cursor.connection.rollback()
            return
        self.write_rows(cursor, epoch)
        self.write_epoch(cursor, epoch, position, json.dumps(list(elements)))
        self.reach("commit.pre")
        cursor.connection.commit()
