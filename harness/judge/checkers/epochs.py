"""The commits of a sink: V12 epochs and V13 fencing.

V12 epochs: each epoch is committed once, in order, not before its checkpoint completes, and none is left out.

Answers to Flink's `TwoPhaseCommittingSink`; convicts prepared transactions that are never committed. Invariant:
the commits of a subtask, in history order, agree with its snapshots, the coordinator's completions and the
chain of restored attempts. O(n log n); memory grows with commits and snapshots.

V13 fencing: after a newer attempt of a subtask has written or committed, no older attempt does.

Answers to fencing tokens (KAFKA-12693). Invariant: per subtask, the tokens of effects never fall in the
database's commit order, and the attempts that commits name never fall in history order. O(n log n) for sorting;
memory grows with effects.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

from msgspec import UNSET

from harness.history.event import Commit, Effect, Snap
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, run_finished
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict


class Fencing(Invariant):
    """Checks V13 on commits and effects."""

    name = "V13"
    vacuous = "no subtask has two attempts or was rescaled, so none could be superseded"

    def not_claimed(self, case: IndexedHistory) -> str:
        """It applies with `fenced`, and an effect, a table of `audit`, or a commit that names its attempt."""
        if not case.header.fenced:
            return "the header says that attempts are not fenced"
        commits = any(commit.a is not UNSET for view in case.views for commit in view.subtask.commits)
        applies = commits or case.trace.effects or case.tables.audit is not None
        return "" if applies else "there is neither an effect nor a commit that names its attempt"

    def examine(self, view: SubtaskView) -> Findings:
        """Each commit of a superseded attempt."""
        anomalies = tuple(_zombie_commits(view))
        attempts = len(view.subtask.attempts)
        return Findings(anomalies=anomalies, observed=len(view.subtask.commits), exposed=attempts > 1)

    def across(self, case: IndexedHistory) -> Findings:
        """Each effect of a superseded attempt; undecided if the audit was not read whole."""
        effects = sorted(case.trace.effects, key=lambda effect: effect.seq)
        return Findings(
            anomalies=(*_zombie_effects(case, effects), *_of_ended_subtasks(case, effects)),
            unread=tuple(case.tables.unread("audit")),
            observed=len(effects),
            exposed=bool(case.rescalings),
        )


def _of_ended_subtasks(case: IndexedHistory, effects: list[Effect]) -> Iterator[Anomaly]:
    """Each effect and commit of a subtask that a rescale ended, after one of a subtask that the rescale began."""
    ended, begun = case.rescalings.ended, case.rescalings.begun
    if not ended:
        return
    first: dict[int, Effect] = {}
    """By `n` of a rescale, the first effect of a subtask that it began."""
    for effect in effects:
        if (rescale := ended.get(effect.s)) is not None and rescale.n in first:
            after = first[rescale.n]
            say = (
                f"subtask {effect.s}, which the rescale of event {rescale.n} had ended, wrote record"
                f" {shown(effect.id)} (seq {effect.seq}) after subtask {after.s}, which it began, had written record"
                f" {shown(after.id)} (seq {after.seq})"
            )
            yield _zombie_effect(case, after, effect, say, rescale.n)
        if effect.s in begun:
            first.setdefault(begun[effect.s].n, effect)
    committed: dict[int, Commit] = {}
    commits = (commit for view in case.views for commit in view.subtask.commits if commit.a is not UNSET)
    for commit in sorted(commits, key=lambda commit: commit.n):
        if (rescale := ended.get(commit.s)) is not None and rescale.n in committed:
            by = committed[rescale.n]
            say = (
                f"epoch {commit.c} of subtask {commit.s}, which the rescale of event {rescale.n} had ended, is"
                f" committed after subtask {by.s}, which it began, has committed"
            )
            yield _zombie_commit(case, by, commit, say, rescale.n)
        if commit.s in begun:
            committed.setdefault(begun[commit.s].n, commit)


def _zombie_commits(view: SubtaskView) -> Iterator[Anomaly]:
    highest: Commit | None = None
    for commit in view.subtask.commits:
        if commit.a is UNSET:
            continue
        if highest is not None and highest.a is not UNSET and commit.a < highest.a:
            say = (
                f"attempt {commit.a} commits epoch {commit.c} of subtask {commit.s}"
                f" after attempt {highest.a} has committed"
            )
            yield _zombie_commit(view.case, highest, commit, say)
        else:
            highest = commit


def _zombie_effects(case: IndexedHistory, effects: list[Effect]) -> Iterator[Anomaly]:
    """Zombie writes among effects sorted by `seq`."""
    highest: dict[int, Effect] = {}
    for effect in effects:
        before = highest.setdefault(effect.s, effect)
        if effect.token < before.token:
            say = (
                f"attempt {effect.token} wrote record {shown(effect.id)} (seq {effect.seq}) after attempt"
                f" {before.token} had written record {shown(before.id)} (seq {before.seq})"
            )
            yield _zombie_effect(case, before, effect, say)
        else:
            highest[effect.s] = effect


def _zombie_effect(case: IndexedHistory, before: Effect, effect: Effect, say: str, *cited: int) -> Anomaly:
    older, newer = sorted((before, effect), key=lambda one: one.token)

    def then() -> Iterator[str]:
        yield from _superseded(case, effect.s, newer.token)
        order = f"the database committed number {newer.seq} before {older.seq}"
        yield f"{let(newer.n)} precedes {let(older.n)}: {order}."

    rule = f"attempt {older.token} may write no row after attempt {newer.token} has written one"
    return convict("zombie-effect", effect.s, (*cited, before.n, effect.n), say, then, rule, id=effect.id)


def _zombie_commit(case: IndexedHistory, before: Commit, commit: Commit, say: str, *cited: int) -> Anomaly:
    older, newer = sorted((before, commit), key=lambda one: one.a or 0)

    def then() -> Iterator[str]:
        yield from _superseded(case, commit.s, newer.a or 0)
        yield f"{let(newer.n)} comes before {let(older.n)}."

    rule = f"attempt {older.a} may commit nothing after attempt {newer.a} has committed"
    return convict("zombie-commit", commit.s, (*cited, before.n, commit.n), say, then, rule, c=commit.c)


def _superseded(case: IndexedHistory, s: int, newer: int) -> Iterator[str]:
    starts = (start for view in case.views_of(s) for start in view.starts if start.a == newer)
    for start in starts:
        origin = "from the beginning" if start.from_ is None else f"from checkpoint {start.from_}"
        yield f"Attempt {newer} superseded the earlier ones at {let(start.n)}, {origin}."


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
