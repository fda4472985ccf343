"""V13 fencing: after a newer attempt of a subtask has written or committed, no older attempt does.

Answers to fencing tokens (KAFKA-12693). Invariant: per subtask, the tokens of effects never fall in the
database's commit order, and the attempts that commits name never fall in history order. O(n log n) for sorting;
memory grows with effects.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from harness.history.event import Commit, Effect
from harness.history.values import shown
from harness.history.verdict import Anomaly, let
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
