"""V9 effect once: the database holds one effect for each accepted record, and no other.

Invariant: the rows of the audit, read after the run, equal what the accepted records expect, row by row; what tables
of effects show is in `effect_rows`. O(n log n); memory grows with effects, rows and records.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from harness.history.event import Effect
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.case import Case, SubtaskView
from harness.judge.checkers.effect_rows import judge_effect_rows
from harness.judge.checkers.expected_effects import ExpectedEffects
from harness.judge.checkers.invariant import Findings, Invariant
from harness.judge.checkers.tables import Key, among


class EffectOnce(Invariant):
    """Checks V9 over all subtasks."""

    name = "V9"
    vacuous = "no accepted record expects an output, so none an effect, and no table of effects has a row"

    def not_claimed(self, case: Case) -> str:
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

    def across(self, case: Case) -> Findings:
        """Rows and records are joined by id; the subtask that an effect names is not compared."""
        expected = ExpectedEffects(case)
        effects: dict[Key, list[Effect]] = {}
        for effect in case.trace.effects:
            effects.setdefault(expected.key(effect), []).append(effect)
        audit = _judge_audit(case, expected, effects) if case.tables.audited else Findings()
        return audit + judge_effect_rows(case, expected, effects)


def _judge_audit(case: Case, expected: ExpectedEffects, effects: dict[Key, list[Effect]]) -> Findings:
    missing = list(_missing(expected, effects)) if case.tables.audit_whole else []
    return Findings(
        anomalies=(
            *_doubled(expected, effects),
            *_odd(expected, effects),
            *(missing if case.finished else ()),
        ),
        pending=() if case.finished else tuple(anomaly.say for anomaly in missing),
        unread=tuple(case.tables.unread("audit")),
        observed=len(case.trace.effects),
    )


def _doubled(expected: ExpectedEffects, effects: dict[Key, list[Effect]]) -> Iterator[Anomaly]:
    for key, rows in effects.items():
        if len(rows) > 1:
            tokens = ", ".join(str(row.token) for row in rows)
            say = (
                f"{expected.named(key)} has {len(rows)} rows in the audit log (written by attempts {tokens})"
            )
            yield _anomaly("double-effect", rows, say)


def _odd(expected: ExpectedEffects, effects: dict[Key, list[Effect]]) -> Iterator[Anomaly]:
    """Each effect that nothing calls for, or whose value is not the expected one."""
    for key, rows in effects.items():
        excess, values = expected.excess(key), expected.values(key)
        for row in rows:
            if excess:
                say = f"{expected.named(key)} has a row in the audit log, but {excess}"
                yield _anomaly("phantom-effect", [row], say)
            elif row.v is not UNSET and values is not None and not among(row.v, values):
                wanted = f"{shown(values[0])} is expected"
                say = f"{expected.named(key)} has a row with {shown(row.v)} in the audit log, but {wanted}"
                yield _anomaly("wrong-effect", [row], say)


def _missing(expected: ExpectedEffects, effects: dict[Key, list[Effect]]) -> Iterator[Anomaly]:
    for key, view, taken in expected.must_exist():
        if key not in effects:
            say = f"{expected.named(key)} (position {taken.pos}) has no row in the audit log"
            yield Anomaly(kind="no-effect", s=view.s, id=key[0], events=(taken.n,), say=say)


def _anomaly(kind: str, rows: list[Effect], say: str) -> Anomaly:
    first = rows[0]
    return Anomaly(kind=kind, s=first.s, id=first.id, events=tuple(row.n for row in rows), say=say)
