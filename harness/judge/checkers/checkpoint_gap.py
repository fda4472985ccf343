"""V18 checkpoint gap: checkpoints keep completing, however full the queue and however slow the database.

Answers to FLINK-39835, where a full queue delayed checkpoints. Invariant: between the first `start`, each
completion and the last `end`, no two neighbouring events are further apart than the bound `checkpoint_gap`;
with sink `atomic` this is judged for each subtask. O(n log n); memory grows with completions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from harness.history.event import Commit, Done, End, Event, Rescale
from harness.history.verdict import Anomaly, let
from harness.judge.checkers.history_trace import SubtaskTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.invariant import Findings, Invariant, convict

_US_PER_MS = 1000


class CheckpointGap(Invariant):
    """Checks V18, with sink `atomic` for each subtask, else for the whole job."""

    name = "V18"
    vacuous = "nothing ever started, so no checkpoint was due"

    def not_claimed(self, case: IndexedHistory) -> str:
        return "the header gives no `checkpoint_gap`" if case.header.bounds.checkpoint_gap is None else ""

    def examine(self, view: SubtaskView) -> Findings:
        """With sink `atomic`: each period longer than the bound in which this subtask completed no checkpoint."""
        if view.case.header.sink != "atomic":
            return Findings()
        completers = set(view.checkpoints.completions.values())
        completions = [commit for commit in view.subtask.commits if commit.n in completers]
        last = view.subtask.last
        ended = last is not None and last.ended is not None
        rescale = view.case.rescalings.ended_by(view)
        return _judged(view.case, [view.subtask], completions, s=view.s, ended=ended, rescale=rescale)

    def across(self, case: IndexedHistory) -> Findings:
        """With other sinks: each period longer than the bound in which the coordinator completed none."""
        if case.header.sink == "atomic":
            return Findings()
        subtasks = [view.subtask for view in case.views]
        return _judged(case, subtasks, list(_completions(case)), s=None, ended=case.finished)


def _completions(case: IndexedHistory) -> Iterator[Done]:
    """Each `done`, except repetitions of an earlier one that complete no further snapshot."""
    fresh = {n for view in case.views for n in view.checkpoints.completions.values()}
    known: set[int] = set()
    for done in case.trace.dones:
        if done.c not in known or done.n in fresh:
            known.add(done.c)
            yield done


class _Point(NamedTuple):
    """The begin or end of a period without a completion."""

    event: Event
    named: str
    c: int | None = None


def _judged(
    case: IndexedHistory,
    subtasks: Sequence[SubtaskTrace],
    completions: Sequence[Commit | Done],
    *,
    s: int | None,
    ended: bool,
    rescale: Rescale | None = None,
) -> Findings:
    attempts = [attempt for subtask in subtasks for attempt in subtask.attempts.values()]
    starts = [attempt.start for attempt in attempts if attempt.start is not None]
    ends = [event for attempt in attempts for event in attempt.events if isinstance(event, End)]
    points = [_Point(event, f"the completion of checkpoint {event.c}", event.c) for event in completions]
    if starts:
        points.insert(0, _Point(min(starts, key=attrgetter("n")), "the first start"))
    if rescale is not None:
        points.append(_Point(rescale, "the rescale that ended the subtask"))
    elif ended and ends:
        points.append(_Point(max(ends, key=attrgetter("n")), "the last end of the source"))
    elif case.trace.last is not None:
        points.append(_Point(case.trace.last, "the last event of the history"))
    anomalies = tuple(_too_far_apart(points, case.header.bounds.checkpoint_gap or 0, s))
    return Findings(
        anomalies=anomalies, observed=len(completions), exposed=bool(starts) or len(completions) > 1
    )


def _too_far_apart(points: Sequence[_Point], bound_ms: int, s: int | None) -> Iterator[Anomaly]:
    whose = "" if s is None else f" of subtask {s}"
    for before, after in pairwise(points):
        gap_us = after.event.t - before.event.t
        if gap_us > bound_ms * _US_PER_MS:
            say = (
                f"no checkpoint{whose} was completed in the {gap_us / _US_PER_MS:.3f} ms between {before.named} and"
                f" {after.named}; at most {bound_ms} ms are allowed"
            )
            events = (before.event.n, after.event.n)
            passed = f"From {let(events[0])} to {let(events[1])} passed {gap_us / _US_PER_MS:.3f} ms."
            then = (passed, f"In between no checkpoint{whose} was newly completed.")
            rule = f"a checkpoint is completed at least every {bound_ms} ms"
            yield convict("checkpoint-gap", s, events, say, then, rule, c=after.c)
