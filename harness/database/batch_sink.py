"""The sink of a batch: outputs, snapshots and epoch rows of all subtasks in one transaction of their driver.

Answers to `foreachBatch` with an idempotent sink. Invariants: the outputs of epoch c are in the table if and only if
its epoch rows are; a driver commits only while its generation is the newest, which it checks in the transaction;
numbers of attempts are never given twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from harness.database.driver import Cursor, Driver
from harness.database.epoch import INSERT_DEAD_LETTER, INSERT_OUTPUT, DeadRow, Fenced, SavedEpoch
from harness.database.transactions import Transactions
from harness.system.clock import REAL_CLOCK, Clock

_GENERATION = "SELECT generation FROM driver"
NUMBERS = 4
"""The numbers of attempts that a subtask gets for a batch, one for each try of its task."""


class TextRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One output row: the `j`-th output of record `id`, in the form in which it is stored."""

    id: int
    j: int
    text: str


class PartOfEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt has made of its share of a batch."""

    subtask: int
    attempt: int
    rows: list[TextRow]
    dead: list[DeadRow]
    position: int
    elements: list[dict[str, Any]]


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """Where a subtask resumes: its newest epoch, and the lowest number that its next attempt may have."""

    subtask: int
    number: int
    origin_ms: int
    saved: SavedEpoch | None
    token: int
    """The attempt that made its newest epoch; 0: there is none."""


class BatchSink:
    """The sink of one driver of a run. Call `take_over` first. Mutable: its generation."""

    def __init__(self, driver: Driver, *, seed: int, clock: Clock = REAL_CLOCK) -> None:
        self.generation = 0
        """The driver's; 0 before it has taken over."""
        self.reach: Callable[[str], None] = lambda phase: None
        """Called at the phases `commit.pre` and `commit.post`; it may raise, or never return."""
        self.transactions = Transactions(
            driver, name=f"{driver.database}/driver", seed=seed, check=self._check_newest, clock=clock
        )
        self._clock = clock

    def take_over(self) -> None:
        """Fences all earlier drivers of the run, and reserves numbers for its attempts. Raises `SinkLost`."""
        now_ms = self._clock.now_us() // 1000
        self.generation = self.transactions.retry_until_settled(
            lambda cursor: self._take_over(cursor, now_ms), "take over the run"
        )

    def _take_over(self, cursor: Cursor, now_ms: int) -> int:
        cursor.execute("UPDATE driver SET generation = generation + 1")
        cursor.execute(_GENERATION)
        generation: int = cursor.fetchone()[0]
        cursor.execute(
            "UPDATE fence SET token = token + %s, origin_ms = COALESCE(origin_ms, %s)", (NUMBERS, now_ms)
        )
        cursor.connection.commit()
        return generation

    def has_epoch(self, epoch: int) -> bool:
        """Whether epoch `epoch` is visible. Raises `Fenced`, `SinkLost`."""

        def look(cursor: Cursor) -> bool:
            self._check_newest(cursor)
            cursor.execute("SELECT COUNT(*) FROM epoch WHERE epoch = %s", (epoch,))
            found = bool(cursor.fetchone()[0])
            cursor.connection.rollback()
            return found

        return self.transactions.retry_until_settled(look, f"look for epoch {epoch}")

    def begin(self, subtasks: Iterable[int]) -> Sequence[Begun]:
        """The newest epoch of each of `subtasks`. Raises `Fenced`, `SinkLost`."""
        wanted = list(subtasks)

        def read(cursor: Cursor) -> list[Begun]:
            self._check_newest(cursor)
            begun = [self._begin(cursor, subtask) for subtask in wanted]
            cursor.connection.rollback()
            return begun

        return self.transactions.retry_until_settled(read, "read the newest epoch")

    def _begin(self, cursor: Cursor, subtask: int) -> Begun:
        cursor.execute("SELECT token, origin_ms FROM fence WHERE subtask = %s", (subtask,))
        token, origin_ms = cursor.fetchone()
        cursor.execute(
            "SELECT epoch, pos, elements, token FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1",
            (subtask,),
        )
        row = cursor.fetchone()
        saved = row and SavedEpoch(epoch=row[0], position=row[1], elements=json.loads(row[2]))
        return Begun(
            subtask=subtask,
            number=token - NUMBERS + 1,
            origin_ms=origin_ms,
            saved=saved or None,
            token=row[3] if row else 0,
        )

    def commit(self, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        """Generation, outputs, snapshots and epoch rows in one transaction. Raises `Fenced`, `SinkLost`.

        If the outcome of a COMMIT is unknown, the retry looks for the epoch while it holds the lock of the generation.
        """
        self.transactions.retry_until_settled(
            lambda cursor: self._write(cursor, epoch, parts), f"commit epoch {epoch}"
        )

    def _write(self, cursor: Cursor, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        self._check_newest(cursor, ask=f"{_GENERATION} FOR UPDATE")
        cursor.execute("SELECT COUNT(*) FROM epoch WHERE epoch = %s", (epoch,))
        if cursor.fetchone()[0]:  # an earlier COMMIT took effect, and its answer was lost
            cursor.connection.rollback()
            return
        for part in parts:
            write_part(cursor, epoch, part)
            cursor.execute("UPDATE fence SET token = token + %s WHERE subtask = %s", (NUMBERS, part.subtask))
        self.reach("commit.pre")
        cursor.connection.commit()

    def origins(self) -> list[int]:
        """When the first attempt of each subtask began, by subtask. Raises `SinkLost`."""

        def read(cursor: Cursor) -> list[int]:
            cursor.execute("SELECT origin_ms FROM fence ORDER BY subtask")
            found = [row[0] for row in cursor.fetchall()]
            cursor.connection.rollback()
            return found

        return self.transactions.retry_until_settled(read, "read when the run began")

    def _check_newest(self, cursor: Cursor, *, ask: str = _GENERATION) -> None:
        if not self.generation:
            return
        cursor.execute(ask)
        holder = cursor.fetchone()[0]
        if holder != self.generation:
            cursor.connection.rollback()
            raise Fenced(f"driver {self.generation} of the run is fenced: driver {holder} took over")

    def close(self) -> None:
        """Drops the connection; the server rolls back what was not committed."""
        self.transactions.close()


class ReplacingSink(BatchSink):
    """The sink behind Spark's own state: the rows of a batch replace those that an earlier try of it has written."""

    def _write(self, cursor: Cursor, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        self._check_newest(cursor, ask=f"{_GENERATION} FOR UPDATE")
        if self.was_seen(cursor, epoch):
            for table in ("output", "dead_letter"):
                cursor.execute(_FORGET[table], (epoch,))
        self.write_batch(cursor, epoch, parts)
        self.reach("commit.pre")
        cursor.connection.commit()

    def was_seen(self, cursor: Cursor, epoch: int) -> bool:
        """Whether an earlier try of this batch has been committed."""
        cursor.execute("SELECT COUNT(*) FROM completed WHERE epoch = %s", (epoch,))
        return bool(cursor.fetchone()[0])

    def write_batch(self, cursor: Cursor, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        """Writes the rows of all subtasks, and that the batch was seen, in the caller's transaction."""
        for part in parts:
            write_rows(cursor, epoch, part)
        cursor.execute("INSERT IGNORE INTO completed (epoch) VALUES (%s)", (epoch,))


_FORGET = {
    "output": "DELETE FROM output WHERE epoch = %s",
    "dead_letter": "DELETE FROM dead_letter WHERE epoch = %s",
}


def write_part(cursor: Cursor, epoch: int, part: PartOfEpoch) -> None:
    """Writes the rows and the epoch row of one subtask in the caller's transaction."""
    write_rows(cursor, epoch, part)
    cursor.execute(
        "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)",
        (part.subtask, epoch, part.attempt, part.position, json.dumps(part.elements)),
    )


def write_rows(cursor: Cursor, epoch: int, part: PartOfEpoch) -> None:
    """Writes the outputs and the dead letters of one subtask in the caller's transaction."""
    rows = [(part.subtask, row.id, row.j, row.text, epoch, part.attempt) for row in part.rows]
    if rows:
        cursor.executemany(INSERT_OUTPUT, rows)
    dead = [(part.subtask, row.id, row.error, epoch, part.attempt) for row in part.dead]
    if dead:
        cursor.executemany(INSERT_DEAD_LETTER, dead)
