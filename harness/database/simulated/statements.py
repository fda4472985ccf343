"""The statements on tables that the simulated server executes, found by their exact text.

Answers to MySQL's parser and executor, for the statements that the harness sends. Invariant: a statement
first takes its row locks, in order, and then takes effect at one instant, completely or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from harness.database.epoch import INSERT_DEAD_LETTER, INSERT_OUTPUT
from harness.database.simulated.replies import Reply
from harness.database.simulated.tables import (
    OutputChange,
    OutputRow,
    SimulatedTable,
    SimulatedTables,
    StatementFailed,
    Transaction,
)
from harness.database.stored_tables import COUNT_OF, ROWS_OF, counting

DUPLICATE: Final = 1062

Key = Hashable
_Args = Sequence[Any]


class TableStatement(Struct, frozen=True, kw_only=True):
    """A statement whose `run(tables, transaction, args)` is called once all `locks(tables, args)` are held.

    `run` may raise `StatementFailed`. `many`: `args` is a list of rows, even for a single row.
    """

    run: Callable[[SimulatedTables, Transaction, Any], Reply]
    locks: Callable[[SimulatedTables, Any], Sequence[Key]] | None = None
    writes: bool = False
    """Refused while the server is read-only; also for a locking read, as MariaDB refuses it too."""
    grows: bool = False
    """Refused while the disk is full."""
    deadlocks: bool = False
    """Whether fault `deadlocks` can fail it, as a deadlock on the gap lock of the next epoch row."""
    many: bool = False


def _begin_of(row: tuple[object, ...] | None, columns: int) -> Reply:
    """The first columns of the row; no row if there is none."""
    return Reply([] if row is None else [row[:columns]])


def _insert(transaction: Transaction, table: SimulatedTable, key: object, row: tuple[object, ...]) -> Reply:
    if transaction.read_newest(table, key) is not None:
        entry = "-".join(map(str, key)) if isinstance(key, tuple) else key
        raise StatementFailed(DUPLICATE, f"Duplicate entry '{entry}' for key 'PRIMARY'")
    transaction.write(table, key, row)
    return Reply(affected=1)


# fence


def _fence_row(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("fence", args[-1])]


def _all_fences(tables: SimulatedTables, _args: _Args) -> list[Key]:
    return [("fence", subtask) for subtask in tables.fence.sorted_keys()]


def _raise_token(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    now_ms, subtask = args
    row = transaction.read_newest(tables.fence, subtask)
    if row is None:
        return Reply()
    token, origin_ms, _ended = row
    transaction.write(tables.fence, subtask, (token + 1, now_ms if origin_ms is None else origin_ms, 0))
    return Reply(affected=1)


def _end_subtask(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    row = transaction.read_newest(tables.fence, args[0])
    if row is None or row[2] == 1:
        return Reply()
    transaction.write(tables.fence, args[0], (row[0], row[1], 1))
    return Reply(affected=1)


def _fence_off_ended(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    row = transaction.read_newest(tables.fence, args[0])
    if row is None:
        return Reply()
    transaction.write(tables.fence, args[0], (row[0] + 1, row[1], 1))
    return Reply(affected=1)


# epoch


def _epoch_row(_tables: SimulatedTables, args: _Args) -> list[Key]:
    return [("epoch", args[0], args[1])]


def _newest_of(tables: SimulatedTables, transaction: Transaction, subtask: int) -> list[tuple[object, ...]]:
    """(epoch, token, pos, elements) of the subtask's newest epoch row, if there is one."""

    def read() -> list[tuple[object, ...]]:
        return [(key[1], *row) for key, row in transaction.scan(tables.epoch) if key[0] == subtask][-1:]

    if not transaction.reads_newest(tables.epoch):
        return read()
    newest: list[tuple[Any, ...]] = tables.epoch.remembered(("newest", subtask), read)
    return newest


def _delete_epoch(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    key = (args[0], args[1])
    if transaction.read_newest(tables.epoch, key) is None:
        return Reply()
    transaction.write(tables.epoch, key, None)
    return Reply(affected=1)


# output and dead_letter


def _insert_rows(table: Literal["output", "dead_letter"], *, keeps_known: bool = False) -> TableStatement:
    """An INSERT; `keeps_known`: a row whose key exists is not changed, and not copied by the trigger AFTER INSERT."""
    if table == "output":
        key_of, has, write = SimulatedTables.output_key, Transaction.has_output, Transaction.write_output
    else:
        key_of, has = SimulatedTables.letter_key, Transaction.has_dead_letter
        write = Transaction.write_dead_letter

    def locks(tables: SimulatedTables, rows: Sequence[_Args]) -> list[Key]:
        return [(table, *key_of(tables, row)) for row in rows] if tables.keyed else []

    def insert(tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args]) -> Reply:
        fresh: dict[tuple[Any, ...], None] = {}
        for row in rows if tables.keyed else ():
            key = key_of(tables, row)
            if has(transaction, key) or key in fresh:
                raise StatementFailed(DUPLICATE, tables.duplicate(key))
            fresh[key] = None
        for row in rows:
            write(transaction, row)
        return Reply(affected=len(rows))

    def insert_unknown(tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args]) -> Reply:
        affected = 0
        for row in rows:
            if not (tables.keyed and has(transaction, key_of(tables, row))):
                write(transaction, row)
                affected += 1
        return Reply(affected=affected)

    run = insert_unknown if keeps_known else insert
    return TableStatement(run=run, locks=locks, writes=True, grows=True, many=True)


def _overwrite_output(
    tables: SimulatedTables, transaction: Transaction, rows: Sequence[_Args], *, v: str | None
) -> Reply:
    """Inserts rows; one whose key exists gets `v`, or (None) the value of the new row."""
    for row in rows:
        key, value = tuple(row[:3]), row[3] if v is None else v
        own = [place for place, mine in enumerate(transaction.outputs) if mine[:3] == key]
        for place in own:
            mine = transaction.outputs[place]
            transaction.outputs[place] = (*mine[:3], value, *mine[4:])
        if not own and transaction.has_output(tables.output_key(key)):
            transaction.change_outputs(_valued(key, value))
        elif not own:
            transaction.write_output(row)
    return Reply(affected=len(rows))


def _valued(key: tuple[object, ...], value: str) -> OutputChange:
    return lambda row: replace(row, v=value) if (row.subtask, row.id, row.j) == key else row


def _delete_output(goes: Callable[[OutputRow, int], bool]) -> TableStatement:
    """A DELETE of the rows of a subtask (first argument) that `goes` chooses by the second argument."""

    def run(_tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
        subtask, bound = args
        transaction.change_outputs(lambda row: None if row.subtask == subtask and goes(row, bound) else row)
        return Reply()

    return TableStatement(run=run, writes=True)


def _delete_dead_letters(_tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    transaction.changes += 1
    transaction.letters_before = (args[0], args[1])
    return Reply()


# ack and completed


def _replace_ack(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    subtask, epoch, token, file = args
    before = transaction.read_newest(tables.ack, (subtask, epoch))
    transaction.write(tables.ack, (subtask, epoch), (token, file))
    return Reply(affected=1 if before in (None, (token, file)) else 2)


def _parts(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    subtask, limit = args
    parts = [
        (key[1], *row)
        for key, row in reversed(transaction.scan(tables.ack))
        if key[0] == subtask and transaction.read(tables.completed, key[1]) is not None
    ]
    return Reply(parts[:limit])


def _acks_up_to(tables: SimulatedTables, transaction: Transaction, args: _Args) -> Reply:
    subtask, restored = args
    return Reply(
        [
            (key[1], row[0])
            for key, row in transaction.scan(tables.ack)
            if key[0] == subtask and key[1] <= restored
        ]
    )


def _acks_to_decide(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Reply:
    def read() -> list[tuple[object, ...]]:
        newest = _newest_completed_of(tables, transaction)
        found = [(key[1], key[0], row[0]) for key, row in transaction.scan(tables.ack) if key[1] > newest]
        return sorted(found)

    if not (transaction.reads_newest(tables.ack) and transaction.reads_newest(tables.completed)):
        return Reply(read())
    return Reply(tables.ack.remembered(("to decide", tables.completed.changed), read))


def _newest_completed_of(tables: SimulatedTables, transaction: Transaction) -> int:
    def read() -> int:
        return max((key for key, _ in transaction.scan(tables.completed)), default=0)

    if not transaction.reads_newest(tables.completed):
        return read()
    newest: int = tables.completed.remembered("newest", read)
    return newest


# The audit after a run


def _stored(row: OutputRow) -> tuple[object, ...]:
    return (row.seq, row.subtask, row.id, row.token, row.epoch, row.j, row.v)


def _read(table: str, rows: Callable[[Transaction], list[tuple[object, ...]]]) -> TableStatement:
    def run(tables: SimulatedTables, transaction: Transaction, _args: _Args) -> Reply:
        if table in tables.unreadable:
            raise StatementFailed(1146, f"Table '{table}' doesn't exist")
        return Reply(rows(transaction))

    return TableStatement(run=run)


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
            run=lambda tables, transaction, args: _insert(
                transaction, tables.fence, args[0], (0, args[1], 0)
            ),
            locks=lambda _, args: [("fence", args[0])],
            writes=True,
        ),
        "UPDATE fence SET ended = 1 WHERE subtask = %s": TableStatement(
            run=_end_subtask, locks=_fence_row, writes=True
        ),
        "SELECT token, origin_ms FROM fence WHERE subtask = %s": TableStatement(
            run=lambda tables, transaction, args: _begin_of(transaction.read(tables.fence, args[0]), 2)
        ),
        "SELECT token FROM fence WHERE subtask = %s": TableStatement(
            run=lambda tables, transaction, args: _begin_of(transaction.read(tables.fence, args[0]), 1)
        ),
        "SELECT token FROM fence WHERE subtask = %s FOR UPDATE": TableStatement(
            run=lambda tables, transaction, args: _begin_of(
                transaction.read_newest(tables.fence, args[0]), 1
            ),
            locks=_fence_row,
            writes=True,
        ),
        "SELECT subtask, token, ended FROM fence ORDER BY subtask": TableStatement(
            run=lambda tables, transaction, _: Reply(
                [(key, row[0], row[2]) for key, row in transaction.scan(tables.fence)]
            )
        ),
        "SELECT subtask, token, ended FROM fence ORDER BY subtask FOR UPDATE": TableStatement(
            run=lambda tables, transaction, _: Reply(
                [
                    (key, row[0], row[2])
                    for key in tables.fence.sorted_keys()
                    if (row := transaction.read_newest(tables.fence, key)) is not None
                ]
            ),
            locks=_all_fences,
            writes=True,
        ),
        "SELECT subtask FROM fence FOR UPDATE": TableStatement(
            run=lambda tables, *_: Reply([(key,) for key in tables.fence.sorted_keys()]),
            locks=_all_fences,
            writes=True,
        ),
        "SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE": TableStatement(
            run=lambda tables, _, args: Reply([(key,) for key in tables.fence.sorted_keys()[: args[0]]]),
            locks=lambda tables, args: _all_fences(tables, args)[: args[0]],
            writes=True,
        ),
        "SELECT token FROM epoch WHERE subtask = %s AND epoch = %s": TableStatement(
            run=lambda tables, transaction, args: _begin_of(transaction.read(tables.epoch, tuple(args)), 1)
        ),
        "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1": (
            TableStatement(
                run=lambda tables, transaction, args: Reply(
                    [
                        (epoch, pos, elements)
                        for epoch, _, pos, elements in _newest_of(tables, transaction, args[0])
                    ]
                )
            )
        ),
        "SELECT COALESCE(MAX(epoch), 0) FROM epoch WHERE subtask = %s": TableStatement(
            run=lambda tables, transaction, args: Reply(
                [row[:1] for row in _newest_of(tables, transaction, args[0])] or [(0,)]
            )
        ),
        "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)": (
            TableStatement(
                run=lambda tables, transaction, args: _insert(
                    transaction, tables.epoch, tuple(args[:2]), tuple(args[2:])
                ),
                locks=_epoch_row,
                writes=True,
                grows=True,
                deadlocks=True,
            )
        ),
        "DELETE FROM epoch WHERE subtask = %s AND epoch = %s": TableStatement(
            run=_delete_epoch, locks=_epoch_row, writes=True
        ),
        INSERT_OUTPUT: _insert_rows("output"),
        f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE token = output.token": _insert_rows(
            "output", keeps_known=True
        ),
        INSERT_DEAD_LETTER: _insert_rows("dead_letter"),
        f"{INSERT_DEAD_LETTER} ON DUPLICATE KEY UPDATE token = dead_letter.token": _insert_rows(
            "dead_letter", keeps_known=True
        ),
        f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE v = VALUES(v)": replace(
            _insert_rows("output"), run=lambda *parts: _overwrite_output(*parts, v=None)
        ),
        f"{INSERT_OUTPUT} ON DUPLICATE KEY UPDATE v = 'null'": replace(
            _insert_rows("output"), run=lambda *parts: _overwrite_output(*parts, v="null")
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
            run=_replace_ack, locks=lambda _, args: [("ack", *args[:2])], writes=True, grows=True
        ),
        "SELECT ack.epoch, ack.token, ack.file FROM ack JOIN completed ON completed.epoch = ack.epoch"
        " WHERE ack.subtask = %s ORDER BY ack.epoch DESC LIMIT %s": TableStatement(run=_parts),
        "SELECT epoch, token FROM ack WHERE subtask = %s AND epoch <= %s": TableStatement(run=_acks_up_to),
        "SELECT epoch, subtask, token FROM ack"
        " WHERE epoch > (SELECT COALESCE(MAX(epoch), 0) FROM completed) ORDER BY epoch": TableStatement(
            run=_acks_to_decide
        ),
        "SELECT COALESCE(MAX(epoch), 0) FROM completed": TableStatement(
            run=lambda tables, transaction, _: Reply([(_newest_completed_of(tables, transaction),)])
        ),
        "INSERT INTO completed (epoch) VALUES (%s)": TableStatement(
            run=lambda tables, transaction, args: _insert(transaction, tables.completed, args[0], ()),
            locks=lambda _, args: [("completed", args[0])],
            writes=True,
            grows=True,
        ),
        ROWS_OF["audit"]: _read("audit", lambda transaction: list(map(_stored, transaction.read_audit()))),
        ROWS_OF["output"]: _read(
            "output", lambda transaction: list(map(_stored, transaction.read_outputs()))
        ),
        ROWS_OF["dead_letter"]: _read(
            "dead_letter",
            lambda transaction: [
                (row.seq, row.subtask, row.id, row.token, row.epoch, None, row.error)
                for row in transaction.read_dead_letters()
            ],
        ),
        "SELECT subtask, epoch, token FROM epoch ORDER BY subtask, epoch": TableStatement(
            run=lambda tables, transaction, _: Reply(
                [(*key, row[0]) for key, row in transaction.scan(tables.epoch)]
            )
        ),
        "SELECT epoch FROM completed ORDER BY epoch": TableStatement(
            run=lambda tables, transaction, _: Reply(
                [(key,) for key, _ in transaction.scan(tables.completed)]
            )
        ),
        COUNT_OF["audit"]: _read("audit", lambda transaction: [(len(transaction.read_audit()),)]),
        _COUNTING["rows"]: _read("output", lambda transaction: [(len(transaction.read_outputs()),)]),
        _COUNTING["records"]: _read(
            "output",
            lambda transaction: [(len(dict.fromkeys(row.id for row in transaction.read_outputs())),)],
        ),
        _COUNTING["doubled"]: _read(
            "output",
            lambda transaction: [
                (sum(n > 1 for n in Counter((row.id, row.j) for row in transaction.read_outputs()).values()),)
            ],
        ),
        _COUNTING["epochs"]: TableStatement(
            run=lambda tables, transaction, _: Reply([(len(transaction.scan(tables.epoch)),)])
        ),
        _COUNTING["dead_letters"]: _read(
            "dead_letter", lambda transaction: [(len(transaction.read_dead_letters()),)]
        ),
        _COUNTING["disordered"]: _read("output", lambda transaction: [(_disordered(transaction),)]),
    }
)


def select(tables: SimulatedTables, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query without arguments, read when no session is open. Raises `StatementFailed`."""
    rows = STATEMENTS[sql].run(tables, Transaction(tables), ()).rows
    assert rows is not None, f"it is no query: {sql}"
    return rows
