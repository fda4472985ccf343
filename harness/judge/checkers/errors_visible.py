"""V20 errors visible: a record that failed for good fails its task or becomes a dead letter, and not both.

Answers to Flink's `failOperator`; convicts swallowed exceptions. Invariant: in an attempt, each final failure is
followed by the attempt's `failed`, by the record's `dead`, or by the attempt's `kill`; the kill counts only
before a completed snapshot that omits the record, since after it a restart would not call the record again. A rescale
that ends the subtask counts as a kill, and so does a `close` before the input has `ended`, if a completed snapshot
behind the failure holds the record: the next attempt calls it again (a batch ends so). O(n log n); memory grows with
the failures of the attempt and with rows.

With the header's `raised` and `substitute` also what an error or a timeout yields is judged, by the declared policy.
`raised` is the error where it arose, so that a history shows an error that somebody between there and the operator
changed, or turned into a result. A letter in a table has the error of its `res`, and that one has the error `raised`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import assert_never

from msgspec import UNSET

from harness.history.event import Close, Commit, Dead, Done, Ended, Failed, Id, Kill, Out, Res, Row
from harness.history.header import Header
from harness.history.policies import against_policy, is_failure, is_judged, policy_for
from harness.history.values import listed, shown
from harness.history.verdict import Anomaly, let
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, OfTable, convict, findings_of_tables
from harness.judge.checkers.outputs import outputs
from harness.judge.checkers.tables import ReadTable, among


class ErrorsVisible(Invariant):
    """Checks V20 for each final failure."""

    name = "V20"
    vacuous = "no record failed, and no table of dead letters has a row"

    def examine(self, view: SubtaskView) -> Findings:
        """Each failure that was not reported, or was reported both as `failed` and as `dead`."""
        header = view.case.header
        anomalies: list[Anomaly] = []
        pending: list[str] = []
        failures = 0
        for attempt in view.subtask.attempts.values():
            ends = _Ends(view, attempt)
            for res in (event for event in attempt.events if isinstance(event, Res)):
                failures += is_judged(res, header)
                if (kind := against_policy(res, header)) is not None:
                    anomalies.append(_against_policy(kind, res, header))
                if not is_failure(res):
                    continue
                if ends.shows(res):
                    anomalies += _misrouted(res, ends, header)
                    continue
                if ends.is_over(res):
                    anomalies.append(_swallowed(view, attempt, res))
                else:
                    pending.append(f"the failure of {_named(res)} (event {res.n}) was not reported")
            anomalies += _double_routed(ends)
        return Findings(
            anomalies=tuple(anomalies), pending=tuple(pending), observed=failures, exposed=failures > 0
        )

    def across(self, case: IndexedHistory) -> Findings:
        """What the tables of dead letters show; each is judged by itself."""
        tables = case.tables.holding("dead")
        if not tables:
            return Findings()
        letters = _Letters(case)
        found = chain.from_iterable(_TableOfDead(table, case, letters).found() for table in tables)
        return findings_of_tables(case, "dead", found)


class _Ends:
    """The failures and dead letters that an attempt reported, and how it ended."""

    def __init__(self, view: SubtaskView, attempt: AttemptTrace) -> None:
        self.dead: dict[Id, Dead] = {}
        """The last dead letter of each record."""
        self.failed: dict[Id, Failed] = {}
        self._failures: list[int] = []
        self._killed: int | None = None
        completed = view.checkpoints.completions
        self._snaps = [cut.snap for cut in attempt.cuts if (attempt.a, cut.snap.c) in completed]
        self._ended = attempt.ended is not None
        self._in_time = view.case.header.raised
        """Whether a dead letter or a failure counts only before the snapshot after which nobody calls again."""
        self._superseded = attempt.a < max(view.subtask.attempts)
        self._closed: int | None = None
        for event in attempt.events:
            match event:
                case Dead():
                    self.dead[event.id] = event
                case Failed():
                    self._failures.append(event.n)
                    if event.id is not UNSET:
                        self.failed[event.id] = event
                case Kill():
                    self._killed = event.n
                case Close():
                    self._closed = event.n
                case _:
                    pass
        rescale = view.case.rescalings.ended_by(view)
        if rescale is not None and attempt.a == max(view.subtask.attempts) and self._killed is None:
            self._killed = rescale.n

    def shows(self, res: Res) -> bool:
        """Whether the failure was reported, or the attempt was killed before it had to be."""
        dead = self.dead.get(res.id)
        snap = self._next_snap(res)
        until = snap if self._in_time and snap is not None else math.inf
        reports = self._failures if dead is None else [*self._failures, dead.n]
        if any(res.n < n < until for n in reports):
            return True
        if self._killed is not None and self._killed > res.n and (snap is None or self._killed < snap):
            return True
        if snap is not None or self._ended or self._closed is None or not self._snaps:
            return False
        # It is handed over if the attempt closed behind a completed snapshot that was taken after the failure.
        return res.n < self._snaps[-1].n < self._closed

    def is_over(self, res: Res) -> bool:
        """Whether it is too late to report the failure."""
        return self._ended or self._superseded or self._closed is not None or self._next_snap(res) is not None

    def _next_snap(self, res: Res) -> int | None:
        """The next completed snapshot that omits the record, so that a restart would not call it again."""
        for snap in self._snaps[bisect_right(self._snaps, res.n, key=lambda snap: snap.n) :]:
            if all(element.get("id") != res.id for element in snap.elements):
                return snap.n
        return None


def _against_policy(kind: str, res: Res, header: Header) -> Anomaly:
    raised = f"the error {shown(res.raised)}" if res.raised is not UNSET else "no error"
    error = f"the error {shown(res.error)}" if res.error is not UNSET else "no error"
    where = "the timeout handler" if res.r == "timeout" else "the call"
    outcome = f"{let(res.n)} is an outcome of record {shown(res.id)}"
    arose = f"As recorded where it arose, {where} ended with {raised}."
    if kind == "wrong-substitute":
        yielded = error if res.error is not UNSET else shown([] if res.v is UNSET else res.v)
        declared = f"`{header.operator.on_timeout}`, so an error"
        if header.substitute is not None:
            declared = shown(list(header.substitute))
        say = f"the timeout of {_named(res)} yields {yielded}, and the operator declares {declared}"
        then = [
            f"{outcome}, a timeout; it yields {yielded}.",
            f"For a timeout the operator declares {declared}.",
        ]
        rule = "a timeout yields what the operator declares for it"
        return convict("wrong-substitute", res.s, (res.n,), say, then, rule, id=res.id)
    if kind == "error-altered":
        say = f"{_named(res)} failed with {error}, but {where} ended with {raised}"
        then = [f"{outcome}, a failure with {error}.", arose]
        rule = "a dead letter has the error with which its call or its timeout handler ended"
        return convict("error-altered", res.s, (res.n,), say, then, rule, id=res.id)
    say = f"{_named(res)} gets a result, though {where} ended with {raised}"
    rule = "a call that ended with an error has no result"
    return convict("result-of-error", res.s, (res.n,), say, [f"{outcome}, a result.", arose], rule, id=res.id)


def _misrouted(res: Res, ends: _Ends, header: Header) -> Iterator[Anomaly]:
    """A failure that became what the policy for it does not say."""
    policy = policy_for(res, header)
    dead, failed = ends.dead.get(res.id), ends.failed.get(res.id)
    wrong = (
        failed if policy == "dead" and dead is None else dead if policy == "fail" and failed is None else None
    )
    if not header.raised or wrong is None or wrong.n < res.n:
        return
    became = "failed its task" if isinstance(wrong, Failed) else "went to the dead letters"
    say = f"{_named(res)} {became} (event {wrong.n}), and the operator declares `{policy}` for such a failure"
    then = [
        f"By {let(res.n)} record {shown(res.id)} failed for good in attempt {res.a}.",
        f"By {let(wrong.n)} it {became}.",
        f"The operator declares `{policy}` for it.",
    ]
    rule = "a failure becomes what the operator declares for it"
    yield convict("misrouted", res.s, (res.n, wrong.n), say, then, rule, id=res.id)


def _double_routed(ends: _Ends) -> Iterator[Anomaly]:
    for record, failed in ends.failed.items():
        if (dead := ends.dead.get(record)) is not None:
            say = (
                f"record {shown(record)} went to the dead letters (event {dead.n}), and failed attempt {failed.a}"
                f" of subtask {failed.s} as well (event {failed.n})"
            )
            events = tuple(sorted((dead.n, failed.n)))
            then = [
                f"{let(dead.n)} settled record {shown(record)} as a dead letter.",
                f"{let(failed.n)} failed the same attempt because of the same record.",
            ]
            rule = "a failed record either becomes a dead letter or fails its task, not both"
            yield convict("double-routed", failed.s, events, say, then, rule, id=record)


def _swallowed(view: SubtaskView, attempt: AttemptTrace, res: Res) -> Anomaly:
    how = "failed for good" if res.r == "fail" else "timed out with an error"
    say = (
        f"{_named(res)} {how}, but the attempt neither failed nor was killed in time, and the record did not go"
        " to the dead letters"
    )

    def then() -> Iterator[str]:
        yield f"By {let(res.n)} record {shown(res.id)} {how} in attempt {res.a}."
        yield f"After it, attempt {res.a} wrote no dead letter of the record."
        completers: list[Done | Commit] = [*view.case.trace.dones, *view.subtask.commits]
        snaps = (cut.snap for cut in attempt.cuts if cut.snap.n > res.n)
        ends = (e for e in attempt.events if isinstance(e, Kill | Close | Ended))
        later = (start for start in view.starts if start.a > res.a)
        done = (s for s in snaps if any(e.c == s.c and e.n > s.n for e in completers))
        if (snap := next(done, None)) is not None:
            yield (
                f"The attempt then took the snap of checkpoint {snap.c}, which was completed (event {snap.n})."
            )
        elif (end := next(chain(ends, later), None)) is not None:
            yield f"Attempt {res.a} went on without reporting a failure, up to {let(end.n)}."
        outs = (out for out in view.story(res.id, Out) if out.a == res.a and out.n > res.n)
        if (out := next(outs, None)) is not None:
            yield f"Instead a result left: {let(out.n)}."

    rule = "a failure fails its attempt or becomes a dead letter before a checkpoint completes without the record"
    return convict("swallowed", res.s, (res.n,), say, then, rule, id=res.id)


def _named(res: Res) -> str:
    return f"record {shown(res.id)} in attempt {res.a} of subtask {res.s}"


class _Letters:
    """The dead letters of each record: all, those in the chain, those in D*. Memory grows with dead letters."""

    def __init__(self, case: IndexedHistory) -> None:
        self.all: dict[Id, list[Dead]] = {}
        self.standing: dict[Id, list[Dead]] = {}
        """Those that stand in the chain."""
        self.shown: dict[Id, list[Dead]] = {}
        """D*; a dead letter whose epoch was committed twice is here twice."""
        self.behind: dict[int, Res] = {}
        """For a `dead`, by its number, the failure behind it; absent if there is none."""
        self.visible: dict[Id, Out] = {}
        """The first `out` of each record in O*."""
        for view in case.views:
            for attempt in view.subtask.attempts.values():
                self._file(view, attempt)
            for dead in _effective_dead(view):
                self.shown.setdefault(dead.id, []).append(dead)
            for _, out in outputs(view.output):
                self.visible.setdefault(out.id, out)

    def _file(self, view: SubtaskView, attempt: AttemptTrace) -> None:
        failures: dict[Id, Res] = {}
        for event in attempt.events:
            if isinstance(event, Res) and is_failure(event):
                failures[event.id] = event
            elif isinstance(event, Dead):
                self.all.setdefault(event.id, []).append(event)
                if view.chain.holds(event.a, event.n):
                    self.standing.setdefault(event.id, []).append(event)
                if event.id in failures:
                    self.behind[event.n] = failures[event.id]

    def errors(self, letters: Iterable[Dead]) -> list[object] | None:
        """The errors behind some dead letters; None if one of these has no failure or no error behind it."""
        found: list[object] = []
        for dead in letters:
            failure = self.behind.get(dead.n)
            if failure is None or failure.error is UNSET:
                return None
            found.append(failure.error)
        return found


def _effective_dead(view: SubtaskView) -> Iterator[Dead]:
    """D*: as `effective_output`, of dead letters in place of emissions."""
    subtask, checkpoints = view.subtask, view.checkpoints
    match view.case.header.sink:
        case "append":
            for attempt in subtask.attempts.values():
                yield from _dead_of(attempt)
        case "rollback":
            for attempt, _ in view.chain.links:
                yield from (dead for dead in _dead_of(attempt) if view.chain.holds(attempt.a, dead.n))
        case "atomic" | "two-phase":
            written = {a: list(_dead_of(attempt)) for a, attempt in subtask.attempts.items()}
            for commit in subtask.commits:
                if (cut := checkpoints.cut_committed(commit)) is not None:
                    attempt = subtask.attempts[cut.snap.a]
                    yield from _of_epoch(written[attempt.a], attempt, cut.snap.n)
        case sink:
            assert_never(sink)


def _of_epoch(letters: list[Dead], attempt: AttemptTrace, snap: int) -> list[Dead]:
    """The dead letters of an attempt between its snap `snap` and its snap before."""
    index = bisect_left(attempt.cuts, snap, key=lambda cut: cut.snap.n)
    until = bisect_left(letters, snap, key=lambda dead: dead.n)
    if not index:
        return letters[:until]
    return letters[bisect_left(letters, attempt.cuts[index - 1].snap.n, key=lambda dead: dead.n) : until]


def _dead_of(attempt: AttemptTrace) -> Iterator[Dead]:
    return (event for event in attempt.events if isinstance(event, Dead))


class _TableOfDead:
    """One table of dead letters."""

    def __init__(self, table: ReadTable, case: IndexedHistory, letters: _Letters) -> None:
        self._table = table
        self._case = case
        self._letters = letters
        self._by_key = table.by_key(by_output=False)

    def found(self) -> Iterator[OfTable]:
        """Everything that its rows and its missing rows show."""
        if self._table.whole:
            yield from self._missing()
        for (record, _), rows in self._by_key.items():
            yield from self._doubled(record, rows)
            yield from self._foreign(record, rows)
            yield from self._altered(record, rows)

    def _missing(self) -> Iterator[OfTable]:
        for record, standing in self._letters.standing.items():
            rows = self._by_key.get((record, None), [])
            if self._table.lacks(rows, len(standing)):
                failures = [self._letters.behind.get(dead.n) for dead in standing]
                errors = [res.error for res in failures if res is not None and res.error is not UNSET]
                wanted = f"with the error {listed(errors)}" if errors else "one for each dead letter"
                say = f"{self._table.holds(rows, (record, None))}, but {len(standing)} should stand there, {wanted}"
                yield self._told("row-missing", record, say, rows=rows, letters=standing, may_change=True)

    def _doubled(self, record: Id, rows: list[Row]) -> Iterator[OfTable]:
        letters = self._letters.shown.get(record, [])
        if self._table.exceeds(rows, len(letters)):
            once = "one key" if self._table.keyed else f"{len(letters)} dead letters in D*"
            say = f"{self._table.holds(rows, (record, None))}, for {once}"
            yield self._told("row-doubled", record, say, rows=rows, letters=letters)

    def _foreign(self, record: Id, rows: list[Row]) -> Iterator[OfTable]:
        letters = self._letters.shown.get(record, [])
        visible = self._letters.visible.get(record)
        if letters and visible is None:
            return
        why = "an output of it is visible" if visible is not None else "no dead letter of it is in D*"
        say = f"{self._table.holds(rows, (record, None))}, but {why}"
        others = () if visible is None else (visible,)
        yield self._told("row-foreign", record, say, rows=rows, letters=letters, others=others)

    def _altered(self, record: Id, rows: list[Row]) -> Iterator[OfTable]:
        letters = self._letters.shown.get(record, [])
        if not letters:
            return
        if self._table.table.keep == "first" or not self._case.finished:
            letters = self._letters.all[record]
        errors = self._letters.errors(letters)
        if errors is None:
            return
        altered = [row for row in rows if row.error is not UNSET and not among(row.error, errors)]
        if altered:
            say = (
                f"{self._table.holds(rows, (record, None))} with the error {shown(altered[0].error)}, but it failed"
                f" with {listed(errors)}"
            )
            failures = [self._letters.behind[dead.n] for dead in letters]
            yield self._told(
                "row-altered", record, say, rows=altered, letters=letters, others=failures, may_change=False
            )

    def _told(
        self,
        kind: str,
        record: Id,
        say: str,
        *,
        rows: Iterable[Row],
        letters: Iterable[Dead] = (),
        others: Iterable[Out | Res] = (),
        may_change: bool | None = None,
    ) -> OfTable:
        """By default the run's end may change what has a dead letter in some attempt, and no visible output."""
        s = self._case.subtask_of(record)
        key, cited = (record, None), [*letters, *others]
        anomaly = self._table.anomaly(
            kind, key, s=s, say=say, rows=list(rows), cited=cited, taken_by=self._case.taken
        )
        undecided = record in self._letters.all and record not in self._letters.visible
        return OfTable(anomaly, undecided if may_change is None else may_change)
