"""Defects of the harness's sinks: which attempt may write, when rows become visible, how often, and after which errors.

Answers to mistakes in sinks such as `TwoPhaseCommitSinkFunction`. Invariant: each defect is a subclass of the sink of
the run and differs in the one thing that its name says; a sink without that thing stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from harness.database.coordinated_sink import IdempotentSink, TwoPhaseSink
from harness.database.epoch import CheckpointPart, DeadRow, Fenced, Visible
from harness.database.sink import EpochSink, SubtaskWriter
from harness.sut.coordination import AttemptLog
from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, SIM_ONLY, Defect, both, can_be_superseded, sink_is
from harness.sut.defects.twelve import COMMITS_BLINDLY, ZOMBIE_ACCEPTED
from harness.sut.sink_choice import TwoPhaseCoordination
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.where import has_several_results, is_restored, sink_is_disturbed

_Held = tuple[list[Visible], list[DeadRow]]
"""The rows and the dead letters of an epoch."""


@made_once
def checking_before(sink: Kind) -> Kind:
    """`sink`, which acts on the fence that its last transaction read, without a lock."""
    assert issubclass(sink, SubtaskWriter)

    class HastySink(sink):  # type: ignore[misc]
        _refusal: Fenced | None = None
        """The error that the last read of the fence calls for."""

        def check_fence(self, cursor: Any) -> None:
            refusal, self._refusal = self._refusal, None
            if refusal is not None:
                cursor.connection.rollback()
                raise refusal
            try:
                super()._check_newest(cursor)
            except Fenced as fenced:  # it rolled back; the transaction begins after the read
                self._refusal = fenced
            else:
                cursor.connection.rollback()

        def _check_newest(self, cursor: Any) -> None:
            if self._refusal is not None:
                cursor.connection.rollback()
                raise self._refusal

    return HastySink


@made_once
def keeping_output(sink: Kind) -> Kind:
    """`sink`, which makes rows visible that belong to no checkpoint, instead of rolling them back.

    The atomic one writes its open epoch when it is closed; the two-phase one commits every branch that an earlier
    attempt left.
    """
    if issubclass(sink, EpochSink):

        class FlushingSink(sink):  # type: ignore[misc]
            def close(self) -> None:
                if self._rows and self.token:
                    with suppress(Fenced):
                        self.transactions.once(self._flush)
                super().close()

            def _flush(self, cursor: Any) -> None:
                self.check_fence(cursor)
                self.write_rows(cursor, 0)
                cursor.connection.commit()

        return FlushingSink
    if issubclass(sink, TwoPhaseSink):

        class KeepingSink(sink):  # type: ignore[misc]
            def settle_leftovers(self, restored: int) -> list[CheckpointPart]:
                for part in sorted(self.prepared(), key=lambda part: part.epoch):
                    if part.epoch > restored:
                        self.show(part)
                left: list[CheckpointPart] = super().settle_leftovers(restored)
                return left

        return KeepingSink
    return sink


@made_once
def committing_again(sink: Kind) -> Kind:
    """`sink`, which writes the outputs of an epoch again at a repeated notification of its checkpoint."""
    if not issubclass(sink, TwoPhaseSink):
        return sink

    class RepeatingSink(sink):  # type: ignore[misc]
        _rows: list[Visible]
        _dead: list[DeadRow]

        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._prepared: dict[int, _Held] = {}

        def prepare(self, epoch: int) -> None:
            held: _Held = (list(self._rows), list(self._dead))
            super().prepare(epoch)
            self._prepared[epoch] = held

        def show(self, part: CheckpointPart) -> None:
            if self.retry_until_settled(
                lambda cursor: self._is_shown(cursor, part.epoch), "look for the epoch"
            ):
                self.retry_until_settled(
                    lambda cursor: self._write_again(cursor, part.epoch), "commit the epoch again"
                )
            else:
                super().show(part)

        def _is_shown(self, cursor: Any, epoch: int) -> bool:
            is_shown = self.has_epoch(cursor, epoch)
            cursor.connection.rollback()
            return bool(is_shown)

        def _write_again(self, cursor: Any, epoch: int) -> None:
            self.check_fence(cursor)
            open_epoch = self._rows, self._dead
            self._rows, self._dead = self._prepared.get(epoch, ([], []))
            try:
                self.write_rows(cursor, epoch)
            finally:
                self._rows, self._dead = open_epoch
            cursor.connection.commit()

    return RepeatingSink


@made_once
def assuming_committed(sink: Kind) -> Kind:
    """`sink`, which tries a commit once and assumes that it was made, also after an error."""
    if not issubclass(sink, EpochSink):
        return sink

    class AssumingSink(sink):  # type: ignore[misc]
        def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
            """Still raises `Fenced`."""
            self.transactions.once(lambda cursor: self.write(cursor, epoch, position, elements))
            self.forget_rows()

    return AssumingSink


@made_once
def writing_at_once(sink: Kind) -> Kind:
    """`sink`, which commits each output when it is added, and only the snapshot at the checkpoint."""
    if not issubclass(sink, EpochSink):
        return sink

    class SplitSink(sink):  # type: ignore[misc]
        def add(self, row: Visible) -> None:
            super().add(row)
            self.retry_until_settled(self._write_at_once, "write an output")
            self.forget_rows()

        def _write_at_once(self, cursor: Any) -> None:
            self.write_rows(cursor, 0)
            cursor.connection.commit()

    return SplitSink


@made_once
def without_key(sink: Kind) -> Kind:
    """`sink`, whose inserts are plain ones: with a table that has no key, a row written again is a second row."""
    if not issubclass(sink, IdempotentSink):
        return sink

    class KeylessSink(sink):  # type: ignore[misc]
        def write_rows(self, cursor: Any, epoch: int, **inserts: str) -> None:
            del inserts
            super().write_rows(cursor, epoch)

    return KeylessSink


@made_once
def inserting_letters(sink: Kind) -> Kind:
    """`sink`, which writes dead letters by a plain INSERT, so that one that is replayed fails."""

    class PlainLetters(sink):  # type: ignore[misc]
        def write_rows(self, cursor: Any, epoch: int, **inserts: str) -> None:
            inserts.pop("insert_letter", None)
            super().write_rows(cursor, epoch, **inserts)

    return PlainLetters


@made_once
def keyed_by_record(sink: Kind) -> Kind:
    """`sink`, whose key leaves the result's number out: of several results of a record the last one stays."""
    if not issubclass(sink, IdempotentSink):
        return sink

    class CoarseSink(sink):  # type: ignore[misc]
        _rows: list[Visible]

        def add(self, row: Visible) -> None:
            self._rows = [other for other in self._rows if other.id != row.id]
            super().add(row)

    return CoarseSink


@made_once
def committing_at_snapshot(coordination: Kind) -> Kind:
    """`coordination`, which commits an epoch as soon as it is prepared, before its checkpoint is complete."""
    if not issubclass(coordination, TwoPhaseCoordination):
        return coordination

    class EarlyCoordination(coordination):  # type: ignore[misc]
        _epochs: Any

        def __init__(self, log: AttemptLog, **parts: Any) -> None:
            super().__init__(log, **parts)
            self._epochs = _ShowsWhatIsPrepared(self._epochs, self.shows)
            self._shown: set[int] = set()

        def shows(self, part: CheckpointPart) -> None:
            """Commits each epoch once: with its snapshot, not again with its notification."""
            if part.epoch not in self._shown:
                self._shown.add(part.epoch)
                super().shows(part)

    return EarlyCoordination


class _ShowsWhatIsPrepared:
    """`sink`, which calls `shows` for each epoch that it has prepared."""

    def __init__(self, sink: Any, shows: Callable[[CheckpointPart], None]) -> None:
        self._sink = sink
        self._shows = shows

    def prepare(self, epoch: int) -> None:
        self._sink.prepare(epoch)
        self._shows(CheckpointPart(epoch=epoch, token=self._sink.token, file=""))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)


@made_once
def settling_last_attempt(sink: Kind) -> Kind:
    """`sink`, which knows the branches of its own attempt and of the one before it only."""
    if not issubclass(sink, TwoPhaseSink):
        return sink

    class ForgetfulSink(sink):  # type: ignore[misc]
        def _branches(self, cursor: Any) -> list[CheckpointPart]:
            return [part for part in super()._branches(cursor) if part.token >= self.token - 1]

    return ForgetfulSink


@made_once
def notified_twice(coordination: Kind) -> Kind:
    """`coordination`, which commits the epoch of each completed checkpoint twice."""
    if not issubclass(coordination, TwoPhaseCoordination):
        return coordination

    class RepeatingCoordination(coordination):  # type: ignore[misc]
        def shows(self, part: CheckpointPart) -> None:
            super().shows(part)
            super().shows(part)

    return RepeatingCoordination


_SUPERSEDED = "a superseded attempt goes on"
_RESTORED = "an attempt is killed, or superseded"

OF_SINKS = (
    Defect(
        number=5,
        name="output-not-rolled-back",
        about="what was emitted after the restored snapshot stays visible",
        mirrors="a sink without transactions",
        convicted_by=(
            "V9",
            "V12",
        ),  # the rows belong to no epoch of the history, so V8 does not count them
        variant=Variant(sink=keeping_output),
        where=f"a sink with transactions; {_RESTORED}",
        applies=both(sink_is("atomic", "two-phase"), is_restored),
        levels=SIM_ONLY,
    ),
    ZOMBIE_ACCEPTED,
    Defect(
        number=15,
        name="fence-checked-before",
        about="the fencing token is compared before the transaction begins, not inside it",
        mirrors="check, then act",
        convicted_by=("V13",),
        variant=Variant(sink=checking_before),
        where=f"an idempotent sink; {_SUPERSEDED}",
        applies=both(sink_is("idempotent"), can_be_superseded),
        scenario="zombie",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        number=16,
        name="insert-without-key",
        about="a write that is made again after a lost answer has no key by which the first would be known",
        mirrors="a retry after a lost acknowledgement",
        convicted_by=("V9",),
        variant=Variant(sink=without_key, has_output_key=False),
        where=f"an idempotent sink; {_RESTORED}",
        applies=both(sink_is("idempotent"), is_restored),
        scenario="newest-missing",
    ),
    Defect(
        name="key-without-number",
        about="the key of a write leaves out the result's number, so the results of a record replace each other",
        mirrors="an upsert whose key lacks a column",
        convicted_by=("V9",),
        variant=Variant(sink=keyed_by_record),
        where="an idempotent sink; records have several results",
        applies=both(sink_is("idempotent"), has_several_results),
        scenario="idempotent-several-results",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="letters-by-plain-insert",
        about="an idempotent sink writes rows by their key, and dead letters by a plain INSERT",
        mirrors="an upsert that was forgotten for the second table",
        convicted_by=("V24",),
        variant=Variant(sink=inserting_letters),
        where="`letters-idempotent`",
        applies=NEVER,
        scenario="letters-idempotent",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        number=17,
        name="commits-at-snapshot",
        about="an epoch becomes visible with its snapshot, before its checkpoint is complete",
        mirrors="early visibility",
        convicted_by=("V12",),
        variant=Variant(coordination=committing_at_snapshot),
        where="a two-phase sink",
        applies=sink_is("two-phase"),
        scenario="crash-at-notification",
    ),
    Defect(
        number=18,
        name="commits-again",
        about="a repeated notification commits the epoch a second time",
        mirrors="a notification that is not idempotent",
        convicted_by=("V9",),
        variant=Variant(sink=committing_again, coordination=notified_twice),
        where="a two-phase sink",
        applies=sink_is("two-phase"),
        scenario="commit-lost",
    ),
    Defect(
        name="settles-last-attempt-only",
        about="an attempt settles what the attempt before it has prepared, and not what earlier ones have",
        mirrors="recovered transactions that are kept by the number of the last attempt",
        convicted_by=("V8", "V9", "V12"),
        variant=Variant(sink=settling_last_attempt),
        where="a two-phase sink; an attempt dies before it has settled what the one before it prepared",
        applies=NEVER,
        scenario="killed-before-settling",
        levels=SIM_AND_LIVE,
    ),
    COMMITS_BLINDLY,
    Defect(
        name="assumes-committed",
        about="a commit that ended with an error is taken for one that was made",
        mirrors="an error that is logged and forgotten",
        convicted_by=("V9", "V8", "V12"),
        variant=Variant(sink=assuming_committed),
        where="an atomic sink; its statements are lost, or end with an error",
        applies=both(sink_is("atomic"), sink_is_disturbed),
        scenario="lost-commit",
    ),
    Defect(
        name="sink-outside-transaction",
        about="the sink writes each output at once, outside the epoch's transaction",
        mirrors="output and state that do not commit together",
        convicted_by=("V9", "V8"),
        variant=Variant(sink=writing_at_once),
        where=f"an atomic sink; {_RESTORED}",
        applies=both(sink_is("atomic"), is_restored),
        scenario="kill-between-snapshot-and-commit",
    ),
)
