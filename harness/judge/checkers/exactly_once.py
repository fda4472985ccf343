"""V8 exactly once: the effective output O* holds each expected result once, with its value and timestamp.

Answers to Jepsen's `set-full`. Invariant: the multiset of results in O* equals what the accepted records call
for. What tables of outputs show is in `output_rows`, what keys and versions show in `looked_up_values`. O(n log n);
memory grows with O*, with records and with rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from harness.history.event import Id, Out
from harness.history.values import listed, same, shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.case import Case, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.invariant import Findings, Invariant
from harness.judge.checkers.looked_up_values import judge_values
from harness.judge.checkers.output_rows import judge_output_rows
from harness.judge.checkers.outputs import Shown, outputs

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

    def across(self, case: Case) -> Findings:
        """What the tables of outputs show, and whether results belong to their key and version."""
        unknown = (_WITHOUT_VALUES,) if case.without_values else ()
        together = _judged(case, case.views) if case.rescalings else Findings()
        return together + judge_output_rows(case) + judge_values(case) + Findings(shortfalls=unknown)


def _judged(case: Case, views: Sequence[SubtaskView]) -> Findings:
    """The findings on subtasks that a record may have passed through, each after those whose work it took over."""
    results = [result for view in views for result in outputs(view.output)]
    seen, holders = _first_seen(results), _Holders(views)
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


def _first_seen(results: list[tuple[Shown, Out]]) -> dict[Id, dict[int, Shown]]:
    """For each record and each `j` the first appearance of that output."""
    seen: dict[Id, dict[int, Shown]] = {}
    for entry, out in results:
        seen.setdefault(out.id, {}).setdefault(out.j, entry)
    return seen


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
