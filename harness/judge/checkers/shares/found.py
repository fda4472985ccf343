"""One share as the exact checkers judge it: a suspected subtask by itself, in the memory that its events take.

Invariant: the findings are those of the same checkers on the whole history, because a `SubtaskView` depends on its
own subtask and on the coordinator's events only; a finding that needs another subtask is flagged, not guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from msgspec import UNSET

from harness.history.event import Call, Event, Res
from harness.history.read import open_text
from harness.history.strict_json import integers_of_any_length
from harness.history.text import header_line, line_of
from harness.history.values import identity
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Findings, Invariant, in_full
from harness.judge.checkers.judge import accounting_of, uncollected
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.totals import Distinct
from harness.judge.checkers.shares.shared_events import SharedEvents, by_number

_ACROSS_SHARES: Final = frozenset({"V9", "V13", "V19"})
"""Invariants whose findings across all subtasks are the sum of those in each share; of V9 and V19 see `foreign`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFound:
    """The findings of one share that travel to the fold."""

    s: int
    malformed: bool = False
    """Whether the share breaks the format, so that the whole is read again to name every breach."""
    findings: Mapping[str, Findings] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why an invariant does not apply to this share; empty if it does."""
    foreign: frozenset[str] = frozenset()
    """Invariants for the whole to decide: this share shows something of another one, or the checker failed."""
    accounting: Mapping[str, int] = field(default_factory=dict)
    completed: frozenset[int] = frozenset()
    ids: Distinct = field(default_factory=Distinct)
    nonces: Distinct = field(default_factory=Distinct)


def examine_share(
    s: int,
    around: SharedEvents,
    batches: Iterable[Sequence[Event]],
    *,
    names: Collection[str],
    finished: bool,
) -> ShareFound:
    """Judge one share by the checkers of `names`; `finished`: whether every subtask of the history has ended."""
    own = list(chain.from_iterable(batches))
    with uncollected(), integers_of_any_length():
        lines = map(line_of, sorted([*own, *around.told_to(s)], key=by_number))
        reader = open_text(b"".join((header_line(around.header), *lines)))
        for _ in reader.events():
            pass
        if reader.breaches:  # of the rules between events, inside the share
            return ShareFound(s=s, malformed=True)
        trace = Trace(around.header).extend(sorted([*own, *around.told], key=by_number))
        trace.last = around.last
        case = IndexedHistory(trace)
        vars(case)["finished"] = finished  # a property of all subtasks, computed on first use
        return _found(s, case, [checker for checker in CHECKERS if checker.name in names])


def _found(s: int, case: IndexedHistory, checkers: Sequence[Invariant]) -> ShareFound:
    findings: dict[str, Findings] = {}
    foreign = set[str]()
    for checker in checkers:
        try:
            found = sum((checker.examine(view) for view in case.views), Findings())
            across = checker.across(case) if checker.name in _ACROSS_SHARES else Findings()
            found += across
            findings[checker.name] = replace(found, anomalies=tuple(in_full(found.anomalies)))
        except Exception:  # noqa: BLE001  (on the whole, the judge says how the checker failed)
            foreign.add(checker.name)
    if any(effect.id not in case.owner for effect in case.trace.effects):
        foreign.add("V9")
    if any(anomaly.kind == "phantom" for anomaly in findings.get("V8", Findings()).anomalies):
        foreign.add("V8")  # another share may have taken the record in
    own = {identity(call.nonce) for call in _calls(case)}
    answers = (event for event in _of_attempts(case) if isinstance(event, Res) and event.nonce is not UNSET)
    if any(identity(answer.nonce) not in own for answer in answers):
        foreign.add("V19")  # it may be another share's
    return ShareFound(
        s=s,
        findings=findings,
        reasons={checker.name: checker.not_claimed(case) for checker in CHECKERS},
        foreign=frozenset(foreign),
        accounting=accounting_of(case),
        completed=frozenset(c for view in case.views for c in view.checkpoints.distinct),
        ids=_distinct(case.owner),
        nonces=_distinct(call.nonce for call in _calls(case)),
    )


def _calls(case: IndexedHistory) -> Iterator[Call]:
    """The calls that have a nonce."""
    for event in _of_attempts(case):
        if isinstance(event, Call) and event.nonce is not UNSET:
            yield event


def _of_attempts(case: IndexedHistory) -> Iterator[Event]:
    for view in case.views:
        for attempt in view.subtask.attempts.values():
            yield from attempt.events


def _distinct(values: Iterable[object]) -> Distinct:
    """Of values each of which counts once, however often this share has it."""
    found = Distinct()
    found.pending.extend({identity(value): value for value in values}.values())
    return found
