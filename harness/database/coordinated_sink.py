"""The sinks whose checkpoints a coordinator completes: the one that upserts by key, and the two-phase sink.

`CoordinatedSink` answers to the sink's side of Flink's checkpointing (`TwoPhaseCommitSinkFunction`,
`AsyncSinkWriter`): a part is acknowledged only when everything in it is durable, and only by the attempt with
the newest token; a restore uses the newest completed checkpoint that can be read. `IdempotentSink` answers to
Flink's JDBC sink in upsert mode: writing a row again changes nothing.

`TwoPhaseSink` answers to Flink's `JdbcXaSinkFunction`. Invariant: a branch is committed if and only if a completed
checkpoint contains it, and once: by the attempt that prepared it or by one that restores the checkpoint, whichever
learns of the completion first. The epoch row is inserted inside the branch, so it shows whether the branch was
committed (XA RECOVER alone does not).

A session ends as soon as it has prepared its branch: MariaDB lets no other session commit it before that, and MySQL
does not mind. At that moment no other session of the writer exists (`Transactions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.database.driver import Cursor
from harness.database.epoch import (
    INSERT_DEAD_LETTER,
    INSERT_OUTPUT,
    CheckpointPart,
    RestoreFromStore,
    SinkLost,
    Takeover,
)
from harness.database.sink import SubtaskWriter
from harness.database.transactions import NO_SUCH_BRANCH, code_of

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


_PART_MAX = 64
"""Longest part of an xid in bytes."""
_NO_FILE = ""


class BranchLost(SinkLost):
    """A branch of a completed checkpoint is neither prepared nor committed."""


class TwoPhaseSink(CoordinatedSink):
    """The sink of one attempt of a subtask. Call `take_over` first, then `settle_leftovers`."""

    def prepare(self, epoch: int) -> None:
        """Prepare the open epoch as a durable, invisible branch. Raises `Fenced`, `SinkLost`."""
        self.retry_until_settled(lambda cursor: self._prepare(cursor, epoch), f"prepare epoch {epoch}")
        self.transactions.end_session()
        self.forget_rows()

    def _prepare(self, cursor: Cursor, epoch: int) -> None:
        if any((one.epoch, one.token) == (epoch, self.token) for one in self._branches(cursor)):
            return  # an earlier XA PREPARE took effect, and its answer was lost
        self.check_fence(cursor)
        cursor.connection.rollback()  # XA START needs a session without an open transaction
        xid = self._xid(epoch, self.token)
        try:
            cursor.execute(f"XA START {xid}")
            self.write_rows(cursor, epoch)
            self.write_epoch(cursor, epoch, 0, "[]")
            cursor.execute(f"XA END {xid}")
            cursor.execute(f"XA PREPARE {xid}")
        except BaseException:
            self.transactions.close()  # closing the session makes the server roll back an unprepared branch
            raise

    def show(self, part: CheckpointPart) -> None:
        """Commit the branch. Raises `Fenced`, `BranchLost`, `SinkLost`."""
        self.retry_until_settled(lambda cursor: self._commit(cursor, part), f"commit epoch {part.epoch}")

    def _commit(self, cursor: Cursor, part: CheckpointPart) -> None:
        self.check_fence(cursor)
        is_committed = self.has_epoch(cursor, part.epoch)
        cursor.connection.rollback()
        if is_committed:  # an earlier XA COMMIT took effect: its answer was lost, or its attempt died
            return
        self.reach("commit.pre")
        with _outside_transactions(cursor):
            try:
                cursor.execute(f"XA COMMIT {self._xid(part.epoch, part.token)}")
            except Exception as error:
                if code_of(error) != NO_SUCH_BRANCH:
                    raise
                message = (
                    f"epoch {part.epoch} of subtask {self.subtask}, prepared by attempt {part.token}, is neither"
                    " prepared nor committed: another session rolled it back"
                )
                raise BranchLost(message) from error

    def prepared(self) -> list[CheckpointPart]:
        """The prepared branches of this subtask, of every attempt."""
        return self.retry_until_settled(self._branches, "read which branches are prepared")

    def roll_back(self, part: CheckpointPart) -> None:
        """Roll the branch back; no effect if it is gone. Raises `Fenced`, `SinkLost`."""

        def take_back(cursor: Cursor) -> None:
            self.check_fence(cursor)
            cursor.connection.rollback()
            _roll_back(cursor, self._xid(part.epoch, part.token))

        self.retry_until_settled(take_back, f"roll back epoch {part.epoch}")

    def floor(self, cursor: Cursor) -> int:
        """The newest committed epoch."""
        cursor.execute("SELECT COALESCE(MAX(epoch), 0) FROM epoch WHERE subtask = %s", (self.subtask,))
        newest = int(cursor.fetchone()[0])
        cursor.connection.rollback()
        return newest

    def settle_leftovers(self, restored: int) -> list[CheckpointPart]:
        """Roll back the branches that earlier attempts prepared and checkpoint `restored` does not contain.

        Returns those that it contains and that are still prepared, in order, for `show`.
        """
        return self.retry_until_settled(
            lambda cursor: self._settle(cursor, restored), "settle what earlier attempts left"
        )

    def _settle(self, cursor: Cursor, restored: int) -> list[CheckpointPart]:
        cursor.execute(
            "SELECT epoch, token FROM ack WHERE subtask = %s AND epoch <= %s", (self.subtask, restored)
        )
        held = dict(cursor.fetchall())
        cursor.connection.rollback()
        to_show = []
        for branch in self._branches(cursor):
            if held.get(branch.epoch) == branch.token:
                to_show.append(branch)
            elif branch.token < self.token:  # a superseded attempt must not touch a newer attempt's branches
                _roll_back(cursor, self._xid(branch.epoch, branch.token))
        return sorted(to_show, key=lambda part: part.epoch)

    def _branches(self, cursor: Cursor) -> list[CheckpointPart]:
        """The prepared branches of this subtask, of every attempt."""
        return [
            CheckpointPart(epoch=int(epoch), token=int(token), file=_NO_FILE)
            for subtask, token, epoch in _prepared(cursor, self.transactions.database)
            if int(subtask) == self.subtask
        ]

    def _xid(self, epoch: int, token: int) -> str:
        return _xid(self.transactions.database, self.subtask, token, epoch)


def _xid(database: str, subtask: int, token: int, epoch: int) -> str:
    globally, locally = f"{database}:{subtask}", f"{token}:{epoch}"
    assert len(globally) <= _PART_MAX, f"XA takes no more than {_PART_MAX} bytes: {globally}"
    return f"'{globally}','{locally}'"


def _prepared(cursor: Cursor, database: str) -> Iterator[tuple[str, str, str]]:
    """(subtask, token, epoch) of each prepared branch of the run in `database`."""
    cursor.execute("XA RECOVER")
    for _, globally, _, data in cursor.fetchall():
        text = data.decode("latin-1") if isinstance(data, bytes) else data
        run, _, subtask = text[:globally].rpartition(":")
        if run == database:
            token, _, epoch = text[globally:].partition(":")
            yield subtask, token, epoch


@contextmanager
def _outside_transactions(cursor: Cursor) -> Iterator[None]:
    """Turn autocommit on: MariaDB ends another session's branch only if no transaction can be open."""
    cursor.connection.autocommit(True)
    try:
        yield
    finally:
        if cursor.connection.open:
            cursor.connection.autocommit(False)


def _roll_back(cursor: Cursor, xid: str) -> None:
    with _outside_transactions(cursor):
        try:
            cursor.execute(f"XA ROLLBACK {xid}")
        except Exception as error:
            if code_of(error) != NO_SUCH_BRANCH:  # it is gone already
                raise


def branches_of(cursor: Cursor, database: str) -> list[str]:
    """The xids of the prepared branches of the run in `database`; each holds its row locks until it ends."""
    return [
        _xid(database, int(subtask), int(token), int(epoch))
        for subtask, token, epoch in _prepared(cursor, database)
    ]


def roll_back_branches(cursor: Cursor, database: str) -> int:
    """Roll back all prepared branches of a run that has ended; returns how many there were."""
    orphans = branches_of(cursor, database)
    for xid in orphans:
        _roll_back(cursor, xid)
    return len(orphans)
