"""V11 restore equivalence: an attempt restores the elements and the position of a completed snapshot.

Answers to Flink's restore of operator state. Invariant: an attempt restores exactly what an earlier attempt of
its subtask stored, in a checkpoint that was completed and not retired; or its subtask's share of a rescale, which
`redistribution` judges. O(n).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.event import In, Snap, Start, Wm
from harness.history.values import listed
from harness.history.verdict import Anomaly
from harness.judge.checkers.attempt_state import equal_replays
from harness.judge.checkers.case import Case, SubtaskView
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.inputs import elements_of
from harness.judge.checkers.invariant import Findings, Invariant
from harness.judge.checkers.redistribution import judge_redistribution


class RestoreEquivalence(Invariant):
    """Checks V11 for each attempt that starts from a checkpoint."""

    name = "V11"
    vacuous = "no attempt starts from a checkpoint"

    def not_claimed(self, case: Case) -> str:
        restarts = any(True for view in case.views for _ in _restarts(view))
        return "" if restarts or case.rescalings else self.vacuous

    def examine(self, view: SubtaskView) -> Findings:
        """Each attempt that starts from a checkpoint that it must not use, or restores something else."""
        restarts = list(_restarts(view))
        anomalies = tuple(
            anomaly
            for attempt, start, c in restarts
            if view.case.rescalings.inherits(view, attempt) is None
            for anomaly in _Restart(view, attempt, start, c).anomalies()
        )
        return Findings(anomalies=anomalies, observed=len(restarts), exposed=bool(restarts))

    def across(self, case: Case) -> Findings:
        """Whether the subtasks that a rescale begins get together what those that it ends had stored."""
        return judge_redistribution(case)


def _restarts(view: SubtaskView) -> Iterator[tuple[AttemptTrace, Start, int]]:
    for attempt in view.subtask.attempts.values():
        start = attempt.start
        if start is not None and start.from_ is not None:
            yield attempt, start, start.from_


class _Restart:
    """One attempt that starts from checkpoint `c`."""

    def __init__(self, view: SubtaskView, attempt: AttemptTrace, start: Start, c: int) -> None:
        self._view = view
        self._attempt = attempt
        self._start = start
        self._c = c
        self._named = f"attempt {attempt.a} of subtask {view.s} starts from checkpoint {c}"

    def anomalies(self) -> Iterator[Anomaly]:
        checkpoints, c, n = self._view.checkpoints, self._c, self._start.n
        cut = checkpoints.cut_restored(self._attempt)
        if cut is None:
            yield self._anomaly("bad-restore", "of which no earlier attempt of that subtask has a snap")
        elif not checkpoints.completed_by(c, n):
            yield self._anomaly("bad-restore", "which was not completed", cut.snap.n)
        elif (retired := checkpoints.retired_by(c, n)) is not None:
            yield self._anomaly("bad-restore", "which was retired", retired)
        if cut is not None:
            yield from self._elements(cut.snap)
            yield from self._position(cut.snap)

    def _elements(self, snap: Snap) -> Iterator[Anomaly]:
        restore = self._attempt.restore
        if restore is None:
            return
        stored, replayed = list(elements_of(snap.elements)), list(elements_of(restore.elements))
        ordered = self._view.case.header.operator.mode == "ordered"
        if not equal_replays(stored, replayed, ordered=ordered):
            # The message names the elements that differ; if the sets are equal, it is the order.
            lacks = [tuple(e)[-1] for e in stored if e not in set(replayed)]
            adds = [tuple(e)[-1] for e in replayed if e not in set(stored)]
            differs = [f"without {listed(lacks)}"] * bool(lacks) + [
                f"with {listed(adds)} in addition"
            ] * bool(adds)
            say = f"and replays what was stored {' and '.join(differs) or 'in another order'}"
            yield self._anomaly("restore-differs", say, snap.n, restore.n)

    def _position(self, snap: Snap) -> Iterator[Anomaly]:
        first = next((e for e in self._attempt.events if isinstance(e, In | Wm)), None)
        if self._start.pos != snap.pos:
            say = f"with its source at position {self._start.pos}, but the snap stands at {snap.pos}"
            yield self._anomaly("wrong-position", say, snap.n)
        elif first is not None and first.pos != snap.pos:
            say = f"and reads position {first.pos} first, but the snap stands at {snap.pos}"
            yield self._anomaly("wrong-position", say, snap.n, first.n)

    def _anomaly(self, kind: str, say: str, *witnesses: int) -> Anomaly:
        return Anomaly(
            kind=kind,
            s=self._view.s,
            c=self._c,
            events=tuple(sorted({self._start.n, *witnesses})),
            say=f"{self._named}, {say}",
        )
