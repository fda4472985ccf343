"""Reads what a run in a world left: the tables of its database, and the history that they and the raw files give.

Invariant: no event is invented (`harness.history.merge`); what cannot be read is told, and has no `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import pymysql
from msgspec import UNSET

from harness.database.audit import CommittedProgress, count_rows, read_progress, read_table, reading
from harness.database.endpoint import Endpoint, KeptConnection
from harness.database.own_tables import read_effects
from harness.database.stored_tables import ROWS_OF, StoredRow, stored_value
from harness.faults.parts.parts import OwnEffects
from harness.history.event import Effect, Event, Row, TableRead
from harness.history.header import Header
from harness.history.merge import Leftovers, history_text, merge
from harness.history.read import open_text
from harness.scenario.claims import AUDIT, DEAD_LETTERS, own_table
from harness.system.errors import HarnessError, WorldError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the database holds after the run."""

    tables: Sequence[Event]
    """The rows of its tables as events, and a `read` for each table that was read to its end."""
    unread: Sequence[str]
    """Why tables could not be read, a sentence each."""
    progress: CommittedProgress
    counts: Mapping[str, int]


def read_stored(
    root: Endpoint,
    *,
    ordered: bool,
    may_fail: bool = False,
    own: tuple[str, OwnEffects] | None = None,
    audit: bool = True,
) -> Stored:
    """Reads the run's tables; one that cannot be read has no `read`, so what judges it is at best `unknown`.

    `ordered`: the rows are claimed to be in the source's order. Raises WorldError if the database does not say what was
    committed, unless the run had failed anyway (`may_fail`): without it the commits of killed attempts are missing, and
    would count as violations. `own`: the database and the table that the lookup writes to; its rows are read in place
    of the audit, which is of the sink's. `audit`: whether it is read at all.
    """
    lines: list[Event] = []
    unread: list[str] = []
    with reading(root) as tables:
        for table, read in _readers(tables, lines.append, own=own).items():
            if table == AUDIT and not audit:
                continue
            try:
                rows = read()
            except (pymysql.MySQLError, OSError) as error:
                unread.append(f"the table {table} could not be read: {error}")
            else:
                lines.append(TableRead(n=0, t=0, table=table, rows=rows))
        try:
            progress, counts = read_progress(tables), count_rows(tables, ordered=ordered)
        except (pymysql.MySQLError, OSError) as error:
            if not may_fail:
                message = f"the run is over, but the database does not answer: {error}"
                fix = "look at the server's log; run it again with --keep always"
                raise WorldError(message, fix=fix) from error
            progress, counts = CommittedProgress(epochs=(), completed=()), {}
    return Stored(tables=lines, unread=unread, progress=progress, counts=counts)


def _readers(
    tables: KeptConnection, tell: Callable[[Event], None], *, own: tuple[str, OwnEffects] | None
) -> Mapping[str, Callable[[], int]]:
    """For each table that is read: what reads it, tells the event of each row, and returns how many it has."""

    def of_run(table: str) -> int:
        return read_table(tables, table, lambda row: tell(event_of_row(table, row)))

    readers: dict[str, Callable[[], int]] = {table: partial(of_run, table) for table in ROWS_OF}
    if own is not None:
        database, effects = own
        name = own_table(effects)
        del readers[AUDIT]
        readers[name] = lambda: read_effects(
            tables,
            database,
            table=effects.table,
            column=effects.id,
            take=lambda id_: tell(Row(n=0, t=0, table=name, id=id_)),
        )
    return readers


def event_of_row(table: str, row: StoredRow) -> Row | Effect:
    """The event of one row, to be numbered."""
    event = Row(n=0, t=0, table=table, id=row.id, seq=row.seq, token=row.token, c=row.epoch)
    if table == DEAD_LETTERS:
        return msgspec.structs.replace(event, error=row.text)
    j, value = UNSET if row.j is None else row.j, stored_value(row.text)
    if table == AUDIT:
        return Effect(n=0, t=0, s=row.subtask, id=row.id, j=j, v=value, token=row.token, seq=row.seq)
    return msgspec.structs.replace(event, j=j, v=value)


def history_of(
    header: Mapping[str, object], leftovers: Leftovers, faults: Sequence[Event], stored: Stored
) -> tuple[Header, list[Event]]:
    """Merges the recorded lines and reads the result with the reader for history files.

    Raises HarnessError if our own history violates the format.
    """
    lines = merge(
        leftovers,
        faults=faults,
        committed={(row.subtask, row.epoch): row.token for row in stored.progress.epochs},
        effects=stored.tables,
        completed=frozenset(stored.progress.completed),
    )
    reader = open_text(history_text(header, lines))
    events = list(reader.events())
    if reader.header is None or reader.breaches:
        first = reader.breaches[0]
        message = f"our own history breaks its format: line {first.line}: {first.say}"
        raise HarnessError(message, fix="please report it, with the files in the run's folder `raw`")
    return reader.header, events
