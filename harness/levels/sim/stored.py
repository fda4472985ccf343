"""The tables of a simulated server, read after the run: their rows as events, and what SQL counts in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from harness.database.audit import COUNT_OF, ROWS_OF, counting, stored_value
from harness.database.simulated.statements import select
from harness.database.simulated.tables import SimulatedTables, StatementFailed
from harness.database.simulated.tape import Tape
from harness.history.event import Effect, Row, TableRead
from harness.scenario.claims import AUDIT, DEAD_LETTERS


def read_tables(tables: SimulatedTables, tape: Tape, *, names: Collection[str] = ROWS_OF) -> list[str]:
    """The rows of these tables become events of `tape`; a table that cannot be read gets no `read`.

    Returns why tables could not be read, a sentence each.
    """
    values: dict[str, Any] = {}
    unread: list[str] = []
    for table, query in ROWS_OF.items():
        if table not in names:
            continue
        try:
            rows = select(tables, query)
            ((count,),) = select(tables, COUNT_OF[table])
        except StatementFailed as error:
            unread.append(f"the table {table} could not be read: {error.message}")
            continue
        if table == AUDIT:
            _read_audit(tape, rows, values)
        else:
            _read_rows(tape, table, rows, values)
        tape.add(TableRead(n=tape.n, t=tape.t, table=table, rows=count))
    return unread


def _read_audit(tape: Tape, rows: Sequence[tuple[Any, ...]], values: dict[str, Any]) -> None:
    t = tape.t
    for n, (seq, subtask, id_, token, _, j, text) in enumerate(rows, tape.numbered + 1):
        v = _decoded(text, values)
        tape.events.append(Effect(n=n, t=t, s=subtask, id=id_, token=token, seq=seq, j=j, v=v))
    tape.numbered += len(rows)


def _read_rows(tape: Tape, table: str, rows: Sequence[tuple[Any, ...]], values: dict[str, Any]) -> None:
    t = tape.t
    for n, (seq, _, id_, token, epoch, j, text) in enumerate(rows, tape.numbered + 1):
        if table == DEAD_LETTERS:
            row = Row(n=n, t=t, table=table, id=id_, seq=seq, token=token, c=epoch, error=text)
        else:
            v = _decoded(text, values)
            row = Row(n=n, t=t, table=table, id=id_, seq=seq, token=token, c=epoch, j=j, v=v)
        tape.events.append(row)
    tape.numbered += len(rows)


def _decoded(text: str, values: dict[str, Any]) -> Any:
    """The value stored as `text`; `values` keeps what was decoded, for the audit and the outputs hold the same."""
    if text not in values:
        values[text] = stored_value(text)
    return values[text]


def count_tables(tables: SimulatedTables, *, ordered: bool) -> Mapping[str, int]:
    """What SQL counts in the tables; a count whose table cannot be read is left out."""
    counts: dict[str, int] = {}
    for name, query in counting(ordered=ordered).items():
        with suppress(StatementFailed):
            ((counts[name],),) = select(tables, query)
    return counts
