"""The idempotent sink: an output has a key, and writing it again changes nothing.

The counterpart of `harness.database.idempotent_sink`. Invariant: the table never holds two rows of one
(subtask, id, j); what is visible may run ahead of the last completed checkpoint, never behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.database.epoch import Fenced, Visible
from harness.sim.sinks.open_sink import RollbackSink
from harness.sim.wire import transaction

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt

__all__ = ["IdempotentSink"]


class IdempotentSink(RollbackSink):
    """One attempt's sink of one subtask; a replay rolls back what it shows, for it writes the same again. Mutable."""

    shows_when_complete: ClassVar[bool] = False

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._rows: list[Visible] = []

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch."""
        self._rows.append(row)

    def prepare(self, epoch: int) -> tuple[()]:
        """Write the open epoch, visible at once. Raises `Fenced`, `SinkLost`."""
        del epoch
        rows, reach = tuple(self._rows), self.attempt.crashes.reach
        reach("commit.pre")
        self._statements.run(lambda: self._write(rows), says=transaction(len(rows)))
        self._rows.clear()
        reach("commit.post")
        return ()

    def _write(self, rows: tuple[Visible, ...]) -> None:
        database, subtask = self.attempt.run.database, self.attempt.subtask
        holder = database.fence(subtask).token
        if holder != self.token:
            raise Fenced(f"attempt {self.token} of subtask {subtask} is fenced: attempt {holder} took over")
        for row in rows:
            if database.takes_key(subtask, row.id, row.j):
                database.write(subtask, id=row.id, token=self.token, j=row.j, v=row.value)
