"""The tables that were read after the run: their rows by record, and whether each was read whole.

Implements "Tables" of `docs/reference/history.md`, as far as V8, V9, V13 and V20 share it. Invariant: only a table that
was read whole can show that a row is missing; what the rows of any table show counts as it is. Nothing here judges.
Memory grows with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from harness.history.event import Call, Dead, Effect, Event, Id, In, Out, Res, Row, Start, TableRead
from harness.history.header import Holding, Table
from harness.history.values import same, shown
from harness.history.verdict import Anomaly, let, let_all, run_finished
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.outputs import visible

Key = tuple[Id, int | None]
"""What a table judges together: a record and the number of an output; None where it judges by record."""

TakenBy = Callable[[Id], In | None]
"""The event by which a record was accepted."""
Source = Out | Effect | Dead | Res | In
"""What a row should come from."""
_EVENTS_NAMED = 4
_ACTS = (Start, Call, Res, Out, Dead)
"""With commits: what may not happen any more once a table is being read."""


def among(value: object, values: Iterable[object]) -> bool:
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
        taken_by: TakenBy,
        rows: Sequence[Row] = (),
        cited: Iterable[Source] = (),
        others: Iterable[int] = (),
    ) -> Anomaly:
        """An anomaly of a key; cites the rows, and the end of the reading if a row is missing."""
        record, j = key
        missing = kind in {"row-missing", "row-deleted"}
        ends = (self.read.n,) if missing and self.read is not None else ()
        sources = sorted({event.n: event for event in cited}.values(), key=lambda event: event.n)
        events = tuple(sorted({*(row.n for row in rows), *(event.n for event in sources), *others, *ends}))
        rows = sorted({row.n: row for row in rows}.values(), key=lambda row: row.n)
        return Anomaly(
            kind=kind,
            s=s,
            id=record,
            j=j,
            table=self.name,
            events=events,
            say=say,
            then=lambda: self._facts(kind, key, say, taken_by, rows, sources),
            rule=self._rule(kind, say),
        )

    def _rule(self, kind: str, say: str) -> str:
        match kind:
            case "row-missing":
                return f"{say}, and nothing that should be in the table may be missing from it"
            case "row-deleted":
                return f"{say}, and what was written stays in the table"
            case "row-doubled" if self.keyed:
                return "a table that is written by key holds one row of each key"
            case "row-doubled":
                return "a table holds one row for each write that counts, and no further one"
            case "row-foreign":
                return "every row of a table was written by an attempt whose work counts"
            case "row-disordered":
                return f"the rows of table {shown(self.name)} are written in the order of the outputs"
            case _:
                return f"{say}, and a row holds what was written"

    def _facts(
        self,
        kind: str,
        key: Key,
        say: str,
        taken_by: TakenBy,
        rows: Sequence[Row],
        sources: Sequence[Source],
    ) -> Iterator[str]:
        table = f"Table {shown(self.name)}"
        named = let_all(row.n for row in rows[:_EVENTS_NAMED])
        if kind == "row-altered":
            yield from _values(table, rows, sources)
            return
        if kind == "row-disordered":
            yield from _order(rows, sources)
            return
        from_sources = list(_sources(key[0], sources))
        yield from from_sources
        if kind == "row-doubled":
            yield f"{table} holds {len(rows)} rows of it: {named}."
        elif kind == "row-foreign":
            if not from_sources:
                yield accepted_or_not(taken_by, key[0])
            yield f"{table} holds {named}; {say}."
        else:
            record, j = key
            if self.read is not None:
                yield f"{table} was read to its end, {let(self.read.n)}, after {self.read.rows} rows."
            if rows:
                yield f"Of this it holds only {named}."
            elif not any(row.id == record and j in {None, row.j} for row in self.rows):
                yield f"{table} holds no row of it."
        if kind == "row-missing":
            yield run_finished(_EVENTS_NAMED)

    def holds(self, rows: Sequence[Row], key: Key) -> str:
        """For a message: how many rows the table holds of a key."""
        record, j = key
        of = f"record {shown(record)}" if j is None else f"output {j} of record {shown(record)}"
        count = "no row" if not rows else "a row" if len(rows) == 1 else f"{len(rows)} rows"
        return f"table {shown(self.name)} holds {count} of {of}"


def accepted_or_not(taken_by: TakenBy, record: Id) -> str:
    taken = taken_by(record)
    if taken is None:
        return f"No subtask ever took record {shown(record)} in."
    return f"Record {shown(record)} was accepted: {let(taken.n)}."


def _sources(record: Id, sources: Sequence[Source]) -> Iterator[str]:
    """What a row should come from."""
    for kind, what in (
        (Out, "Visible in the sink's output: {}."),
        (Effect, "The audit log holds {}."),
        (Dead, "The record went to the dead letters: {}."),
        (In, f"Record {shown(record)} was accepted: {{}}."),
    ):
        found = [event.n for event in sources if isinstance(event, kind)]
        if found:
            yield what.replace("{}", let_all(found[:_EVENTS_NAMED]))


def _values(table: str, rows: Sequence[Row], sources: Sequence[Source]) -> Iterator[str]:
    for event in [e for e in sources if isinstance(e, Out | Effect | Res)][:_EVENTS_NAMED]:
        value = event.error if isinstance(event, Res) else event.v
        if value is not UNSET:
            yield f"{let(event.n)} has {shown(value)}."
    for row in rows[:_EVENTS_NAMED]:
        value = row.error if row.v is UNSET else row.v
        yield f"{table} holds {let(row.n)}, which has {shown(None if value is UNSET else value)}."


def _order(rows: Sequence[Row], sources: Sequence[Source]) -> Iterator[str]:
    first, second = sorted(rows, key=lambda row: row.seq)  # type: ignore[arg-type, return-value]
    outs = {(out.id, out.j): out.n for out in sources if isinstance(out, Out)}
    yield f"{let(first.n)} was written as number {first.seq}, {let(second.n)} as {second.seq}."
    earlier, later = ((row.id, 0 if row.j is UNSET else row.j) for row in (second, first))
    yield f"But {visible(outs[earlier], 'before', outs[later])}."


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
