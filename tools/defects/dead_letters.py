"""Strangers in the dead letters: which records get one, how often, when, and what it says.

Answers to side outputs that are written outside the transaction, from a shared variable, or for every failed try.
Invariant: apart from the letters in the table, and in one case the place of an empty entry in the queue, the run is
the reference's.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

from msgspec.structs import replace

from harness.database.epoch import DeadRow, Takeover
from harness.sut.coordination import AttemptLog
from harness.sut.defects.defect import both, calls_fail, calls_once, retries
from harness.sut.defects.twelve import OperatorOfSettlements, building
from harness.sut.function_under_test import DeadLetter, DeadLetterFunction, is_dead_letter
from harness.sut.variant import HasJournal, Kind, Variant, made_once
from reference_impl.elements import Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import Ending, Settlement
from tools.defects.kinds import Stranger
from tools.defects.where import has_dead_letters, is_restored


def _writing(change: Any) -> Any:
    """A sink's class that writes `change(letters, rows)` instead of the open epoch's letters."""

    @made_once
    def altered(sink: Kind) -> Kind:
        class AlteringSink(sink):  # type: ignore[misc]  # a class made of a class
            def write_rows(self, cursor: Any, epoch: int, **how: Any) -> None:
                kept = list(self._dead)
                self._dead[:] = change(kept, self._rows)
                try:
                    super().write_rows(cursor, epoch, **how)
                finally:
                    self._dead[:] = kept

        return AlteringSink

    return altered


def _without_error(letters: list[DeadRow], rows: list[Any]) -> list[DeadRow]:
    del rows
    return [replace(letter, error="") for letter in letters]


def _of_last_error(letters: list[DeadRow], rows: list[Any]) -> list[DeadRow]:
    """All letters of an epoch with the error of the newest one: the error was kept in one variable."""
    del rows
    return [replace(letter, error=letters[-1].error) for letter in letters]


def _beside_rows(letters: list[DeadRow], rows: list[Any]) -> list[DeadRow]:
    """An epoch without outputs is taken for an empty one."""
    return letters if rows else []


def _one_an_error(letters: list[DeadRow], rows: list[Any]) -> list[DeadRow]:
    """One letter for each kind of error, as a log that leaves out repetitions."""
    del rows
    return list({letter.error.split(":")[0]: letter for letter in letters}.values())


@made_once
def keeping_letters(sink: Kind) -> Kind:
    """`sink`, which forgets the letters of an epoch only if it had outputs too."""

    class HoardingSink(sink):  # type: ignore[misc]
        def forget_rows(self) -> None:
            if self._rows:
                super().forget_rows()

    return HoardingSink


@made_once
def writing_letters_at_once(sink: Kind) -> Kind:
    """`sink`, which commits each letter when it is written, outside the epoch's transaction."""

    class HastySink(sink):  # type: ignore[misc]
        _rows: list[Any]

        def write_dead_letter(self, *, id: int, error: str) -> None:
            super().write_dead_letter(id=id, error=error)
            self.retry_until_settled(self._write_letters, "write a dead letter")

        def _write_letters(self, cursor: Any) -> None:
            self.check_fence(cursor)
            rows, self._rows = self._rows, []
            try:
                self.write_rows(cursor, 0)
            finally:
                self._rows = rows
            cursor.connection.commit()
            self._dead.clear()

    return HastySink


@made_once
def deleting_letters(sink: Kind) -> Kind:
    """`sink`, which deletes the letters of earlier attempts when it takes over."""

    class SweepingSink(sink):  # type: ignore[misc]
        def take_over(self, **how: Any) -> Takeover:
            taken: Takeover = super().take_over(**how)
            self.retry_until_settled(self._sweep, "delete the letters of earlier attempts")
            return taken

        def _sweep(self, cursor: Any) -> None:
            self.check_fence(cursor)
            cursor.execute(
                "DELETE FROM dead_letter WHERE subtask = %s AND token < %s", (self.subtask, self.token)
            )
            cursor.connection.commit()

    return SweepingSink


@made_once
def losing_letters(coordination: Kind) -> Kind:
    """`coordination`, which passes on no letter of a record that it has read from a snapshot."""

    class LosingCoordination(coordination):  # type: ignore[misc]
        def __init__(self, log: AttemptLog, **parts: Any) -> None:
            super().__init__(log, **parts)
            self._taken: dict[int, None] = {}

        def takes(self, element: Any) -> None:
            if type(element) is Record:
                self._taken[element.value.id] = None
            super().takes(element)

        def emit(self, element: Any) -> None:
            is_letter = type(element) is Record and type(element.value) is DeadLetter
            if not is_letter or element.value.id in self._taken:
                super().emit(element)

    return LosingCoordination


class _NamedByKey:
    """A function whose letters name the key that was looked up, not the record."""

    def __init__(self, function: AsyncFunction) -> None:
        self._function = function

    def invoke(self, value: Any, handle: Any) -> None:
        self._function.invoke(value, _KeyHandle(value.key, handle))

    def timeout(self, value: Any, handle: Any) -> None:
        self._function.timeout(value, _KeyHandle(value.key, handle))


class _KeyHandle:
    def __init__(self, key: int, handle: Any) -> None:
        self._key = key
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def complete(self, results: Any) -> None:
        if is_dead_letter(results):
            results = [replace(results[0], id=self._key)]
        self._handle.complete(results)


def _naming_keys(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    del attempt
    return _NamedByKey(honest) if isinstance(honest, DeadLetterFunction) else honest


class _LetterFirst(Settlement):
    def action(self) -> None:
        outcome = self.outcome
        if not outcome or not is_dead_letter(outcome):
            super().action()
            return
        self.tell(Ending.OK, results=outcome)
        self.owner.emit(Record(value=outcome[0], timestamp=self.element.timestamp))
        self.complete_with(())
        self.owner.emit_completed()


class _LettersOvertake(OperatorOfSettlements):
    """Writes a letter when its call fails, while the record waits in the queue, and so stands in snapshots."""

    settlement = _LetterFirst


def _build_letter_a_try(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that writes a letter for each failed try, also if a later one succeeds."""
    strategy: Any = parts.get("retry")
    operator: list[AsyncWaitOperator] = []
    if strategy is not None and strategy.on_result is is_dead_letter:
        parts["retry"] = _Writing(strategy, lambda letter: operator[0].emit(Record(value=letter)))
    operator.append(operator_around(queue_for(mode, capacity, parts.get("key_of")), **parts))
    return operator[0]


class _Writing:
    """A strategy that has a letter written when it is asked about one."""

    def __init__(self, strategy: Any, write: Any) -> None:
        self.on_error = strategy.on_error
        self.can_retry = strategy.can_retry
        self.backoff_ms = strategy.backoff_ms
        self._write = write
        self._failed: Any = None

    def on_result(self, results: Any) -> bool:
        """A failed try that `can_retry` then lets go on gets its letter with `backoff_ms`."""
        is_failure = is_dead_letter(results)
        if is_failure:
            self._failed = results[0]
            self.backoff_ms = partial(self._backoff_ms, self.backoff_ms)
        return is_failure

    def _backoff_ms(self, honest: Any, attempt: int) -> int:
        self.backoff_ms = honest
        self._write(self._failed)
        waits: int = honest(attempt)
        return waits


_ONE_EACH = "a record that failed for good has one letter in the table"
_NONE_ELSE = "a record that has results has no letter"
_ERROR = "a letter holds its own record's error"
_LETTERS = "there are dead letters; a call ends with an error"

OF_DEAD_LETTERS = (
    Stranger(
        name="letter-without-error",
        about="dead letters are written with an empty error",
        component="dead letters",
        breaks=_ERROR,
        variant=Variant(sink=_writing(_without_error)),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        convicted_by=("V20",),
    ),
    Stranger(
        name="letters-of-last-error",
        about="all dead letters of an epoch carry the error of the last one",
        component="dead letters",
        breaks=_ERROR,
        variant=Variant(sink=_writing(_of_last_error)),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        convicted_by=("V20",),
    ),
    Stranger(
        name="letters-need-outputs",
        about="an epoch without outputs is taken for empty, and its dead letters are not written",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(sink=_writing(_beside_rows)),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        convicted_by=("V20",),
    ),
    Stranger(
        name="letters-once-an-error",
        about="of the dead letters of an epoch with one kind of error only the last is written",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(sink=_writing(_one_an_error)),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        convicted_by=("V20",),
    ),
    Stranger(
        name="letters-written-again",
        about="dead letters of an epoch without outputs are written again with the next epoch",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(sink=keeping_letters),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        scenario="letters-alone",
        convicted_by=("V20",),
    ),
    Stranger(
        name="letters-at-once",
        about="a dead letter is committed when it is written, and again when its record is replayed",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(sink=writing_letters_at_once),
        where=f"{_LETTERS}; an attempt is killed, or superseded",
        applies=both(has_dead_letters, calls_fail, is_restored),
        scenario="poison-at-head",
        convicted_by=("V20",),
    ),
    Stranger(
        name="letters-deleted-at-take-over",
        about="an attempt deletes the dead letters of the attempts before it",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(sink=deleting_letters),
        where=f"{_LETTERS}; an attempt is killed, or superseded",
        applies=both(has_dead_letters, calls_fail, is_restored),
        convicted_by=("V20",),
    ),
    Stranger(
        name="restored-record-without-letter",
        about="a record that was restored from a snapshot and then fails gets no dead letter",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(coordination=losing_letters),
        where=f"{_LETTERS}; an attempt is killed, or superseded",
        applies=both(has_dead_letters, calls_fail, is_restored),
        scenario="poison-at-head",
        convicted_by=("V20",),
    ),
    Stranger(
        name="letter-names-key",
        about="a dead letter names the key that was looked up instead of the record",
        component="dead letters",
        breaks=_ONE_EACH,
        variant=Variant(function=_naming_keys),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        convicted_by=("V20",),
    ),
    Stranger(
        name="letter-overtakes",
        about="a dead letter leaves when its call fails, and its record stays in the queue and in snapshots",
        component="dead letters",
        breaks="a snapshot does not hold a record whose letter has left",
        variant=Variant(build_operator=building(_LettersOvertake)),
        where=f"{_LETTERS}; calls are made once",
        applies=both(has_dead_letters, calls_fail, calls_once),
        scenario="letter-before-restart",
        survives="a snapshot may hold a record that expects no result; each of the two letters then has its own `dead`",
    ),
    Stranger(
        name="letter-for-each-try",
        about="a dead letter is written for each try that fails, also if a later one succeeds",
        component="dead letters",
        breaks=_NONE_ELSE,
        variant=Variant(build_operator=_build_letter_a_try),
        where=f"{_LETTERS}; calls are made again",
        applies=both(has_dead_letters, calls_fail, retries),
        convicted_by=("V15", "V20"),
    ),
)
