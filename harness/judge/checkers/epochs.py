"""V12 epochs: each epoch is committed once, in order, not before its checkpoint completes, and none is left out.

Answers to Flink's `TwoPhaseCommittingSink`; convicts prepared transactions that are never committed. Invariant:
the commits of a subtask, in history order, agree with its snapshots, the coordinator's completions and the
chain of restored attempts. O(n log n); memory grows with commits and snapshots.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

from msgspec import UNSET

from harness.history.event import Commit, Snap
from harness.history.verdict import Anomaly, let, run_finished
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict

_ENDS_NAMED = 3


class Epochs(Invariant):
    """Checks V12 for each subtask of a job with a transactional sink."""

    name = "V12"
    vacuous = "there is neither a commit nor a completed snap"

    def not_claimed(self, case: IndexedHistory) -> str:
        sink = case.header.sink
        return "" if sink in {"atomic", "two-phase"} else f"the sink ({sink}) does not commit by epochs"

    def examine(self, view: SubtaskView) -> Findings:
        """Each commit that is wrong, and each epoch without the commit that it needs."""
        commits = view.subtask.commits
        anomalies = [*_doubled(commits), *_out_of_order(commits), *_unknown(view)]
        if view.case.header.sink == "two-phase":
            anomalies += _early(view)
        if view.case.finished:
            anomalies += _never(view)
        exposed = bool(commits or view.checkpoints.completions)
        return Findings(anomalies=tuple(anomalies), observed=len(commits), exposed=exposed)


def _doubled(commits: list[Commit]) -> Iterator[Anomaly]:
    first: dict[int, Commit] = {}
    for commit in commits:
        if (before := first.setdefault(commit.c, commit)) is not commit:
            say = f"{_named(commit)} is committed again; event {before.n} had committed it"
            then = (
                f"{let(before.n)} made {_named(commit)} visible.",
                f"{let(commit.n)} did so again.",
            )
            yield _anomaly(
                "committed-twice", commit, say, before.n, then=then, rule="an epoch becomes visible once"
            )


def _out_of_order(commits: list[Commit]) -> Iterator[Anomaly]:
    highest: Commit | None = None
    for commit in commits:
        if highest is not None and commit.c < highest.c:
            say = f"{_named(commit)} is committed after epoch {highest.c}"
            then = (
                f"{let(highest.n)} comes before {let(commit.n)}.",
                f"But epoch {commit.c} is lower than epoch {highest.c}.",
            )
            rule = "the epochs of a subtask are committed in the order of their numbers"
            yield _anomaly("commit-order", commit, say, highest.n, then=then, rule=rule)
        else:
            highest = commit


def _unknown(view: SubtaskView) -> Iterator[Anomaly]:
    for commit in view.subtask.commits:
        if view.checkpoints.cut_committed(commit) is None:
            named = "" if commit.a is UNSET else f" by attempt {commit.a}, which the commit names"
            say = f"{_named(commit)} is committed, but no snap of it{named} precedes the commit"
            then = (_snap_of(view, commit),)
            rule = "a commit makes an epoch visible that an earlier snap has closed"
            yield _anomaly("unknown-epoch", commit, say, then=then, rule=rule)


def _snap_of(view: SubtaskView, commit: Commit) -> str:
    """Who took a snap of the checkpoint whose epoch is committed, if not in time."""
    who = f"Subtask {view.s}"
    if commit.a is not UNSET:
        who = f"Attempt {commit.a}, which {let(commit.n)} names,"
    what = f"a snap of checkpoint {commit.c}"
    snaps = view.checkpoints.snaps(commit.c)
    if named := [snap for snap in snaps if commit.a in {UNSET, snap.a}]:
        return f"{who} took {what} only at event {named[0].n}, later."
    return f"{who} never took {what}" + (f"; attempt {snaps[0].a} did." if snaps else ".")


def _early(view: SubtaskView) -> Iterator[Anomaly]:
    first_done: dict[int, int] = {}
    for done in view.case.trace.dones:
        first_done.setdefault(done.c, done.n)
    allowed = {a: _Allowed(attempt, first_done) for a, attempt in view.subtask.attempts.items()}
    for commit in view.subtask.commits:
        cut = view.checkpoints.cut_committed(commit)
        if cut is not None and allowed[cut.snap.a].since(commit.c) > commit.n:
            say = (
                f"{_named(commit)}, written by attempt {cut.snap.a}, is committed before checkpoint {commit.c} or a"
                f" later one of that attempt is completed"
            )
            snap, completed = cut.snap, first_done.get(commit.c)
            made = f"{let(commit.n)} makes visible what attempt {snap.a} emitted before {let(snap.n)}."
            later = "was never completed"
            if completed is not None:
                later = f"was completed only later, at event {completed}"
            by_then = completed is not None and completed <= commit.n
            then = (
                made,
                *(() if by_then else (f"Checkpoint {snap.c} {later}.",)),
                f"No later checkpoint of attempt {snap.a} was completed before the commit either.",
            )
            rule = "a two-phase sink commits an epoch after its checkpoint, or a later one, is completed"
            yield _anomaly("early-commit", commit, say, snap.n, then=then, rule=rule)


class _Allowed:
    """From which event on the epochs of an attempt may be committed; a later checkpoint of it allows them too."""

    def __init__(self, attempt: AttemptTrace, first_done: Mapping[int, int]) -> None:
        cuts = sorted(attempt.cuts, key=lambda cut: cut.snap.c)
        self._numbers = [cut.snap.c for cut in cuts]
        since = [max(first_done.get(cut.snap.c, math.inf), cut.snap.n) for cut in cuts]
        self._since = [*accumulate(reversed(since), min)][::-1]

    def since(self, c: int) -> float:
        """The event before which epoch `c` must not be committed; infinity: never allowed."""
        return self._since[bisect_left(self._numbers, c)]


def _never(view: SubtaskView) -> Iterator[Anomaly]:
    committed = {
        cut.snap.n for commit in view.subtask.commits if (cut := view.checkpoints.cut_committed(commit))
    }
    for attempt, _ in view.chain.links:
        for cut in attempt.cuts:
            snap = cut.snap
            if cut.emitted > cut.since and view.chain.holds_snap(snap.a, snap.n) and snap.n not in committed:
                emitted = attempt.emissions[cut.since].n
                say = (
                    f"epoch {snap.c} of subtask {view.s}, written by attempt {snap.a}, was never committed; it holds"
                    f" the emissions from event {emitted} on"
                )
                yield _never_committed(view, snap, emitted, say)


def _never_committed(view: SubtaskView, snap: Snap, emitted: int, say: str) -> Anomaly:
    def then() -> Iterator[str]:
        yield f"{let(emitted)} belongs to the epoch that {let(snap.n)} closes."
        yield f"{let(snap.n)} is in the chain of attempts that led to the final state."
        commit = next((commit.n for commit in view.subtask.commits if commit.c == snap.c), None)
        if commit is None:
            yield f"No event commits epoch {snap.c} of subtask {view.s}."
        else:
            how = "came before the snap" if commit < snap.n else "belongs to the snap of another attempt"
            yield f"A commit of that number (event {commit}) {how}."
        yield run_finished(_ENDS_NAMED)

    rule = "after a normal finish every epoch with emissions is committed"
    events = (emitted, snap.n)
    return convict("never-committed", view.s, events, say, then, rule, c=snap.c)


def _named(commit: Commit) -> str:
    return f"epoch {commit.c} of subtask {commit.s}"


def _anomaly(
    kind: str, commit: Commit, say: str, *witnesses: int, then: tuple[str, ...], rule: str
) -> Anomaly:
    events = (*witnesses, commit.n)
    return convict(kind, commit.s, events, say, then, rule, c=commit.c)
