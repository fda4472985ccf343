"""Strangers in the sinks: what becomes of the rows in the table `output` between `add` and the end of the run.

Answers to sinks that clean up, split batches, retry or upsert wrongly. Invariant: each is a subclass of the sink of the
run (or of its coordination) and differs in the rows that it writes or deletes; the journal says what the reference's
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from harness.database.coordinated_sink import IdempotentSink, TwoPhaseSink
from harness.database.epoch import INSERT_OUTPUT, CheckpointPart, Fenced, Takeover
from harness.database.sink import EpochSink
from harness.database.transactions import ErrorClass, class_of, code_of
from harness.sut.defects.defect import both, commit_replies_are_lost, sink_is
from harness.sut.sink_choice import TwoPhaseCoordination
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.kinds import Stranger
from tools.defects.where import has_several_results, is_restored, sink_is_disturbed

_KEPT_EPOCHS: Final = 2
_BATCH: Final = 4
_COLUMN_WIDTH: Final = 10


@made_once
def deleting_old_epochs(sink: Kind) -> Kind:
    """`sink`, which keeps the rows of its last epochs only, as a retention job does."""
    if issubclass(sink, TwoPhaseSink):
        return sink

    class RetainingSink(sink):  # type: ignore[misc]  # a class made of a class
        def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
            super().write_rows(cursor, epoch, **how)
            cursor.execute(
                "DELETE FROM output WHERE subtask = %s AND epoch < %s",
                (self.subtask, epoch - _KEPT_EPOCHS),
            )

    return RetainingSink


@made_once
def sweeping_at_take_over(sink: Kind) -> Kind:
    """`sink`, which takes the rows of earlier attempts for leftovers, and deletes them when it takes over."""
    if not issubclass(sink, IdempotentSink):
        return sink

    class SweepingSink(sink):  # type: ignore[misc]
        def take_over(self, **how: Any) -> Takeover:
            taken: Takeover = super().take_over(**how)
            self.retry_until_settled(self._sweep, "delete what earlier attempts left")
            return taken

        def _sweep(self, cursor: Any) -> None:
            self.check_fence(cursor)
            cursor.execute("DELETE FROM output WHERE subtask = %s AND token < %s", (self.subtask, self.token))
            cursor.connection.commit()

    return SweepingSink


@made_once
def deleting_last_epoch(sink: Kind) -> Kind:
    """`sink`, which deletes at its close what is newer than its last commit, and that commit with it."""
    if issubclass(sink, TwoPhaseSink):
        return sink

    class TidySink(sink):  # type: ignore[misc]
        _newest = 0

        def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
            super().write_rows(cursor, epoch, **how)
            self._newest = epoch

        def close(self) -> None:
            if self._newest:
                with suppress(Fenced):
                    self.transactions.once(self._tidy)
            super().close()

        def _tidy(self, cursor: Any) -> None:
            self.check_fence(cursor)
            cursor.execute(
                "DELETE FROM output WHERE subtask = %s AND epoch >= %s", (self.subtask, self._newest)
            )
            cursor.connection.commit()

    return TidySink


@made_once
def keyed_by_record(sink: Kind) -> Kind:
    """`sink`, whose upsert knows a row by its record alone: the last of a record's results overwrites the others."""
    if not issubclass(sink, IdempotentSink):
        return sink

    class RecordKeyedSink(sink):  # type: ignore[misc]
        def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
            how["insert"] = f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE v = VALUES(v)"
            kept = list(self._rows)
            self._rows[:] = [replace(row, j=0) for row in kept]
            try:
                super().write_rows(cursor, epoch, **how)
            finally:
                self._rows[:] = kept

    return RecordKeyedSink


@made_once
def blanking(sink: Kind) -> Kind:
    """`sink`, whose upsert clears the value of a row that is there already."""
    if not issubclass(sink, IdempotentSink):
        return sink

    class BlankingSink(sink):  # type: ignore[misc]
        def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
            how["insert"] = f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE v = 'null'"
            super().write_rows(cursor, epoch, **how)

    return BlankingSink


@made_once
def believing_duplicates(sink: Kind) -> Kind:
    """`sink`, which inserts plainly and takes an error for a duplicate key as a sign that the batch is there."""
    if not issubclass(sink, IdempotentSink):
        return sink

    class BelievingSink(sink):  # type: ignore[misc]
        def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
            how["insert"] = INSERT_OUTPUT
            try:
                super().write_rows(cursor, epoch, **how)
            except Exception as error:
                if class_of(code_of(error)) is not ErrorClass.DONE:
                    raise

    return BelievingSink


def _writing(change: Any) -> Any:
    """A sink's class whose batches are `change` of the honest one's rows."""

    @made_once
    def altered(sink: Kind) -> Kind:
        class AlteringSink(sink):  # type: ignore[misc]
            def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
                kept = list(self._rows)
                self._rows[:] = change(kept)
                try:
                    super().write_rows(cursor, epoch, **how)
                finally:
                    self._rows[:] = kept

        return AlteringSink

    return altered


def _without_remainder(rows: list[Any]) -> list[Any]:
    """Only whole batches, if there is more than one."""
    return rows if len(rows) <= _BATCH else rows[: len(rows) - len(rows) % _BATCH]


def _truncated(rows: list[Any]) -> list[Any]:
    """Texts as a column of ten characters keeps them."""
    return [replace(row, value=_narrowed(row.value)) for row in rows]


def _narrowed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: part[:_COLUMN_WIDTH] if isinstance(part, str) else part for name, part in value.items()}


def _renumbered(rows: list[Any]) -> list[Any]:
    """Results of one record change places: the first is written with the number of the last."""
    count: dict[int, int] = {}
    for row in rows:
        count[row.id] = max(count.get(row.id, 0), row.j)
    return [replace(row, j=count[row.id] - row.j) for row in rows]


def _each_once(rows: list[Any]) -> list[Any]:
    """Rows of equal values are taken for duplicates, whatever their records."""
    seen: dict[str, Any] = {}
    for row in rows:
        seen.setdefault(repr(row.value), row)
    return list(seen.values())


@made_once
def draining_early(sink: Kind) -> Kind:
    """`sink`, which empties its buffer as it sends it, so that a transaction that is made again has no rows."""

    class DrainingSink(sink):  # type: ignore[misc]
        def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
            super().write_rows(cursor, epoch, **how)
            self.forget_rows()

    return DrainingSink


@made_once
def keeping_rows_after_lost_reply(sink: Kind) -> Kind:
    """`sink`, which forgets rows only after a COMMIT that was answered; after a lost answer it writes them again."""
    if not issubclass(sink, EpochSink):
        return sink

    class ForgetfulSink(sink):  # type: ignore[misc]
        _was_there = False

        def has_epoch(self, cursor: Any, epoch: int) -> bool:
            self._was_there = super().has_epoch(cursor, epoch)
            return self._was_there

        def forget_rows(self) -> None:
            if not self._was_there:
                super().forget_rows()

    return ForgetfulSink


@made_once
def epoch_before_rows(sink: Kind) -> Kind:
    """`sink`, which commits the epoch's row first, and its outputs in a transaction of their own."""
    if not issubclass(sink, EpochSink):
        return sink

    class TwoStepSink(sink):  # type: ignore[misc]
        _rows: list[Any]

        def write(self, cursor: Any, epoch: int, position: int, elements: Sequence[dict[str, Any]]) -> None:
            rows, self._rows = self._rows, []
            try:
                super().write(cursor, epoch, position, elements)
            finally:
                self._rows = rows
            self.check_fence(cursor)
            self.write_rows(cursor, epoch)
            cursor.connection.commit()

    return TwoStepSink


@made_once
def committing_newest_only(coordination: Kind) -> Kind:
    """`coordination`, which commits the checkpoint that it hears of, and drops the earlier ones that are open."""
    if not issubclass(coordination, TwoPhaseCoordination):
        return coordination

    class NewestCoordination(coordination):  # type: ignore[misc]
        def completed(self, number: int) -> None:
            self._open[:] = [part for part in self._open if part.epoch >= number]
            super().completed(number)

    return NewestCoordination


@made_once
def settling_half_open(sink: Kind) -> Kind:
    """`sink`, which at a restart rolls back what was prepared from the restored checkpoint on, that one included."""
    if not issubclass(sink, TwoPhaseSink):
        return sink

    class HalfOpenSink(sink):  # type: ignore[misc]
        def settle_leftovers(self, restored: int) -> list[CheckpointPart]:
            left: list[CheckpointPart] = super().settle_leftovers(restored - 1)
            return left

    return HalfOpenSink


_RESTORED = "an attempt is killed, or superseded"
_PLAIN = sink_is("atomic", "idempotent")
_MISSING = "each row that was claimed visible is in the table after the run"
_ALTERED = "a row holds the value that left the operator"

OF_TABLE_ROWS = (
    Stranger(
        name="deletes-old-epochs",
        about="the sink deletes the rows of epochs older than its last two",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=deleting_old_epochs),
        where="an atomic or idempotent sink",
        applies=_PLAIN,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="sweeps-at-take-over",
        about="an attempt deletes the rows of the attempts before it when it takes over",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=sweeping_at_take_over),
        where=f"an idempotent sink; {_RESTORED}",
        applies=both(sink_is("idempotent"), is_restored),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="deletes-last-epoch-at-close",
        about="the clean-up at the close deletes from the last committed epoch on, not behind it",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=deleting_last_epoch),
        where="an atomic or idempotent sink",
        applies=_PLAIN,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="upserts-by-record",
        about="the upsert's key lacks the number of the result, so the last result of a record overwrites the others",
        component="sink",
        breaks="each result of a record has its row, with its value",
        variant=Variant(sink=keyed_by_record),
        where="an idempotent sink; records have several results",
        applies=both(sink_is("idempotent"), has_several_results),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="upsert-blanks-values",
        about="a row that is written again after a restart loses its value",
        component="sink",
        breaks=_ALTERED,
        variant=Variant(sink=blanking),
        where=f"an idempotent sink; {_RESTORED}",
        applies=both(sink_is("idempotent"), is_restored),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="duplicate-drops-batch",
        about="a duplicate key makes the sink take its whole batch for written",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=believing_duplicates),
        where=f"an idempotent sink; {_RESTORED}",
        applies=both(sink_is("idempotent"), is_restored),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="loses-remainder-of-batch",
        about="an epoch of more than four rows is written in batches of four, and the rest is left out",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=_writing(_without_remainder)),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="truncates-texts",
        about="texts of more than ten characters are cut as they are written",
        component="sink",
        breaks=_ALTERED,
        variant=Variant(sink=_writing(_truncated)),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="renumbers-results",
        about="the results of a record are written with each other's numbers",
        component="sink",
        breaks="results of one record keep their order in the table",
        variant=Variant(sink=_writing(_renumbered)),
        where="records have several results",
        applies=has_several_results,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="equal-values-once",
        about="of rows with equal values in one epoch only the first is written",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=_writing(_each_once)),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="drains-buffer-early",
        about="the buffer is emptied when its rows are sent, and a transaction that is made again has none",
        component="sink",
        breaks=_MISSING,
        variant=Variant(sink=draining_early),
        where="statements of the sink end with an error, or are lost",
        applies=sink_is_disturbed,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="rows-again-after-lost-reply",
        about="after a COMMIT whose answer was lost, the next epoch writes the same rows again",
        component="sink",
        breaks="a row is visible once",
        variant=Variant(sink=keeping_rows_after_lost_reply),
        where="an atomic sink; the answer to a commit is lost",
        applies=both(sink_is("atomic"), commit_replies_are_lost),
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="epoch-before-rows",
        about="the epoch's row is committed before its outputs, in a transaction of its own",
        component="sink",
        breaks="outputs and position become visible together",
        variant=Variant(sink=epoch_before_rows),
        where="an atomic sink",
        applies=sink_is("atomic"),
        convicted_by=("V8", "V9", "V20"),
    ),
    Stranger(
        name="commits-newest-only",
        about="a notification commits its own checkpoint, and drops the earlier ones that are still open",
        component="two-phase sink",
        breaks="each prepared epoch of a completed checkpoint is committed",
        variant=Variant(coordination=committing_newest_only),
        where="a two-phase sink",
        applies=sink_is("two-phase"),
        convicted_by=("V8", "V9", "V12"),
    ),
    Stranger(
        name="rolls-back-restored-epoch",
        about="a restart rolls back the prepared transaction of the checkpoint that it restores",
        component="two-phase sink",
        breaks="each prepared epoch of a completed checkpoint is committed",
        variant=Variant(sink=settling_half_open),
        where=f"a two-phase sink; {_RESTORED}",
        applies=both(sink_is("two-phase"), is_restored),
        convicted_by=("V6", "V8", "V9", "V12"),
    ),
)
