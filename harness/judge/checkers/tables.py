"""The tables that were read after the run: their rows by record, and whether each was read whole.

Implements "Tables" of `docs/reference/history.md`, as far as V8, V9, V13 and V20 share it. Invariant: only a table that
was read whole can show that a row is missing; what the rows of any table show counts as it is. Nothing here judges.
Memory grows with the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from harness.history.event import Call, Dead, Effect, Event, Id, Out, Res, Row, Start, TableRead
from harness.history.header import Holding, Table
from harness.history.values import same, shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.history_trace import Trace

Key = tuple[Id, int | None]
"""What a table judges together: a record and the number of an output; None where it judges by record."""

_ACTS = (Start, Call, Res, Out, Dead)
"""With commits: what may not happen any more once a table is being read."""


def among(value: Any, values: Iterable[Any]) -> bool:
    """Whether a value equals one of several, as `docs/reference/history.md` defines it."""
    return any(same(value, other) for other in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """One table of the header, and what was read of it."""

    name: str
    table: Table
    rows: Sequence[Row]
    """Empty for a table of `audit`, whose rows are the effects."""
    read: TableRead | None
    unread: str
    """Why it was not read whole, one clause; empty if it was."""

    @property
    def whole(self) -> bool:
        """Whether it was read whole, so that a row that is not here is missing."""
        return not self.unread

    @property
    def keyed(self) -> bool:
        """Whether the sink writes by key, so that at most one row of each key remains."""
        return self.table.keep != "all"

    def by_key(self, *, by_output: bool) -> dict[Key, list[Row]]:
        """The rows of each output of each record, or of each record, in the order in which they were read."""
        found: dict[Key, list[Row]] = {}
        for row in self.rows:
            j = row.j if by_output and row.j is not UNSET else None
            found.setdefault((row.id, j), []).append(row)
        return found

    def lacks(self, rows: Sequence[Row], written: int) -> bool:
        """Whether there are fewer rows of a key than that many writes leave."""
        return not rows and written > 0 if self.keyed else len(rows) < written

    def exceeds(self, rows: Sequence[Row], written: int) -> bool:
        """Whether there are more rows of a key than that many writes, at least one, leave."""
        return written > 0 and len(rows) > (1 if self.keyed else written)

    def anomaly(
        self,
        kind: str,
        key: Key,
        *,
        s: int | None,
        say: str,
        rows: Sequence[Row] = (),
        others: Iterable[int] = (),
    ) -> Anomaly:
        """An anomaly of a key; cites the rows, and the end of the reading if a row is missing."""
        record, j = key
        missing = kind in {"row-missing", "row-deleted"}
        ends = (self.read.n,) if missing and self.read is not None else ()
        events = tuple(sorted({*(row.n for row in rows), *others, *ends}))
        return Anomaly(kind=kind, s=s, id=record, j=j, table=self.name, events=events, say=say)

    def holds(self, rows: Sequence[Row], key: Key) -> str:
        """For a message: how many rows the table holds of a key."""
        record, j = key
        of = f"record {shown(record)}" if j is None else f"output {j} of record {shown(record)}"
        count = "no row" if not rows else "a row" if len(rows) == 1 else f"{len(rows)} rows"
        return f"table {shown(self.name)} holds {count} of {of}"


class Tables:
    """The tables of one history."""

    def __init__(self, trace: Trace) -> None:
        claimed = trace.header.tables or {}
        self._rows = trace.rows
        self._reads = {read.table: read for read in trace.table_reads}
        self._effects = trace.effects
        self._last_act = max(_acts(trace), default=None, key=lambda event: event.n) if claimed else None
        self._all = [self._read(name, table) for name, table in claimed.items()]
        self.audit: ReadTable | None = next(iter(self.holding("audit")), None)
        """The table that the effects were read from."""
        self.audited: bool = (
            bool(trace.effects)
            or self.audit is not None
            or (trace.header.effects is not None and not self.holding("effects"))
        )
        """Whether there is an audit."""
        self.audit_whole: bool = self.audit is None or self.audit.whole
        """False if effects may be absent only because their table was not read whole."""

    def holding(self, what: Holding) -> list[ReadTable]:
        """The tables that hold this, in the order of the header."""
        return [read for read in self._all if what in read.table.holds]

    def unread(self, what: Holding) -> Iterator[str]:
        """A clause for each table that holds this and was not read whole."""
        return (read.unread for read in self.holding(what) if not read.whole)

    def _read(self, name: str, table: Table) -> ReadTable:
        rows, read = self._rows.get(name, []), self._reads.get(name)
        unread = self._why_not_whole(name, self._effects if "audit" in table.holds else rows, read)
        return ReadTable(name=name, table=table, rows=rows, read=read, unread=unread)

    def _why_not_whole(self, name: str, rows: Sequence[Row | Effect], read: TableRead | None) -> str:
        what = f"table {shown(name)}"
        if read is None:
            return f"{what} was not read to its end"
        if read.rows != len(rows):
            return f"{what} has {read.rows} rows by the database's count, but the history holds {len(rows)}"
        begun = min(read.n, rows[0].n) if rows else read.n
        last = self._last_act
        if last is not None and last.n > begun:
            return f"{what} was read (event {begun}) before the run's last act (event {last.n})"
        return ""


def _acts(trace: Trace) -> Iterator[Event]:
    """All commits, and of each attempt the last act that may change a table."""
    for subtask in trace.subtasks.values():
        yield from subtask.commits
        for attempt in subtask.attempts.values():
            last = next((event for event in reversed(attempt.events) if isinstance(event, _ACTS)), None)
            yield from () if last is None else (last,)
