"""V8 exactly once: the effective output O* holds each expected result once, with its value and timestamp.

Answers to Jepsen's `set-full`. Invariant: the multiset of results in O* equals what the accepted records call
for, and so does each table of outputs; what keys and versions show is in `looked_up_values`. O(n log n); memory grows
with O*, with records and with rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from harness.history.event import Id, Out, Row, Snap
from harness.history.values import listed, same, shown
from harness.history.verdict import Anomaly, let, let_all, run_finished
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.invariant import Findings, Invariant, OfTable, convict, findings_of_tables
from harness.judge.checkers.looked_up_values import judge_values
from harness.judge.checkers.outputs import Shown, outputs
from harness.judge.checkers.tables import Key, ReadTable, among

_WITHOUT_VALUES = (
    "no record has an expected value, so only the numbers of results were judged, not their values"
)

_EVENTS_NAMED = 3


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
    anomalies = [*_doubled(holders, results), *_wrong_each(holders, results), *_gaps(holders, seen)]
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


def _doubled(holders: _Holders, results: list[tuple[Shown, Out]]) -> Iterator[Anomaly]:
    first: dict[tuple[Id, int], Shown] = {}
    for entry, out in results:
        before = first.setdefault((out.id, out.j), entry)
        if before is not entry:
            again = f"attempt {before.emission.a} emitted it, and attempt {out.a} again"
            if before.emission.s != out.s:
                again = f"subtask {before.emission.s} emitted it, and subtask {out.s} again"
            if before.emission is out:
                again = f"epochs of attempt {out.a} were committed twice"
            yield _duplicate(holders.by_s[out.s], before, entry, out, again)


def _duplicate(view: SubtaskView, before: Shown, entry: Shown, out: Out, again: str) -> Anomaly:
    outs = sorted({before.emission.n, out.n})
    commits = sorted({shown.commit for shown in (before, entry) if shown.commit is not None})

    def then() -> Iterator[str]:
        if (taken := view.taken(out.id)) is not None:
            yield f"Record {shown(out.id)} was accepted once: {let(taken.n)}."
        if len(outs) > 1:
            yield f"{let_all(outs)} are both output {out.j} of it."
            yield from _restores_between(view, out.id, outs[0], outs[-1])
        sink = view.case.header.sink
        if len(outs) == 1 and len(commits) > 1:
            yield f"{let(outs[0])} was made visible by {let_all(commits)}."
        elif commits:
            yield f"Both were made visible by {let_all(commits)}."
        elif sink == "append":
            yield "The sink keeps everything that was emitted (append), so both are visible."
        elif sink == "rollback":
            yield "Both are in the chain of attempts that led to the final state, so neither was rolled back."

    say = f"output {out.j} of record {shown(out.id)} is visible twice: {again}"
    rule = "every expected output is visible once"
    return convict("duplicate", out.s, {*outs, *commits}, say, then, rule, id=out.id)


def _restores_between(view: SubtaskView, record: Id, first: int, last: int) -> Iterator[str]:
    for start in view.starts:
        cut = view.checkpoints.cut_restored(view.subtask.attempts[start.a])
        if not first < start.n < last:
            continue
        if cut is None:
            yield f"Between them, {let(start.n)} started without restoring a snap."
        else:
            word = "holds" if _holds(cut.snap, record) else "does not hold"
            yield f"Between them, {let(start.n)} restored {let(cut.snap.n)}, which {word} the record."


def _holds(snap: Snap, record: Id) -> bool:
    return any(element.get("id") == record for element in snap.elements)


def _wrong_each(holders: _Holders, results: list[tuple[Shown, Out]]) -> Iterator[Anomaly]:
    """Phantom and wrong results; an emission that is visible twice is reported once."""
    for out in {out.n: out for _, out in results}.values():
        view = holders.by_s[out.s]
        taken = view.source.records.get(out.id)
        if taken is None:
            say = (
                f"output {out.j} of record {shown(out.id)} is visible, but subtask {view.s} never took it in"
            )
            yield _phantom(view, out, say)
        elif reason := _wrong(view, out, taken):
            say = f"output {out.j} of record {shown(out.id)} (position {taken.pos}) {reason}"
            yield _wrong_value(view, out, say, taken.n)


def _phantom(view: SubtaskView, out: Out, say: str) -> Anomaly:
    def then() -> Iterator[str]:
        if (other := view.case.taken(out.id)) is not None:
            yield f"Record {shown(out.id)} was taken in by subtask {other.s} ({let(other.n)})."
        never = f"never took record {shown(out.id)} in"
        yield f"Subtask {out.s}, which emitted {let(out.n)}, {never}."

    rule = "every visible result belongs to a record that its subtask took in"
    return convict("phantom", view.s, (out.n,), say, then, rule, id=out.id)


def _wrong_value(view: SubtaskView, out: Out, say: str, *cited: int) -> Anomaly:
    def then() -> Iterator[str]:
        taken = view.taken(out.id)
        if taken is not None and taken.expect is not UNSET:
            yield f"{let(taken.n)} gives the expected outputs of the record: {shown(taken.expect)}."
        for outcome in view.outcomes(out.id, out.a)[:1]:
            yield f"In attempt {out.a} its outcome was {let(outcome.n)}."
        yield f"But {let(out.n)} is visible; {say}."

    rule = "every visible output is one of its record's expected outputs, numbered without a gap"
    return convict("wrong-value", view.s, {*cited, out.n}, say, then, rule, id=out.id)


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
                entry = by_number[min(beyond)]
                assert isinstance(entry.emission, Out)
                say = f"output {min(beyond)} of record {shown(record)} is visible, but output {gap} is not"
                yield _wrong_value(view, entry.emission, say, *entry.witness)


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
            yield _missing(view, record, say, taken.n, *decided)
        elif wanted is None and outcome is None and not begun:
            say = f"{place} has neither an outcome nor a visible output"
            yield _missing(view, record, say, taken.n)


def _missing(view: SubtaskView, record: Id, say: str, *cited: int) -> Anomaly:
    def then() -> Iterator[str]:
        taken, outs = view.taken(record), view.story(record, Out)
        if taken is not None:
            yield f"Record {shown(record)} was accepted: {let(taken.n)}."
        outcomes = [outcome.n for outcome in view.outcomes(record)]
        came = f"Its outcome came: {let_all(outcomes[:_EVENTS_NAMED])}."
        yield came if outcomes else "No outcome of it ever came."
        if not outs:
            yield "No output of it ever left."
        for out in outs[:_EVENTS_NAMED]:
            yield f"{let(out.n)} left{_fate(view, out)}."
        if taken is not None:
            # Which restarts restored a snap beyond the record's position that does not hold the record
            for start in view.starts:
                cut = view.checkpoints.cut_restored(view.subtask.attempts[start.a])
                if (
                    cut is None
                    or start.n < taken.n
                    or taken.pos >= cut.snap.pos
                    or _holds(cut.snap, taken.id)
                ):
                    continue
                yield (
                    f"{let(start.n)} restored {let(cut.snap.n)}, whose cut is beyond the record"
                    f" (position {taken.pos} comes before {cut.snap.pos}) and which does not hold it."
                )
        yield run_finished(_EVENTS_NAMED)

    rule = f"{say}, and after a normal finish every expected output is visible"
    events = tuple(sorted({*cited}))
    return convict("lost", view.s, events, say, then, rule, id=record)


def _fate(view: SubtaskView, out: Out) -> str:
    """Why an emission is not visible, if events tell."""
    sink, attempts = view.case.header.sink, view.subtask.attempts
    if sink in {"atomic", "two-phase"}:
        snap = next((cut.snap for cut in attempts[out.a].cuts if cut.snap.n > out.n), None)
        if snap is None:
            return f", and belongs to no epoch: no snap of attempt {out.a} follows it"
        committed = any(commit.c == snap.c for commit in view.subtask.commits)
        return "" if committed else f", in epoch {snap.c}, which no event commits"
    successor = next((start for start in view.starts if start.a > out.a), None)
    if successor is None or sink == "append":
        return ""
    if successor.n < out.n:
        return f" after {let(successor.n)} had superseded its attempt"
    cut = view.checkpoints.cut_restored(attempts[successor.a])
    went_back = cut is None or cut.snap.n < out.n
    return f", and {let(successor.n)} went back to an earlier state" if went_back else ""


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
        anomaly = self._table.anomaly(
            kind, key, s=s, say=say, rows=list(rows), cited=outs, taken_by=self._case.taken
        )
        return OfTable(anomaly, bool(self._seen.emitted(key)) if may_change is None else may_change)
