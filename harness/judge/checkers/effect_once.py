"""V9 effect once: the database holds one effect for each accepted record, and no other.

Invariant: the rows of the audit, read after the run, equal what the accepted records expect, row by row, and so do
those of each table of effects. O(n log n); memory grows with effects, rows and records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec import UNSET

from harness.history.event import Call, Effect, Id, Res, Row
from harness.history.values import listed, shown
from harness.history.verdict import Anomaly, Facts, let, let_all, run_finished
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.invariant import Findings, Invariant, OfTable, convict, findings_of_tables
from harness.judge.checkers.tables import Key, ReadTable, accepted_or_not, among

_EVENTS_NAMED = 4


class EffectOnce(Invariant):
    """Checks V9 over all subtasks."""

    name = "V9"
    vacuous = "no accepted record expects an output, so none an effect, and no table of effects has a row"

    def not_claimed(self, case: IndexedHistory) -> str:
        """It applies if the header claims effects, or the history has any, or a table of effects or of `audit`."""
        tables = case.tables
        claimed = case.header.effects is not None or case.trace.effects
        if claimed or tables.audit is not None or tables.holding("effects"):
            return ""
        return "the header claims no effects, and the history has none"

    def examine(self, view: SubtaskView) -> Findings:
        """Whether this subtask has a record whose effect could be missing."""
        expecting = any(view.expected.of(record).outputs for record in view.source.records)
        return Findings(exposed=expecting)

    def across(self, case: IndexedHistory) -> Findings:
        """Rows and records are joined by id; the subtask that an effect names is not compared."""
        expected = ExpectedEffects(case)
        effects: dict[Key, list[Effect]] = {}
        for effect in case.trace.effects:
            effects.setdefault(expected.key(effect), []).append(effect)
        audit = _judge_audit(case, expected, effects) if case.tables.audited else Findings()
        tables = [_TableOfEffects(one, case, expected, effects) for one in case.tables.holding("effects")]
        return audit + findings_of_tables(case, "effects", chain.from_iterable(one.found() for one in tables))


def _judge_audit(
    case: IndexedHistory, expected: ExpectedEffects, effects: dict[Key, list[Effect]]
) -> Findings:
    missing = list(_missing(case, expected, effects)) if case.tables.audit_whole else []
    return Findings(
        anomalies=(
            *_doubled(case, expected, effects),
            *_odd(case, expected, effects),
            *(missing if case.finished else ()),
        ),
        pending=() if case.finished else tuple(anomaly.say for anomaly in missing),
        unread=tuple(case.tables.unread("audit")),
        observed=len(case.trace.effects),
    )


def _doubled(
    case: IndexedHistory, expected: ExpectedEffects, effects: dict[Key, list[Effect]]
) -> Iterator[Anomaly]:
    for key, rows in effects.items():
        if len(rows) > 1:
            tokens = ", ".join(str(row.token) for row in rows)
            say = (
                f"{expected.named(key)} has {len(rows)} rows in the audit log (written by attempts {tokens})"
            )
            yield _double_effect(case, rows, say)


def _double_effect(case: IndexedHistory, rows: list[Effect], say: str) -> Anomaly:
    record = rows[0].id

    def then() -> Iterator[str]:
        calls = [call.n for view in case.views_of(rows[0].s) for call in view.story(record, Call)]
        if len(calls) > 1:
            yield f"Record {shown(record)} was called {len(calls)} times: {let_all(calls[:_EVENTS_NAMED])}."
        for row in rows[:_EVENTS_NAMED]:
            yield f"{let(row.n)} was committed as number {row.seq}, written by attempt {row.token}."

    return _anomaly("double-effect", rows, say, then, "the audit log holds each effect once")


def _odd(
    case: IndexedHistory, expected: ExpectedEffects, effects: dict[Key, list[Effect]]
) -> Iterator[Anomaly]:
    """Each effect that nothing calls for, or whose value is not the expected one."""
    for key, rows in effects.items():
        excess, values = expected.excess(key), expected.values(key)
        for row in rows:
            if excess:
                say = f"{expected.named(key)} has a row in the audit log, but {excess}"
                rule = "every row belongs to an expected output of an accepted record"
                then = partial(_odd_facts, case, row, say, phantom=True)
                yield _anomaly("phantom-effect", [row], say, then, rule)
            elif row.v is not UNSET and values is not None and not among(row.v, values):
                wanted = f"{shown(values[0])} is expected"
                say = f"{expected.named(key)} has a row with {shown(row.v)} in the audit log, but {wanted}"
                then = partial(_odd_facts, case, row, say, phantom=False)
                yield _anomaly("wrong-effect", [row], say, then, "the value in a row is the expected one")


def _odd_facts(case: IndexedHistory, row: Effect, say: str, *, phantom: bool) -> Iterator[str]:
    if phantom:
        yield accepted_or_not(case.taken, row.id)
        yield f"But the audit log holds {let(row.n)}; {say}."
    else:
        for view in case.views_of(row.s):
            yield from _outcomes(view, row.id)
        yield f"{let(row.n)} has the value {shown(row.v)}; {say}."


def _outcomes(view: SubtaskView, record: Id) -> Iterator[str]:
    if (taken := view.taken(record)) is not None:
        yield f"Record {shown(record)} was accepted: {let(taken.n)}."
    outcomes = [outcome.n for outcome in view.outcomes(record)]
    if outcomes:
        yield f"Its outcome came: {let_all(outcomes[:_EVENTS_NAMED])}."


def _missing(
    case: IndexedHistory, expected: ExpectedEffects, effects: dict[Key, list[Effect]]
) -> Iterator[Anomaly]:
    for key, view, taken in expected.must_exist():
        if key not in effects:
            say = f"{expected.named(key)} (position {taken.pos}) has no row in the audit log"
            yield _no_effect(case, view, taken, key[0], say)


def _no_effect(case: IndexedHistory, view: SubtaskView, taken: Taken, record: Id, say: str) -> Anomaly:
    def then() -> Iterator[str]:
        yield from _outcomes(view, record)
        if not any(effect.id == record for effect in case.trace.effects):
            yield f"The audit log has no row of record {shown(record)}."
        yield run_finished(_EVENTS_NAMED)

    rule = f"{say}, and after a normal finish every expected effect has one"
    return convict("no-effect", view.s, (taken.n,), say, then, rule, id=record)


def _anomaly(kind: str, rows: list[Effect], say: str, then: Facts, rule: str) -> Anomaly:
    events, first = tuple(row.n for row in rows), rows[0]
    return convict(kind, first.s, events, say, then, rule, id=first.id)


class _TableOfEffects:
    """One table of effects, judged by itself.

    A table that keeps the last of several writes is compared by value with what is expected, since the audit does not
    say which write was the last.
    """

    def __init__(
        self,
        table: ReadTable,
        case: IndexedHistory,
        expected: ExpectedEffects,
        effects: Mapping[Key, Sequence[Effect]],
    ) -> None:
        self._table = table
        self._case = case
        self._expected = expected
        self._effects = effects
        self._by_key = table.by_key(by_output=expected.by_output)

    def found(self) -> Iterator[OfTable]:
        """Everything that its rows and its missing rows show."""
        if not self._case.tables.audited:
            yield from self._missing() if self._table.whole else ()
            for key, rows in self._by_key.items():
                if len(rows) > 1:
                    yield self._told(
                        "row-doubled", key, f"{self._table.holds(rows, key)}, for one effect", rows
                    )
                if excess := self._expected.excess(key):
                    yield self._told(
                        "row-foreign", key, f"{self._table.holds(rows, key)}, but {excess}", rows
                    )
            yield from self._wrong()
            return
        if self._table.whole:
            yield from self._deleted()
        yield from self._beyond_the_audit()
        if self._table.table.keep == "last":
            yield from self._wrong()
        elif self._case.tables.audit_whole:
            yield from self._altered()

    def _missing(self) -> Iterator[OfTable]:
        for key, view, taken in self._expected.must_exist():
            if key not in self._by_key:
                values = self._expected.values(key) or []
                say = f"{self._table.holds((), key)}, but {listed(values[:1])} should stand there"
                entry = self._case.entry(key[0], taken.n)
                cited = [] if entry is None else [entry]
                anomaly = self._table.anomaly(
                    "row-missing",
                    key,
                    s=view.s,
                    say=say,
                    cited=cited,
                    others=[taken.n],
                    taken_by=self._case.taken,
                )
                yield OfTable(anomaly, may_change=True)

    def _wrong(self) -> Iterator[OfTable]:
        """Rows whose value is not the expected one."""
        for key, rows in self._by_key.items():
            values = self._expected.values(key)
            if values is not None:
                yield from self._altered_from(key, rows, values, values[:1], may_change=True)

    def _deleted(self) -> Iterator[OfTable]:
        for key, effects in self._effects.items():
            rows = self._by_key.get(key, [])
            if self._table.lacks(rows, len(effects)):
                values = [effect.v for effect in effects if effect.v is not UNSET]
                written = f"{len(effects)} written" if len(effects) > 1 else "one was written"
                wanted = f": {listed(values)} should stand there" if values else " and should stand there"
                say = f"{self._table.holds(rows, key)}, but the audit log has {written}{wanted}"
                yield self._told("row-deleted", key, say, rows, effects)

    def _beyond_the_audit(self) -> Iterator[OfTable]:
        """Rows that the audit does not account for; if it was not read whole, only two rows of one written key."""
        whole = self._case.tables.audit_whole
        for key, rows in self._by_key.items():
            effects = self._effects.get(key, ())
            if not effects and whole:
                say = f"{self._table.holds(rows, key)}, but the audit log shows no such write"
                yield self._told("row-foreign", key, say, rows)
            elif self._table.exceeds(rows, len(effects)) and (whole or self._table.keyed):
                once = "one key" if self._table.keyed else f"{len(effects)} in the audit log"
                yield self._told(
                    "row-doubled", key, f"{self._table.holds(rows, key)}, for {once}", rows, effects
                )

    def _altered(self) -> Iterator[OfTable]:
        """Rows whose value the audit does not show."""
        for key, rows in self._by_key.items():
            effects = self._effects.get(key, ())
            values = [effect.v for effect in effects if effect.v is not UNSET]
            if effects and len(values) == len(effects):
                yield from self._altered_from(key, rows, values, values, effects)

    def _altered_from(
        self,
        key: Key,
        rows: list[Row],
        allowed: Sequence[object],
        told: Sequence[object],
        effects: Sequence[Effect] = (),
        *,
        may_change: bool = False,
    ) -> Iterator[OfTable]:
        altered = [row for row in rows if row.v is not UNSET and not among(row.v, allowed)]
        if altered:
            wanted = f"{listed(list(told))} should stand there"
            say = f"{self._table.holds(rows, key)} with {shown(altered[0].v)}, but {wanted}"
            yield self._told("row-altered", key, say, altered, effects, may_change=may_change)

    def _told(
        self,
        kind: str,
        key: Key,
        say: str,
        rows: Sequence[Row],
        effects: Sequence[Effect] = (),
        *,
        may_change: bool = False,
    ) -> OfTable:
        s = self._case.subtask_of(key[0])
        anomaly = self._table.anomaly(
            kind, key, s=s, say=say, rows=rows, cited=effects, taken_by=self._case.taken
        )
        return OfTable(anomaly, may_change)


class ExpectedEffects:
    """The effects that one case calls for, by key: a record, or an output of it."""

    def __init__(self, case: IndexedHistory) -> None:
        self._case = case
        self.by_output: bool = case.header.effects == "outputs"
        self._unclear = {record for view in case.views for record in _unclear_calls(view)}

    def key(self, row: Effect | Row) -> Key:
        """What a row is a row of."""
        return (row.id, row.j if self.by_output and row.j is not UNSET else None)

    def excess(self, key: Key) -> str:
        """Why no row of a key is expected; empty if one is, or if that is not known."""
        record, j = key
        if record not in self._case.owner:
            return "no subtask took the record in"
        wanted = self._wanted(record)
        if wanted is None or (j or 0) < len(wanted):
            return ""
        return f"{len(wanted) or 'no'} outputs are expected of the record"

    def values(self, key: Key) -> list[object] | None:
        """The values that a row of a key may have; None if any, or if no row is expected."""
        record, j = key
        wanted = self._wanted(record)
        if wanted is None or (j or 0) >= len(wanted):
            return None
        return [wanted, *(wanted if len(wanted) == 1 else ())] if j is None else [wanted[j]]

    def must_exist(self) -> Iterator[tuple[Key, SubtaskView, Taken]]:
        """The keys of which there must be a row, with the record's subtask and its entry."""
        for record, view in self._case.owner.items():
            if wanted := self._wanted(record):
                numbers = range(len(wanted)) if self.by_output else (None,)
                yield from (((record, j), view, view.source.records[record]) for j in numbers)

    def named(self, key: Key) -> str:
        """A key for a message."""
        return f"record {shown(key[0])}" if key[1] is None else f"output {key[1]} of record {shown(key[0])}"

    def _wanted(self, record: Id) -> list[object] | None:
        view = self._case.owner.get(record)
        if view is None:
            return None
        expectation = view.expected.of(record)
        if (expectation.outputs == [] or expectation.substituted) and record in self._unclear:
            return None  # a call did not end in `ok`: the row may be present or absent, with any value
        return expectation.outputs


def _unclear_calls(view: SubtaskView) -> Iterator[Id]:
    """Records with a call that ended in fail, timeout or unknown, or has no `res`."""
    for attempt in view.subtask.attempts.values():
        open_calls: dict[tuple[Id, int], None] = {}
        called: set[Id] = set()
        for event in attempt.events:
            if isinstance(event, Call):
                called.add(event.id)
                open_calls[event.id, event.try_] = None
            elif isinstance(event, Res):
                open_calls.pop((event.id, event.try_), None)
                if event.r != "ok" and event.id in called:
                    yield event.id
        yield from (record for record, _ in open_calls)
