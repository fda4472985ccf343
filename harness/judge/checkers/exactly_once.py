"""V8 exactly once: the effective output O* holds each expected result once, with its value and timestamp.

Answers to Jepsen's `set-full`. Invariant: the multiset of results in O* equals what the accepted records call
for, and so does each table of outputs; what keys and versions show is in `looked_up_values`. O(n log n); memory grows
with O*, with records and with rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from harness.history.event import Id, Out, Row
from harness.history.values import listed, same, shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.invariant import Findings, Invariant, OfTable, findings_of_tables
from harness.judge.checkers.looked_up_values import judge_values
from harness.judge.checkers.outputs import Shown, outputs
from harness.judge.checkers.tables import Key, ReadTable, among

_WITHOUT_VALUES = (
    "no record has an expected value, so only the numbers of results were judged, not their values"
)


class ExactlyOnce(Invariant):
    """Checks V8 for each subtask."""

    name = "V8"
    vacuous = "no result is visible, and none is missing"

    def examine(self, view: SubtaskView) -> Findings:
        """Each duplicate, phantom and wrong result, and each record with a missing one."""
        if view.case.rescalings:
            return Findings()  # `across` judges all subtasks together
        return _judged(view.case, [view])

    def across(self, case: IndexedHistory) -> Findings:
        """What the tables of outputs show, and whether results belong to their key and version."""
        unknown = (_WITHOUT_VALUES,) if case.without_values else ()
        together = _judged(case, case.views) if case.rescalings else Findings()
        found: list[OfTable] = []
        if tables := case.tables.holding("outputs"):
            seen = _Seen(case)
            found = [one for table in tables for one in _TableOfOutputs(table, case, seen).found()]
        of_tables = findings_of_tables(case, "outputs", found)
        return together + of_tables + judge_values(case) + Findings(shortfalls=unknown)


def _judged(case: IndexedHistory, views: Sequence[SubtaskView]) -> Findings:
    """The findings on subtasks that a record may have passed through, each after those whose work it took over."""
    results = [result for view in views for result in outputs(view.output)]
    holders = _Holders(views)
    seen: dict[Id, dict[int, Shown]] = {}
    """For each record and each `j` the first appearance of that output."""
    for entry, out in results:
        seen.setdefault(out.id, {}).setdefault(out.j, entry)
    anomalies = [*_doubled(results), *_wrong_each(holders, results), *_gaps(holders, seen)]
    lost = list(_lost(holders, seen))
    return Findings(
        anomalies=(*anomalies, *(lost if case.finished else ())),
        pending=() if case.finished else tuple(anomaly.say for anomaly in lost),
        observed=len(results),
        exposed=bool(results),
    )


class _Holders:
    """The subtasks that take part, and of each record the last one that held it."""

    def __init__(self, views: Sequence[SubtaskView]) -> None:
        self.by_s = {view.s: view for view in views}
        self.last = {record: view for view in views for record in view.source.records}


def _doubled(results: list[tuple[Shown, Out]]) -> Iterator[Anomaly]:
    first: dict[tuple[Id, int], Shown] = {}
    for entry, out in results:
        before = first.setdefault((out.id, out.j), entry)
        if before is not entry:
            again = f"attempt {before.emission.a} emitted it, and attempt {out.a} again"
            if before.emission.s != out.s:
                again = f"subtask {before.emission.s} emitted it, and subtask {out.s} again"
            if before.emission is out:
                again = f"epochs of attempt {out.a} were committed twice"
            yield Anomaly(
                kind="duplicate",
                s=out.s,
                id=out.id,
                events=tuple(sorted({*before.witness, *entry.witness})),
                say=f"output {out.j} of record {shown(out.id)} is visible twice: {again}",
            )


def _wrong_each(holders: _Holders, results: list[tuple[Shown, Out]]) -> Iterator[Anomaly]:
    """Phantom and wrong results; an emission that is visible twice is reported once."""
    for out in {out.n: out for _, out in results}.values():
        view = holders.by_s[out.s]
        taken = view.source.records.get(out.id)
        if taken is None:
            say = (
                f"output {out.j} of record {shown(out.id)} is visible, but subtask {view.s} never took it in"
            )
            yield Anomaly(kind="phantom", s=view.s, id=out.id, events=(out.n,), say=say)
        elif reason := _wrong(view, out, taken):
            say = f"output {out.j} of record {shown(out.id)} (position {taken.pos}) {reason}"
            yield Anomaly(
                kind="wrong-value", s=view.s, id=out.id, events=tuple(sorted({taken.n, out.n})), say=say
            )


def _wrong(view: SubtaskView, out: Out, taken: Taken) -> str:
    wanted = view.expected.of(out.id).outputs
    if wanted is not None and out.j >= len(wanted):
        many = {0: "nothing", 1: "only 1 output"}.get(len(wanted), f"only {len(wanted)} outputs")
        return f"is visible, but {many} is expected of the record"
    if wanted is not None and not same(out.v, wanted[out.j]):
        return f"is {shown(out.v)}, but {shown(wanted[out.j])} is expected"
    if out.ts is not UNSET and out.ts != taken.ts:
        return f"leaves with the timestamp {shown(out.ts)}, but the record has {shown(taken.ts)}"
    return ""


def _gaps(holders: _Holders, seen: dict[Id, dict[int, Shown]]) -> Iterator[Anomaly]:
    """Records whose outputs are unknown: all that is known of them is the numbering 0, 1, 2, ..."""
    for record, by_number in seen.items():
        view = holders.last.get(record)
        if view is not None and view.expected.of(record).outputs is None:
            gap = next(j for j in range(len(by_number) + 1) if j not in by_number)
            beyond = [j for j in by_number if j > gap]
            if beyond:
                witness = by_number[min(beyond)]
                say = f"output {min(beyond)} of record {shown(record)} is visible, but output {gap} is not"
                yield Anomaly(kind="wrong-value", s=view.s, id=record, events=witness.witness, say=say)


def _lost(holders: _Holders, seen: dict[Id, dict[int, Shown]]) -> Iterator[Anomaly]:
    for record, view in holders.last.items():
        taken = view.source.records[record]
        wanted, outcome, begun = view.expected.of(record)
        visible = seen.get(record, {})
        missing = [j for j in range(len(wanted or ())) if j not in visible]
        place = f"record {shown(record)} (position {taken.pos}) of subtask {view.s}"
        if missing:
            decided = () if outcome is None else (outcome.n,)
            say = f"output {listed(missing)} of {place} is missing from the sink's output"
            yield Anomaly(
                kind="lost", s=view.s, id=record, events=tuple(sorted({taken.n, *decided})), say=say
            )
        elif wanted is None and outcome is None and not begun:
            say = f"{place} has neither an outcome nor a visible output"
            yield Anomaly(kind="lost", s=view.s, id=record, events=(taken.n,), say=say)


_EPOCHS = frozenset({"atomic", "two-phase"})


class _Entry(NamedTuple):
    """One appearance of an output in O*."""

    out: Out
    place: int
    """Its index in the O* of its subtask."""
    epoch: int | None
    """The number of the committed epoch; None if the sink has no epochs."""
    stands: bool
    """Whether it stands in the chain."""


class _Seen:
    """The appearances of each output in O*, and all `out` events of each output. Memory grows with outputs."""

    def __init__(self, case: IndexedHistory) -> None:
        self._entries: dict[Key, list[_Entry]] = {}
        self._emitted: dict[Key, list[Out]] = {}
        for view in case.views:
            epochs = {commit.n: commit.c for commit in view.subtask.commits}
            for place, entry in enumerate(view.output):
                if isinstance(out := entry.emission, Out):
                    epoch = None if entry.commit is None else epochs[entry.commit]
                    found = _Entry(out, place, epoch, view.chain.holds(out.a, out.n))
                    self._entries.setdefault((out.id, out.j), []).append(found)
            for attempt in view.subtask.attempts.values():
                for emission in attempt.emissions:
                    if isinstance(emission, Out):
                        self._emitted.setdefault((emission.id, emission.j), []).append(emission)

    def of(self, key: Key) -> list[_Entry]:
        return self._entries.get(key, [])

    def emitted(self, key: Key) -> list[Out]:
        """Its `out` events in any attempt, visible or not."""
        return self._emitted.get(key, [])

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)


class _TableOfOutputs:
    """One table of outputs."""

    def __init__(self, table: ReadTable, case: IndexedHistory, seen: _Seen) -> None:
        self._table = table
        self._case = case
        self._seen = seen
        self._by_key = table.by_key(by_output=True)

    def found(self) -> Iterator[OfTable]:
        """Everything that its rows and its missing rows show."""
        if self._table.whole:
            yield from self._missing()
        for key, rows in self._by_key.items():
            yield from self._doubled(key, rows)
            yield from self._foreign(key, rows)
            yield from self._altered(key, rows)
        if self._table.table.ordered:
            yield from self._disordered()

    def _missing(self) -> Iterator[OfTable]:
        for key in self._seen:
            rows = self._by_key.get(key, [])
            standing = {entry.out.n: entry.out for entry in self._seen.of(key) if entry.stands}
            if self._table.lacks(rows, len(standing)):
                values = listed([out.v for out in standing.values()])
                wanted = f"{values} left" if len(standing) == 1 else f"{len(standing)} left, {values}"
                say = f"{self._table.holds(rows, key)}, but {wanted} and should stand there"
                yield self._told("row-missing", key, say, rows=rows, outs=standing.values())

    def _doubled(self, key: Key, rows: list[Row]) -> Iterator[OfTable]:
        seen = self._seen.of(key)
        if self._table.exceeds(rows, len(seen)):
            once = "one key" if self._table.keyed else f"{len(seen)} visible in O*"
            say = f"{self._table.holds(rows, key)}, for {once}"
            yield self._told("row-doubled", key, say, rows=rows, outs=[entry.out for entry in seen])

    def _foreign(self, key: Key, rows: list[Row]) -> Iterator[OfTable]:
        seen = self._seen.of(key)
        if not seen:
            say = f"{self._table.holds(rows, key)}, but no such output is visible in O*"
            yield self._told("row-foreign", key, say, rows=rows)
            return
        foreign = [(row, reason) for row in rows if (reason := self._of_no_writer(row, seen))]
        if foreign:
            say = f"{self._table.holds(rows, key)}, but {foreign[0][1]}"
            others = [row for row, _ in foreign]
            yield self._told("row-foreign", key, say, rows=others, outs=[entry.out for entry in seen])

    def _of_no_writer(self, row: Row, seen: list[_Entry]) -> str:
        """Why a row is of another attempt or epoch than each visible output; empty if it is not."""
        if self._table.table.keep == "first":
            return ""
        attempts = {entry.out.a for entry in seen}
        if row.token is not UNSET and row.token not in attempts:
            return (
                f"attempt {row.token} wrote one, and what is visible left attempt {listed(sorted(attempts))}"
            )
        epochs = {entry.epoch for entry in seen if entry.epoch is not None}
        if self._case.header.sink in _EPOCHS and row.c is not UNSET and row.c not in epochs:
            return (
                f"one was written in epoch {row.c}, and what is visible is of epoch {listed(sorted(epochs))}"
            )
        return ""

    def _altered(self, key: Key, rows: list[Row]) -> Iterator[OfTable]:
        seen, emitted = self._seen.of(key), self._seen.emitted(key)
        if not seen:
            return
        allowed = emitted if self._table.table.keep == "first" else [entry.out for entry in seen]
        values = [out.v for out in allowed]
        altered = [row for row in rows if row.v is not UNSET and not among(row.v, values)]
        never = [row for row in altered if not among(row.v, (out.v for out in emitted))]
        told = altered if self._case.finished or not never else never
        if told:
            say = f"{self._table.holds(rows, key)} with {shown(told[0].v)}, but {listed(values)} should stand there"
            yield self._told("row-altered", key, say, rows=told, outs=allowed, may_change=not never)

    def _disordered(self) -> Iterator[OfTable]:
        """Rows written after one whose output comes later in the O* of the same subtask."""
        single = [
            (rows[0], seen[0])
            for key, rows in self._by_key.items()
            if len(rows) == 1 and len(seen := self._seen.of(key)) == 1
        ]
        furthest: dict[int, tuple[Row, _Entry]] = {}
        for row, entry in sorted(single, key=lambda pair: pair[0].seq):  # type: ignore[arg-type, return-value]
            before, ahead = furthest.setdefault(entry.out.s, (row, entry))
            if entry.place >= ahead.place:
                furthest[entry.out.s] = row, entry
                continue
            key = (entry.out.id, entry.out.j)
            say = (
                f"{self._table.holds([row], key)}, written (seq {row.seq}) after output {before.j} of record"
                f" {shown(before.id)} (seq {before.seq}), which comes later in O*"
            )
            outs = [entry.out, ahead.out]
            yield self._told("row-disordered", key, say, rows=[row, before], outs=outs, may_change=False)

    def _told(
        self,
        kind: str,
        key: Key,
        say: str,
        *,
        rows: Iterable[Row],
        outs: Iterable[Out] = (),
        may_change: bool | None = None,
    ) -> OfTable:
        """By default the run's end may change what has left in some attempt: that may be rolled back or written."""
        s = self._case.subtask_of(key[0])
        cited = [out.n for out in outs]
        anomaly = self._table.anomaly(kind, key, s=s, say=say, rows=list(rows), others=cited)
        return OfTable(anomaly, bool(self._seen.emitted(key)) if may_change is None else may_change)
