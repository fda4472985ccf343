"""What is seen of a job's table while the job lives: the log of changes, replayed row by row, and the audit trigger.

Invariants: every transaction is kept in the order of the log; a table that is dropped and made again is learnt anew,
and gets its trigger again; a server that a fault has down is asked again later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any

import pymysql

from harness.history.values import brief
from harness.levels.job.binlog import LoggedChange, LoggedTransaction, LogPosition
from harness.levels.job.job_database import AUDIT, INBOX, JobDatabase, TableFacts, TableReading
from harness.levels.job.job_file import SinkTable
from harness.levels.job.recording import JobRecording
from harness.levels.job.sink_rows import SinkColumns, SinkReplay, id_text, is_of_table, moves_rows
from harness.system.errors import UsageError, WorldError
from harness.system.json_types import JsonView


@dataclass(slots=True, kw_only=True)
class TableWatch:
    """Mutable; `take` is called by the reader of the log in its own thread, all else by the run of the job."""

    database: JobDatabase
    sink: SinkTable
    offered: Mapping[str, Any]
    """The id of each record that is offered, by its text."""
    transactions: list[LoggedTransaction] = field(default_factory=list)
    columns: SinkColumns | None = None
    """None: the table is not there yet."""
    facts: TableFacts = field(default_factory=TableFacts)
    """What the server says of the table; until it is there, what it said of the calm twin's."""
    replay: SinkReplay | None = None
    """The rows that the log shows by now; None: the table is not there yet."""
    why_no_audit: str = ""
    """Why the server refused the trigger that tells sessions."""
    unfollowed: str = ""
    """Why the log of changes does not show all that happens to the table; empty: it does."""
    _any_us: list[int] = field(default_factory=list)
    _is_renamed: bool = False
    """Whether rows came with a statement that the log shows without them; those of other tables count then."""
    _row_us: list[int] = field(default_factory=list)
    _digested: int = 0
    _is_audited: bool = False
    _lock: Lock = field(default_factory=Lock)

    @property
    def row_times(self) -> Sequence[int]:
        """When each transaction that changed the table was first seen; any table, if rows came by a renaming."""
        return self._any_us if self._is_renamed else self._row_us

    @property
    def longest_gap_us(self) -> int:
        """The longest time between two transactions that changed the table."""
        return max((b - a for a, b in pairwise(self.row_times)), default=0)

    @property
    def rows(self) -> int:
        """How many rows the table has by now."""
        return 0 if self.replay is None else self.replay.rows.total()

    def take(self, transaction: LoggedTransaction) -> None:
        """Keeps a transaction of the log."""
        with self._lock:
            self.transactions.append(transaction)
            if moves_rows(transaction.statement, self.sink.table):
                words = " ".join(transaction.statement.split())
                self.unfollowed = self.unfollowed or f"by the statement {brief(words, limit=120)}"
                self._is_renamed = True
            if any(change.table not in {AUDIT, INBOX} for change in transaction.changes):
                self._any_us.append(transaction.seen_us)
            if any(change.table == self.sink.table for change in transaction.changes):
                self._row_us.append(transaction.seen_us)

    def is_written_after(self, at: LogPosition) -> bool:
        """Whether the table changed behind that place of the log."""
        return any(
            one.end > at and any(change.table == self.sink.table for change in one.changes)
            for one in self.transactions
        )

    def digest(self) -> None:
        """Applies what is new in the log to the replay; learns the columns when the table appears."""
        with self._lock:
            new = self.transactions[self._digested :]
        if any(is_of_table(transaction.statement, self.sink.table) for transaction in new):
            self.columns = self.replay = None
            self._digested, self._is_audited = 0, False
        if self.columns is None and (new or not self.transactions):
            self._learn()
        if self.replay is None:
            return
        with self._lock:
            new = self.transactions[self._digested :]
            self._digested = len(self.transactions)
        for transaction in new:
            self.replay.take(transaction)

    def _learn(self) -> None:
        if not self._ask():
            return
        refuse_columns(self.sink.table, self._judged, self.facts.types)
        self.unfollowed = self.unfollowed or self.facts.cascades
        self.columns = SinkColumns(sink=self.sink, types=self.facts.types, offered=self.offered)
        self.replay, self._digested = SinkReplay(columns=self.columns), 0
        self._audit()

    @property
    def _judged(self) -> Sequence[str]:
        sink = self.sink
        return [*sink.id, *sink.values, *([sink.j] if sink.j else [])]

    def _ask(self) -> bool:
        """Learns the facts of the table; returns whether it is there, and the server answers."""
        try:
            found = self.database.facts(self.sink.table, judged=self._judged, known=self.facts)
        except (pymysql.MySQLError, OSError):
            return False
        self.facts = found or self.facts
        return found is not None

    def audit(self) -> None:
        """Makes the audit trigger once, when the table is there; it may be refused."""
        if not self._is_audited and self._ask():
            self._audit()

    def _audit(self) -> None:
        if self._is_audited:
            return
        if self.facts.is_view:
            message = (
                f"sink.table {self.sink.table} is a view, whose changes the log of changes does not show"
            )
            raise WorldError(message, fix="name the table behind it")
        self.why_no_audit = self.database.install_audit(self.sink.table)
        self._is_audited = not self.why_no_audit

    def made_table(self) -> str:
        """The statement that makes the table as the job made it, if the job does so only where it is not there yet."""
        made = [one.statement for one in self.transactions if is_of_table(one.statement, self.sink.table)]
        words = [" ".join(statement.split()).upper() for statement in made]
        if not made or not all(said.startswith("CREATE TABLE IF NOT EXISTS") for said in words):
            return ""
        if not self._ask() or "FOREIGN KEY" in self.facts.made_by:
            return ""  # the table that a foreign key refers to is not there before the job has made it
        return self.facts.made_by


def as_replay(columns: SinkColumns, rows: Iterable[Mapping[str, object]]) -> SinkReplay:
    """The table with these rows, as if a log had shown them."""
    replay, nowhere = SinkReplay(columns=columns), LogPosition(file="", offset=0)
    changes = [LoggedChange(op="insert", table=columns.sink.table, now=row) for row in rows]
    replay.take(LoggedTransaction(end=nowhere, seen_us=0, changes=changes))
    return replay


def note_tables(
    recording: JobRecording,
    snapshot: TableReading,
    number: int,
    *,
    sink: SinkTable,
    columns: SinkColumns | None,
    offered: JsonView,
) -> None:
    """Notes reading `number` of a job's tables; a table that does not exist, or was dropped, has no rows.

    All its events stand at the place of the log of its snapshot, so that no change stands among them.
    `columns`: None if the table was never there; `offered`: the offered ids by their text.
    """
    if columns is not None:
        for row in snapshot.tables.get(sink.table, ()):
            recording.note("table", at=snapshot.at, reading=number, **columns.row(row).told())
    rows = snapshot.counts.get(sink.table, 0)
    recording.note("read", at=snapshot.at, reading=number, of="table", rows=rows)
    if not sink.dead_letters or sink.dead_letters not in snapshot.tables:
        return
    for row in snapshot.tables[sink.dead_letters]:
        parts = [row.get(column) for column in sink.id]
        told = parts[0] if len(parts) == 1 else parts
        dead = {"id": offered.get(id_text(told), told)}
        if row.get("error") is not None:
            dead["error"] = str(row["error"])
        recording.note("dead", at=snapshot.at, reading=number, **dead)
    rows = snapshot.counts[sink.dead_letters]
    recording.note("read", at=snapshot.at, reading=number, of="dead", rows=rows)


def refuse_columns(table: str, wanted: Sequence[str], types: Mapping[str, str]) -> None:
    """Raises UsageError if the table lacks a column that the job file names."""
    by_name = {name.lower(): name for name in types}
    lacking = [name for name in wanted if name.lower() not in by_name]
    if lacking:
        message = f"table {table} has no column {' and no column '.join(lacking)}; its columns are {', '.join(types)}"
        raise UsageError(message, fix="name its columns in [sink]: id, key, values, j")
