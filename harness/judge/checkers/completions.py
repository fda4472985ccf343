"""V10, the part on the coordinator: a checkpoint is completed by every running subtask, and has one end.

Answers to Flink's `CheckpointCoordinator` and `PendingCheckpoint`. Invariant: a `done` means a snap of every running
subtask, acknowledged by its newest attempt if the history has any `ack`; a number is completed or aborted, and both
only if it is used again for new snaps. O(n log n) in the coordinator's events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from harness.history.event import Abort, Ack, Done
from harness.history.verdict import Anomaly
from harness.judge.checkers.case import Case, SubtaskView
from harness.judge.checkers.history_trace import AttemptTrace


class _Completion(NamedTuple):
    """A `done`, and the attempt of a subtask that runs at it."""

    done: Done
    running: AttemptTrace


def incomplete(view: SubtaskView) -> Iterator[Anomaly]:
    """Each `done` of which this subtask, though running, has no snap, or no acknowledgement by its newest attempt."""
    acks = _acks_of(view)
    for done, running in _completions(view):
        if view.checkpoints.cut_before(done.c, done.n) is None:
            lacks = "has no snap of it"
        elif not view.case.trace.acks or _acknowledgement(view, running.a, done, acks) is not None:
            continue
        elif (older := _acknowledged_before(view, running, done, acks)) is not None:
            yield _stale(older, running, done)
            continue
        else:
            lacks = "has not acknowledged it since its snap"
        say = f"checkpoint {done.c} is completed, but subtask {view.s}, whose attempt {running.a} is running, {lacks}"
        yield Anomaly(kind="incomplete", s=view.s, c=done.c, events=(done.n,), say=say)


def _completions(view: SubtaskView) -> Iterator[_Completion]:
    """Each `done` at which this subtask has started, and neither ended nor been ended by a rescale."""
    starts = sorted(
        ((attempt.start.n, attempt) for attempt in view.subtask.attempts.values() if attempt.start),
        key=lambda pair: pair[0],
    )
    rescale = view.case.rescalings.ended.get(view.s)
    running: AttemptTrace | None = None
    for done in view.case.trace.dones:
        while starts and starts[0][0] < done.n:
            running = starts.pop(0)[1]
        if rescale is not None and rescale.n < done.n:
            return
        if running is not None and (running.ended is None or running.ended > done.n):
            yield _Completion(done, running)


_Acks = Mapping[tuple[int, int], Sequence[Ack]]
"""The acknowledgements of one subtask, by attempt and checkpoint."""


def _acks_of(view: SubtaskView) -> _Acks:
    found: dict[tuple[int, int], list[Ack]] = {}
    for ack in view.case.trace.acks:
        if ack.s == view.s:
            found.setdefault((ack.a, ack.c), []).append(ack)
    return found


def _acknowledgement(view: SubtaskView, a: int, done: Done, acks: _Acks) -> Ack | None:
    """The acknowledgement by attempt `a` of its snap, before `done`."""
    cut = view.checkpoints.cut_before(done.c, done.n, attempt=a)
    if cut is None:
        return None
    return next((ack for ack in acks.get((a, done.c), ()) if cut.snap.n < ack.n < done.n), None)


def _acknowledged_before(view: SubtaskView, running: AttemptTrace, done: Done, acks: _Acks) -> Ack | None:
    """The acknowledgement by the newest earlier attempt that has one."""
    earlier = sorted((a for a in view.subtask.attempts if a < running.a), reverse=True)
    found = (_acknowledgement(view, a, done, acks) for a in earlier)
    return next((ack for ack in found if ack is not None), None)


def _stale(ack: Ack, running: AttemptTrace, done: Done) -> Anomaly:
    assert running.start is not None  # it runs
    say = (
        f"checkpoint {done.c} is completed with the acknowledgement of attempt {ack.a} of subtask {ack.s} (event"
        f" {ack.n}), though attempt {running.a} had started (event {running.start.n}) and has not acknowledged it"
    )
    events = tuple(sorted((ack.n, running.start.n, done.n)))
    return Anomaly(kind="stale-ack", s=ack.s, c=done.c, events=events, say=say)


def two_ends(case: Case) -> Iterator[Anomaly]:
    """Each `done` after an `abort` of its number and each `abort` after a `done`, unless the number is used again."""
    if not case.trace.aborts:
        return
    running = {view.s: {done.n for done, _ in _completions(view)} for view in case.views}
    done_of: dict[int, Done] = {}
    abort_of: dict[int, Abort] = {}
    ends: list[Done | Abort] = sorted((*case.trace.dones, *case.trace.aborts), key=lambda end: end.n)
    for end in ends:
        if isinstance(end, Done):
            abort = abort_of.get(end.c)
            views = [view for view in case.views if end.n in running[view.s]]
            if abort is not None and not _means_snaps_since(views, end, abort):
                say = f"checkpoint {end.c} is completed after it was aborted (event {abort.n}), without new snaps"
                yield Anomaly(kind="two-ends", c=end.c, events=(abort.n, end.n), say=say)
            done_of[end.c] = end
        else:
            done = done_of.get(end.c)
            if done is not None and not _snapped_since(case, end, done):
                say = f"checkpoint {end.c} is aborted after it was completed (event {done.n}), without a new snap"
                yield Anomaly(kind="two-ends", c=end.c, events=(done.n, end.n), say=say)
            abort_of[end.c] = end


def _means_snaps_since(running: Sequence[SubtaskView], done: Done, abort: Abort) -> bool:
    """Whether it completes a snap of every running subtask, of at least one, all taken after the abort."""
    cuts = [view.checkpoints.cut_before(done.c, done.n) for view in running]
    return bool(cuts) and all(cut is not None and cut.snap.n > abort.n for cut in cuts)


def _snapped_since(case: Case, abort: Abort, done: Done) -> bool:
    attempts = (attempt for view in case.views for attempt in view.subtask.attempts.values())
    return any(
        cut.snap.c == done.c and done.n < cut.snap.n < abort.n for attempt in attempts for cut in attempt.cuts
    )
