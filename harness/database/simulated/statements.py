"""The statements on tables that the simulated server executes, found by their exact text.

Answers to MySQL's parser and executor, for the statements that the harness sends. Invariant: a statement
first takes its row locks, in order, and then takes effect at one instant, completely or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from harness.database.epoch import INSERT_DEAD_LETTER, INSERT_OUTPUT
from harness.database.simulated.tables import (
    OutputChange,
    OutputRow,
    SimulatedTables,
    StatementFailed,
    Transaction,
)
from harness.database.stored_tables import COUNT_OF, ROWS_OF, counting

DUPLICATE: Final = 1062

Key = Hashable
_Args = Sequence[Any]


class Result(Struct, frozen=True):
    """The result of one statement: the rows of a query, or the number of rows that a write affected."""

    rows: list[tuple[Any, ...]] | None = None
    affected: int = 0


class TableStatement(Struct, frozen=True, kw_only=True):
    """A statement whose `run(tables, transaction, args)` is called once all `locks(tables, args)` are held.

    `run` may raise `StatementFailed`. `many`: `args` is a list of rows, even for a single row.
    """

    run: Callable[[SimulatedTables, Transaction, Any], Result]
    locks: Callable[[SimulatedTables, Any], Iterable[Key]] | None = None
    writes: bool = False
    """Refused while the server is read-only; also for a locking read, as MariaDB refuses it too."""
    grows: bool = False
    """Refused while the disk is full."""
    deadlocks: bool = False
    """Whether fault `deadlocks` can fail it, as a deadlock on the gap lock of the next epoch row."""
    many: bool = False


def _rows(rows: list[tuple[Any, ...]]) -> Result:
    return Result(rows=rows, affected=len(rows))


# fence


def _fence_row(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("fence", args[-1])]


def _all_fences(tables: SimulatedTables, _args: _Args) -> list[Key]:
    return [("fence", subtask) for subtask in tables.fence.sorted_keys()]


def _first_fences(tables: SimulatedTables, args: _Args) -> list[Key]:
    return _all_fences(tables, args)[: args[0]]


def _raise_token(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    now_ms, subtask = args
    row = transaction.read_newest(tables.fence, subtask)
    if row is None:
        return Result()
    token, origin_ms, _ended = row
    transaction.write(tables.fence, subtask, (token + 1, now_ms if origin_ms is None else origin_ms, 0))
    return Result(affected=1)


def _end_subtask(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    row = transaction.read_newest(tables.fence, args[0])
    if row is None or row[2] == 1:
        return Result()
    transaction.write(tables.fence, args[0], (row[0], row[1], 1))
    return Result(affected=1)


def _fence_off_ended(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    row = transaction.read_newest(tables.fence, args[0])
    if row is None:
        return Result()
    transaction.write(tables.fence, args[0], (row[0] + 1, row[1], 1))
    return Result(affected=1)


def _insert_fence(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    subtask, origin_ms = args
    if transaction.read_newest(tables.fence, subtask) is not None:
        raise StatementFailed(DUPLICATE, f"Duplicate entry '{subtask}' for key 'PRIMARY'")
    transaction.write(tables.fence, subtask, (0, origin_ms, 0))
    return Result(affected=1)


def _new_fence(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("fence", args[0])]


def _token_and_origin(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    row = transaction.read(tables.fence, args[0])
    return _rows([] if row is None else [row[:2]])


def _token(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    row = transaction.read(tables.fence, args[0])
    return _rows([] if row is None else [row[:1]])


def _token_locked(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    row = transaction.read_newest(tables.fence, args[0])
    return _rows([] if row is None else [row[:1]])


def _standings(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    return _rows([(key, row[0], row[2]) for key, row in transaction.scan(tables.fence)])


def _standings_locked(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    read = [(key, transaction.read_newest(tables.fence, key)) for key in tables.fence.sorted_keys()]
    return _rows([(key, row[0], row[2]) for key, row in read if row is not None])


def _fences_locked(tables: SimulatedTables, _transaction: Transaction, _args: _Args) -> Result:
    return _rows([(key,) for key in tables.fence.sorted_keys()])


def _first_fences_locked(tables: SimulatedTables, _transaction: Transaction, args: _Args) -> Result:
    return _rows([(key,) for key in tables.fence.sorted_keys()[: args[0]]])


# epoch


def _epoch_row(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("epoch", args[0], args[1])]


def _epoch_token(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    row = transaction.read(tables.epoch, (args[0], args[1]))
    return _rows([] if row is None else [row[:1]])


def _newest_of(tables: SimulatedTables, transaction: Transaction, subtask: int) -> tuple[Any, ...] | None:
    """(epoch, token, pos, elements) of the subtask's newest epoch row, or None."""

    def read() -> tuple[Any, ...] | None:
        mine = [(key[1], *row) for key, row in transaction.scan(tables.epoch) if key[0] == subtask]
        return mine[-1] if mine else None

    if not transaction.reads_newest(tables.epoch):
        return read()
    newest: tuple[Any, ...] | None = tables.epoch.remembered(("newest", subtask), read)
    return newest


def _newest_epoch(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    newest = _newest_of(tables, transaction, args[0])
    return _rows([] if newest is None else [(newest[0], newest[2], newest[3])])


def _newest_epoch_number(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    newest = _newest_of(tables, transaction, args[0])
    return _rows([(0 if newest is None else newest[0],)])


def _insert_epoch(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    subtask, epoch, token, position, elements = args
    if transaction.read_newest(tables.epoch, (subtask, epoch)) is not None:
        raise StatementFailed(DUPLICATE, f"Duplicate entry '{subtask}-{epoch}' for key 'PRIMARY'")
    transaction.write(tables.epoch, (subtask, epoch), (token, position, elements))
    return Result(affected=1)


def _delete_epoch(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    key = (args[0], args[1])
    if transaction.read_newest(tables.epoch, key) is None:
        return Result()
    transaction.write(tables.epoch, key, None)
    return Result(affected=1)


# output and dead_letter


def _output_keys(tables: SimulatedTables, rows: Sequence[_Args]) -> list[Key]:
    return [("output", *tables.output_key(row)) for row in rows] if tables.keyed else []


def _insert_output(tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args]) -> Result:
    if tables.keyed:
        fresh: dict[tuple[Any, ...], None] = {}
        for row in rows:
            key = tables.output_key(row)
            if transaction.has_output(key) or key in fresh:
                raise StatementFailed(DUPLICATE, tables.duplicate(key))
            fresh[key] = None
    for row in rows:
        transaction.write_output(row)
    return Result(affected=len(rows))


def _upsert_output(tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args]) -> Result:
    """An existing row keeps its token and is not changed; the audit trigger fires only AFTER INSERT."""
    affected = 0
    for row in rows:
        if not (tables.keyed and transaction.has_output(tables.output_key(row))):
            transaction.write_output(row)
            affected += 1
    return Result(affected=affected)


def _overwrite_output(transaction: Transaction, rows: Sequence[_Args], v: str | None) -> Result:
    """As `_upsert_output`, but an existing row gets `v`, or (None) the value of the new row."""
    for row in rows:
        key, value = tuple(row[:3]), row[3] if v is None else v
        own = [place for place, mine in enumerate(transaction.outputs) if mine[:3] == key]
        for place in own:
            mine = transaction.outputs[place]
            transaction.outputs[place] = (*mine[:3], value, *mine[4:])
        if not own and transaction.has_output(transaction.output_key(key)):
            transaction.change_outputs(_valued(key, value))
        elif not own:
            transaction.write_output(row)
    return Result(affected=len(rows))


def _valued(key: tuple[Any, ...], value: str) -> OutputChange:
    def change(row: OutputRow) -> OutputRow:
        return replace(row, v=value) if (row.subtask, row.id, row.j) == key else row

    return change


def _delete_output(goes: Callable[[OutputRow, int], bool]) -> TableStatement:
    """A DELETE of the rows of a subtask (first argument) that `goes` chooses by the second argument."""

    def run(_tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
        subtask, bound = args
        transaction.change_outputs(lambda row: None if row.subtask == subtask and goes(row, bound) else row)
        return Result()

    return TableStatement(run=run, writes=True)


def _delete_dead_letters(_tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    transaction.changes += 1
    transaction.letters_before = (args[0], args[1])
    return Result()


def _letter_keys(tables: SimulatedTables, rows: Sequence[_Args]) -> list[Key]:
    return [("dead_letter", *tables.letter_key(row)) for row in rows] if tables.keyed else []


def _insert_dead_letters(tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args]) -> Result:
    if tables.keyed:
        fresh: dict[tuple[Any, ...], None] = {}
        for row in rows:
            key = tables.letter_key(row)
            if transaction.has_dead_letter(key) or key in fresh:
                raise StatementFailed(DUPLICATE, tables.duplicate(key))
            fresh[key] = None
    for row in rows:
        transaction.write_dead_letter(row)
    return Result(affected=len(rows))


def _upsert_dead_letters(tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args]) -> Result:
    affected = 0
    for row in rows:
        if not (tables.keyed and transaction.has_dead_letter(tables.letter_key(row))):
            transaction.write_dead_letter(row)
            affected += 1
    return Result(affected=affected)


# ack and completed


def _ack_row(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("ack", args[0], args[1])]


def _replace_ack(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    subtask, epoch, token, file = args
    before = transaction.read_newest(tables.ack, (subtask, epoch))
    transaction.write(tables.ack, (subtask, epoch), (token, file))
    return Result(affected=1 if before in (None, (token, file)) else 2)


def _parts(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    subtask, limit = args
    parts = [
        (key[1], *row)
        for key, row in reversed(transaction.scan(tables.ack))
        if key[0] == subtask and transaction.read(tables.completed, key[1]) is not None
    ]
    return _rows(parts[:limit])


def _acks_up_to(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    subtask, restored = args
    return _rows(
        [
            (key[1], row[0])
            for key, row in transaction.scan(tables.ack)
            if key[0] == subtask and key[1] <= restored
        ]
    )


def _acks_to_decide(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    def read() -> list[tuple[Any, ...]]:
        newest = _newest_completed_of(tables, transaction)
        found = [(key[1], key[0], row[0]) for key, row in transaction.scan(tables.ack) if key[1] > newest]
        return sorted(found)

    if not transaction.reads_newest(tables.ack, tables.completed):
        return _rows(read())
    return _rows(tables.ack.remembered(("to decide", tables.completed.changed), read))


def _newest_completed_of(tables: SimulatedTables, transaction: Transaction) -> int:
    def read() -> int:
        return max((key for key, _ in transaction.scan(tables.completed)), default=0)

    if not transaction.reads_newest(tables.completed):
        return read()
    newest: int = tables.completed.remembered("newest", read)
    return newest


def _newest_completed(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    return _rows([(_newest_completed_of(tables, transaction),)])


def _completed_row(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("completed", args[0])]


def _insert_completed(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Result:
    (epoch,) = args
    if transaction.read_newest(tables.completed, epoch) is not None:
        raise StatementFailed(DUPLICATE, f"Duplicate entry '{epoch}' for key 'PRIMARY'")
    transaction.write(tables.completed, epoch, ())
    return Result(affected=1)


# The audit after a run


def _refuse_unreadable(tables: SimulatedTables, name: str) -> None:
    if name in tables.unreadable:
        raise StatementFailed(1146, f"Table '{name}' doesn't exist")


def _audit(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    _refuse_unreadable(tables, "audit")
    return _rows([_stored(row) for row in transaction.read_audit()])


def _outputs(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    _refuse_unreadable(tables, "output")
    return _rows([_stored(row) for row in transaction.read_outputs()])


def _dead_letters(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    _refuse_unreadable(tables, "dead_letter")
    return _rows(
        [
            (row.seq, row.subtask, row.id, row.token, row.epoch, None, row.error)
            for row in transaction.read_dead_letters()
        ]
    )


def _stored(row: OutputRow) -> tuple[Any, ...]:
    return (row.seq, row.subtask, row.id, row.token, row.epoch, row.j, row.v)


def _all_epochs(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    return _rows([(*key, row[0]) for key, row in transaction.scan(tables.epoch)])


def _all_completed(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
    return _rows([(key,) for key, _ in transaction.scan(tables.completed)])


def _count(table: str, of: Callable[[Transaction], int]) -> TableStatement:
    def run(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Result:
        _refuse_unreadable(tables, table)
        return _rows([(of(transaction),)])

    return TableStatement(run=run)


def _doubled(transaction: Transaction) -> int:
    rows: dict[tuple[int, int], int] = {}
    for row in transaction.read_outputs():
        rows[row.id, row.j] = rows.get((row.id, row.j), 0) + 1
    return sum(times > 1 for times in rows.values())


def _disordered(transaction: Transaction) -> int:
    highest: dict[int, int] = {}
    count = 0
    for row in transaction.read_outputs():
        count += row.id < highest.get(row.subtask, row.id)
        highest[row.subtask] = max(row.id, highest.get(row.subtask, row.id))
    return count


_COUNTING = counting(ordered=True)
STATEMENTS: Mapping[str, TableStatement] = MappingProxyType(
    {
        "UPDATE fence SET token = token + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s) WHERE subtask = %s": (
            TableStatement(run=_raise_token, locks=_fence_row, writes=True)
        ),
        "UPDATE fence SET token = token + 1, ended = 1 WHERE subtask = %s": TableStatement(
            run=_fence_off_ended, locks=_fence_row, writes=True
        ),
        "INSERT INTO fence (subtask, token, origin_ms) VALUES (%s, 0, %s)": TableStatement(
            run=_insert_fence, locks=_new_fence, writes=True
        ),
        "UPDATE fence SET ended = 1 WHERE subtask = %s": TableStatement(
            run=_end_subtask, locks=_fence_row, writes=True
        ),
        "SELECT token, origin_ms FROM fence WHERE subtask = %s": TableStatement(run=_token_and_origin),
        "SELECT token FROM fence WHERE subtask = %s": TableStatement(run=_token),
        "SELECT token FROM fence WHERE subtask = %s FOR UPDATE": TableStatement(
            run=_token_locked, locks=_fence_row, writes=True
        ),
        "SELECT subtask, token, ended FROM fence ORDER BY subtask": TableStatement(run=_standings),
        "SELECT subtask, token, ended FROM fence ORDER BY subtask FOR UPDATE": TableStatement(
            run=_standings_locked, locks=_all_fences, writes=True
        ),
        "SELECT subtask FROM fence FOR UPDATE": TableStatement(
            run=_fences_locked, locks=_all_fences, writes=True
        ),
        "SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE": TableStatement(
            run=_first_fences_locked, locks=_first_fences, writes=True
        ),
        "SELECT token FROM epoch WHERE subtask = %s AND epoch = %s": TableStatement(run=_epoch_token),
        "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1": (
            TableStatement(run=_newest_epoch)
        ),
        "SELECT COALESCE(MAX(epoch), 0) FROM epoch WHERE subtask = %s": TableStatement(
            run=_newest_epoch_number
        ),
        "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)": (
            TableStatement(run=_insert_epoch, locks=_epoch_row, writes=True, grows=True, deadlocks=True)
        ),
        "DELETE FROM epoch WHERE subtask = %s AND epoch = %s": TableStatement(
            run=_delete_epoch, locks=_epoch_row, writes=True
        ),
        INSERT_OUTPUT: TableStatement(
            run=_insert_output, locks=_output_keys, writes=True, grows=True, many=True
        ),
        f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE token = output.token": TableStatement(
            run=_upsert_output, locks=_output_keys, writes=True, grows=True, many=True
        ),
        INSERT_DEAD_LETTER: TableStatement(
            run=_insert_dead_letters, locks=_letter_keys, writes=True, grows=True, many=True
        ),
        f"{INSERT_DEAD_LETTER} ON DUPLICATE KEY UPDATE token = dead_letter.token": TableStatement(
            run=_upsert_dead_letters, locks=_letter_keys, writes=True, grows=True, many=True
        ),
        f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE v = VALUES(v)": TableStatement(
            run=lambda _, transaction, rows: _overwrite_output(transaction, rows, None),
            locks=_output_keys,
            writes=True,
            grows=True,
            many=True,
        ),
        f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE v = 'null'": TableStatement(
            run=lambda _, transaction, rows: _overwrite_output(transaction, rows, "null"),
            locks=_output_keys,
            writes=True,
            grows=True,
            many=True,
        ),
        "DELETE FROM output WHERE subtask = %s AND epoch < %s": _delete_output(
            lambda row, bound: row.epoch < bound
        ),
        "DELETE FROM output WHERE subtask = %s AND epoch >= %s": _delete_output(
            lambda row, bound: row.epoch >= bound
        ),
        "DELETE FROM output WHERE subtask = %s AND token < %s": _delete_output(
            lambda row, bound: row.token < bound
        ),
        "DELETE FROM dead_letter WHERE subtask = %s AND token < %s": TableStatement(
            run=_delete_dead_letters, writes=True
        ),
        "REPLACE INTO ack (subtask, epoch, token, file) VALUES (%s, %s, %s, %s)": TableStatement(
            run=_replace_ack, locks=_ack_row, writes=True, grows=True
        ),
        "SELECT ack.epoch, ack.token, ack.file FROM ack JOIN completed ON completed.epoch = ack.epoch"
        " WHERE ack.subtask = %s ORDER BY ack.epoch DESC LIMIT %s": TableStatement(run=_parts),
        "SELECT epoch, token FROM ack WHERE subtask = %s AND epoch <= %s": TableStatement(run=_acks_up_to),
        "SELECT epoch, subtask, token FROM ack"
        " WHERE epoch > (SELECT COALESCE(MAX(epoch), 0) FROM completed) ORDER BY epoch": TableStatement(
            run=_acks_to_decide
        ),
        "SELECT COALESCE(MAX(epoch), 0) FROM completed": TableStatement(run=_newest_completed),
        "INSERT INTO completed (epoch) VALUES (%s)": TableStatement(
            run=_insert_completed, locks=_completed_row, writes=True, grows=True
        ),
        ROWS_OF["audit"]: TableStatement(run=_audit),
        ROWS_OF["output"]: TableStatement(run=_outputs),
        ROWS_OF["dead_letter"]: TableStatement(run=_dead_letters),
        "SELECT subtask, epoch, token FROM epoch ORDER BY subtask, epoch": TableStatement(run=_all_epochs),
        "SELECT epoch FROM completed ORDER BY epoch": TableStatement(run=_all_completed),
        COUNT_OF["audit"]: _count("audit", lambda transaction: len(transaction.read_audit())),
        _COUNTING["rows"]: _count("output", lambda transaction: len(transaction.read_outputs())),
        _COUNTING["records"]: _count(
            "output",
            lambda transaction: len(dict.fromkeys(row.id for row in transaction.read_outputs())),
        ),
        _COUNTING["doubled"]: _count("output", _doubled),
        _COUNTING["epochs"]: TableStatement(
            run=lambda tables, transaction, _: _rows([(len(transaction.scan(tables.epoch)),)])
        ),
        _COUNTING["dead_letters"]: _count(
            "dead_letter", lambda transaction: len(transaction.read_dead_letters())
        ),
        _COUNTING["disordered"]: _count("output", _disordered),
    }
)


def select(tables: SimulatedTables, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query without arguments, read when no session is open. Raises `StatementFailed`."""
    rows = STATEMENTS[sql].run(tables, Transaction(tables), ()).rows
    assert rows is not None, f"it is no query: {sql}"
    return rows
