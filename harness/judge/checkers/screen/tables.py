"""The tables of a history as the screen follows them: what left each chain of attempts, and the rows that were read.

Implements "Tables" of `docs/reference/history.md` for regular histories. Invariant: rows that are not certainly those
that the exact checkers call for make the invariant suspected. Memory grows with resolved records and with rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from harness.history.event import Effect, Id, Row, TableRead
from harness.history.header import Header, Holding, Table
from harness.history.values import identity
from harness.judge.checkers.screen.totals import Entry, Irregular, alike

_JUDGED_BY: Final[dict[Holding, tuple[str, ...]]] = {
    "outputs": ("V8",), "effects": ("V9",), "dead": ("V20",), "audit": ("V9", "V13")
}  # fmt: skip
_Key = tuple[Id, Any]


class Epoch:
    """What one attempt resolves between two of its snaps. Mutable until the second one is taken."""

    __slots__ = ("a", "before", "c", "is_committed", "letters", "resolved")

    def __init__(self, a: int, before: Epoch | None = None) -> None:
        self.a = a
        self.before = before
        """The epoch before it in the chain."""
        self.c: int | None = None
        """The checkpoint of the snap that ends it."""
        self.is_committed = False
        self.resolved: list[Entry] = []
        """In the order in which their last outputs left."""
        self.letters: list[tuple[Id, object]] = []
        """The records that became dead letters, each with the error behind it."""

    def end(self, c: int) -> Epoch:
        """The snap of checkpoint `c` ends it; returns the next epoch."""
        self.c = c
        return Epoch(self.a, before=self)


class _Left(NamedTuple):
    """One output in O*."""

    v: Any
    a: int
    c: int | None
    s: int
    place: int
    """Its index among all outputs."""


class ReadTables:
    """The rows of the header's tables. Mutable."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._tables = header.tables or {}
        self._has_epochs = header.sink in {"atomic", "two-phase"}
        self._rows: dict[str, list[Row]] = {name: [] for name in self._tables}
        self._read: dict[str, int] = {}
        self._places: set[tuple[str, int]] = set()
        self.effects: list[Effect] = []

    def take(self, event: Effect | Row | TableRead) -> None:
        """One row, or the end of a table; irregular if it breaks a rule of the format."""
        if isinstance(event, Effect):
            self.effects.append(event)
            return
        table = self._tables.get(event.table)
        if table is None or event.table in self._read:
            raise Irregular("a table that is unknown, or was read before")
        if isinstance(event, TableRead):
            self._read[event.table] = event.rows
            return
        needs_j = "outputs" in table.holds or ("effects" in table.holds and self._header.effects == "outputs")
        if (needs_j and event.j is UNSET) or "audit" in table.holds:
            raise Irregular("a row without its output, or of the audit")
        if table.ordered:
            if event.seq is UNSET or (event.table, event.seq) in self._places:
                raise Irregular("a row without its place, or two rows of one place")
            self._places.add((event.table, event.seq))
        self._rows[event.table].append(event)

    def count(self, what: Holding) -> int:
        """The rows of all tables that hold this; those of the audit are its effects."""
        return sum(len(self._rows[name]) for name, table in self._tables.items() if what in table.holds)

    def suspects(self, chains: Iterable[tuple[int, Epoch]]) -> Iterator[str]:
        """The invariants in doubt after a run that finished; `chains`: the last epoch of each subtask."""
        left: dict[_Key, _Left] = {}
        letters: list[tuple[Id, object]] = []
        answers: dict[Hashable, list[object]] = {}
        for s, last in chains:
            epochs = [last]
            while epochs[-1].before is not None:
                epochs.append(epochs[-1].before)
            epochs.reverse()
            yield from self._of_keys([entry for epoch in epochs for entry in epoch.resolved], answers)
            for epoch in epochs:
                for entry in epoch.resolved:
                    for j, v in enumerate(entry.wanted or ()):
                        left[entry.source.id, j] = _Left(v, epoch.a, epoch.c, s, len(left))
                if epoch.letters and self._has_epochs and not epoch.is_committed:
                    yield "V20"
                letters += epoch.letters
        for name, table in self._tables.items():
            rows = self._rows[name]
            is_whole = self._read.get(name) == len(self.effects if "audit" in table.holds else rows)
            for what in table.holds:
                if not (is_whole and self._agree(what, table, rows, left, letters)):
                    yield from _JUDGED_BY[what]

    def _of_keys(self, resolved: Sequence[Entry], answers: dict[Hashable, list[object]]) -> Iterator[str]:
        """V8 if records of one key differ, V3 if they left out of order; `answers`: those of each key so far."""
        operator, reached = self._header.operator, dict[Hashable, int]()
        keeps_order = operator.per_key_order and operator.mode != "ordered"
        if not (keeps_order or self._header.by_key):
            return
        for entry in resolved:
            source, wanted = entry.source, entry.wanted or []
            if source.key is UNSET:
                continue
            key = identity(source.key)
            if self._header.by_key and not alike(answers.setdefault(key, wanted), wanted):
                yield "V8"
            if wanted and keeps_order and source.pos < reached.get(key, 0):
                yield "V3"
            if wanted:
                reached[key] = source.pos

    def _agree(
        self,
        what: Holding,
        table: Table,
        rows: Sequence[Row],
        left: dict[_Key, _Left],
        letters: list[tuple[Id, object]],
    ) -> bool:
        match what:
            case "outputs":
                return self._are_outputs(table, rows, left)
            case "effects":
                return self._are_effects(table, rows)
            case "dead":
                return self._are_dead(rows, letters, visible={record for record, _ in left})
            case "audit":
                return self._header.effects is not None  # the effects are compared as those without a table

    def _are_outputs(self, table: Table, rows: Sequence[Row], left: dict[_Key, _Left]) -> bool:
        by_key = {(row.id, row.j): row for row in rows}
        if not len(rows) == len(by_key) == len(left):
            return False
        for key, row in by_key.items():
            one = left.get(key)
            if one is None or not alike(row.v, one.v):
                return False
            if table.keep == "first":
                continue  # another attempt may have written it
            if row.token is not UNSET and row.token != one.a:
                return False
            if self._has_epochs and row.c is not UNSET and row.c != one.c:
                return False
        return not table.ordered or _in_order(rows, left)

    def _are_effects(self, table: Table, rows: Sequence[Row]) -> bool:
        is_audited = self.effects or any("audit" in other.holds for other in self._tables.values())
        if not is_audited or self._header.effects != "outputs" or table.keep == "last":
            return False
        shown = {(effect.id, effect.j): effect.v for effect in self.effects}
        by_key = {(row.id, row.j): row.v for row in rows}
        return (
            len(rows) == len(by_key) == len(shown) == len(self.effects)
            and type(UNSET) not in map(type, shown.values())
            and all(key in shown and alike(v, shown[key]) for key, v in by_key.items())
        )

    def _are_dead(self, rows: Sequence[Row], letters: list[tuple[Id, object]], *, visible: set[Id]) -> bool:
        if self._header.sink == "append":
            return not rows and not letters  # what an attempt wrote stays, and another one may write it again
        by_record, errors = {row.id: row.error for row in rows}, dict(letters)
        return (
            len(rows) == len(by_record) == len(letters)
            and by_record.keys() == errors.keys()
            and visible.isdisjoint(errors)
            and all(
                type(UNSET) in {type(error), type(errors[record])} or alike(error, errors[record])
                for record, error in by_record.items()
            )
        )


def _in_order(rows: Sequence[Row], left: dict[_Key, _Left]) -> bool:
    """Whether the outputs of each subtask were written in the order in which they left."""
    reached: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: row.seq):  # type: ignore[arg-type, return-value]  # `take` asked for it
        one = left[row.id, row.j]
        if one.place < reached.get(one.s, 0):
            return False
        reached[one.s] = one.place
    return True
