"""The idempotent sink: an output has a key, and writing it again changes nothing.

Answers to Flink's JDBC sink in upsert mode. Invariant: the table never holds two rows of one (subtask, id, j),
however often an epoch is written; what is visible may run ahead of the last completed checkpoint, never behind it.
It needs values that a replay gives again: of two different ones the first stays.
"""

from __future__ import annotations

from typing import Any

from harness.database.coordinated_sink import CoordinatedSink

__all__ = ["IdempotentSink"]

_INSERT = (
    "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)"
    " ON DUPLICATE KEY UPDATE token = output.token"
)
"""Not INSERT IGNORE: that would let other errors pass as well."""


class IdempotentSink(CoordinatedSink):
    """Its table must be prepared with a key (`prepare_database(keyed=True)`)."""

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
