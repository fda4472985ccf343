"""Whether results belong to their key, and to the version of the looked-up table that held at the time: a part of V8.

Invariant: with `by_key`, records of one key whose calls no change of the table touches have the same results; with
`versions`, an answer is read from a version that was current between its call and its outcome. O(n log n); memory
grows with the records that have a key, and with the changes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import UNSET

from harness.history.event import Call, Change, Id, Out, Res
from harness.history.values import identity, same, shown
from harness.history.verdict import Anomaly, let, let_all, sentence
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView, by_number
from harness.judge.checkers.invariant import Findings, convict
from harness.judge.checkers.outputs import outputs


def judge_values(case: IndexedHistory) -> Findings:
    """Each key with results that differ, and each answer from a version that was not current."""
    header = case.header
    if not header.by_key and not header.versions:
        return Findings()
    changes = _Changes(case.trace.changes)
    different = _inconsistent(case, changes) if header.by_key else ()
    of_versions = (anomaly for view in case.views for anomaly in _wrong_versions(view, changes))
    return Findings(anomalies=(*different, *(of_versions if header.versions else ())))


class _Span(NamedTuple):
    """One change of the looked-up rows, from its begin to its end."""

    ver: int
    begin: int
    end: float
    """Infinite if it has not ended."""


class _Changes:
    """The changes of the looked-up table, by key."""

    def __init__(self, changes: Iterable[Change]) -> None:
        spans: dict[tuple[Hashable, ...], dict[int, _Span]] = {}
        for change in changes:
            of = () if change.key is UNSET else (identity(change.key),)
            known = spans.setdefault(of, {})
            if change.phase == "begin":
                known[change.ver] = _Span(change.ver, change.n, math.inf)
            else:
                known[change.ver] = known[change.ver]._replace(end=change.n)
        self._spans = {of: list(found.values()) for of, found in spans.items()}
        self._known: dict[Hashable, _ChangesOfKey] = {}

    def of(self, key: object) -> _ChangesOfKey:
        """The changes of a key and of every key."""
        named = identity(key)
        if named not in self._known:
            self._known[named] = _ChangesOfKey([*self._spans.get((named,), ()), *self._spans.get((), ())])
        return self._known[named]


class _ChangesOfKey:
    """The changes that concern one key, to be asked by event number. O(log n) per question."""

    def __init__(self, spans: list[_Span]) -> None:
        by_begin = sorted(spans, key=lambda span: span.begin)
        self._begins = [span.begin for span in by_begin]
        self._latest_ends = list(accumulate((span.end for span in by_begin), max))
        self.begun = {span.ver: span.begin for span in reversed(by_begin)}
        """For each version the begin of the change to it."""
        by_end = sorted(spans, key=lambda span: span.end)
        self._ends = [span.end for span in by_end]
        self._highest = list(accumulate(by_end, lambda *spans: max(spans, key=lambda span: span.ver)))

    def in_force_until(self, n: int) -> float:
        """The latest event of any change that had begun before event `n`; what begins after it is not touched."""
        index = bisect_left(self._begins, n)
        return self._latest_ends[index - 1] if index else -math.inf

    def highest_ended(self, n: int) -> _Span | None:
        """The highest version whose change had ended before event `n`."""
        index = bisect_left(self._ends, n)
        return self._highest[index - 1] if index else None


class _Answered(NamedTuple):
    """A record of a key with its deciding outcome and what is visible of it."""

    record: Id
    s: int
    called: int
    """Number of its first call in the deciding attempt."""
    outcome: Res
    seen: dict[int, Out]
    """For each `j` its first appearance in O*."""


def _inconsistent(case: IndexedHistory, changes: _Changes) -> Iterator[Anomaly]:
    by_key: dict[Hashable, tuple[Any, list[_Answered]]] = {}
    for view in case.views:
        for key, answered in _answered(view):
            by_key.setdefault(identity(key), (key, []))[1].append(answered)
    for key, records in by_key.values():
        records.sort(key=lambda answered: answered.outcome.n)
        found = _first_different(records, changes.of(key), counted=case.finished)
        if found is not None:
            yield _different(case, key, *found)


def _answered(view: SubtaskView) -> Iterator[tuple[object, _Answered]]:
    """The records with a key whose deciding outcome is `ok` and follows a call, each with its key."""
    seen: dict[Id, dict[int, Out]] = {}
    for _, out in outputs(view.output):
        seen.setdefault(out.id, {}).setdefault(out.j, out)
    first_calls = {a: _first_calls(attempt) for a, attempt in view.subtask.attempts.items()}
    for record, taken in view.source.records.items():
        outcome = view.expected.of(record).outcome
        if taken.key is UNSET or not isinstance(outcome, Res) or outcome.r != "ok" or outcome.s != view.s:
            continue
        called = first_calls[outcome.a].get(record)
        if called is not None and called < outcome.n:
            yield taken.key, _Answered(record, view.s, called, outcome, seen.get(record, {}))


def _first_calls(attempt: AttemptTrace) -> dict[Id, int]:
    calls: dict[Id, int] = {}
    for event in attempt.events:
        if isinstance(event, Call):
            calls.setdefault(event.id, event.n)
    return calls


def _first_different(
    records: Iterable[_Answered], changes: _ChangesOfKey, *, counted: bool
) -> tuple[_Answered, _Answered] | None:
    """The first record, by outcome, that differs from one before it that no change separates from it.

    Records that a change separates from this one are separated from all later ones too. So of each output (and of
    the number of outputs, if `counted`) only the record called last is kept.
    """
    latest: dict[int | None, _Answered] = {}
    for now in records:
        until = changes.in_force_until(now.outcome.n)
        if now.called < until:
            continue
        for j in (*now.seen, *((None,) if counted else ())):
            before = latest.get(j)
            if before is None or before.called < until:
                latest[j] = now
            elif _differ(before, now, j):
                return before, now
            elif now.called > before.called:
                latest[j] = now
    return None


def _differ(one: _Answered, other: _Answered, j: int | None) -> bool:
    if j is None:
        return len(one.seen) != len(other.seen)
    return not same(one.seen[j].v, other.seen[j].v)


def _different(case: IndexedHistory, key: object, before: _Answered, now: _Answered) -> Anomaly:
    pair = before, now
    j = next((j for j in now.seen if j in before.seen and _differ(before, now, j)), None)
    if j is None:
        told = [f"record {shown(one.record)} has {len(one.seen)} visible outputs" for one in pair]
    else:
        told = [f"output {j} of record {shown(one.record)} is {shown(one.seen[j].v)}" for one in pair]
    outs = sorted((one.seen[j] for one in pair), key=by_number) if j is not None else []
    answers = sorted(one.outcome.n for one in pair)
    say = f"of key {shown(key)} {told[0]}, but {told[1]}, and no change of the key touches their calls"

    def then() -> Iterator[str]:
        records = [one.record for one in sorted(pair, key=lambda one: one.outcome.n)]
        if taken := [entry for record in records if (entry := case.taken(record)) is not None]:
            yield f"One key, {shown(taken[0].key)}: {let_all(entry.n for entry in taken)}."
        yield f"Each is decided by an answer: {let_all(answers)}."
        if outs:
            clauses = [f"{let(out.n)} has {shown(out.v)}" for out in outs]
            yield f"{', '.join(clauses)}."
        yield sentence(say)

    rule = "the results of one key change only when the looked-up table does"
    return convict(
        "inconsistent", now.s, {*answers, *(out.n for out in outs)}, say, then, rule, id=now.record
    )


def _wrong_versions(view: SubtaskView, changes: _Changes) -> Iterator[Anomaly]:
    """Answers of visible records, once per attempt, that were read from an old version or from one to come."""
    visible = {(out.a, out.id) for _, out in outputs(view.output)}
    for attempt in view.subtask.attempts.values():
        calls: dict[tuple[Id, int], Call] = {}
        told: set[tuple[str, Id]] = set()
        for event in attempt.events:
            if isinstance(event, Call):
                calls[event.id, event.try_] = event
            elif isinstance(event, Res) and (attempt.a, event.id) in visible:
                for anomaly in _wrong_version(view, changes, calls.get((event.id, event.try_)), event):
                    if (anomaly.kind, event.id) not in told:
                        told.add((anomaly.kind, event.id))
                        yield anomaly


def _wrong_version(view: SubtaskView, changes: _Changes, call: Call | None, res: Res) -> Iterator[Anomaly]:
    taken = view.source.records.get(res.id)
    if res.r != "ok" or not res.final or res.ver is UNSET or call is None:
        return
    if taken is None or taken.key is UNSET:
        return
    of_key = changes.of(taken.key)
    read = f"record {shown(res.id)} of key {shown(taken.key)} was answered from version {res.ver}"
    current = of_key.highest_ended(call.n)
    if current is not None and current.ver > res.ver:
        say = f"{read}, but the change to version {current.ver} had ended before its call"
        events = (int(current.end), call.n, res.n)
        change = f"{let(events[0])} comes before {let(call.n)}"
        then = [
            f"{change}, so the call could see version {current.ver}.",
            f"But {let(res.n)} was read from version {res.ver}.",
        ]
        rule = "an answer is read from the version that the call found, or from a later one"
        yield convict("stale", view.s, events, say, then, rule, id=res.id)
    begun = of_key.begun.get(res.ver)
    if res.ver > 0 and (begun is None or begun > res.n):
        say = f"{read}, but no change to that version had begun before the answer"
        events = tuple(sorted({call.n, res.n, *(() if begun is None else (begun,))}))
        then = [f"{let(res.n)} was read from version {res.ver}."]
        then += [] if begun is None else [f"But {let(res.n)} comes before {let(begun)}."]
        then.append(sentence(say))
        rule = "an answer is read from a version that exists, or is about to"
        yield convict("future", view.s, events, say, then, rule, id=res.id)
