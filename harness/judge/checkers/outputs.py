"""The outputs of a subtask: what a reader of the sink sees in the end, and what each record must yield.

Implements "Which snap", "Completed", "Chain", "Epoch", "Effective output", "Outcome" and "Expected outputs" of
`docs/reference/history.md`. A completion, commit or restore refers to the snap that the attempt it names took before
it; if it names none, to that of the highest attempt; if there is no such snap, it has no effect. An emission appears
in the effective output as often as its epoch is committed. `None` as a list of outputs means unknown, not empty: then
only the output numbers `j` can be judged. Memory grows with attempts, snaps and records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, assert_never

from msgspec import UNSET, UnsetType

from harness.history.event import Commit, Dead, Done, Emission, Out, Res, Retire, Snap
from harness.history.header import Sink
from harness.history.verdict import let
from harness.judge.checkers.history_trace import AttemptTrace, Settled, SnapshotCut, SubtaskTrace


class Checkpoints:
    """The snaps of one subtask, and which of them were completed, committed or restored."""

    def __init__(
        self, subtask: SubtaskTrace, *, sink: Sink, dones: Sequence[Done], retires: Sequence[Retire]
    ) -> None:
        self._subtask = subtask
        self._cuts: dict[int, list[SnapshotCut]] = {}
        for attempt in sorted(subtask.attempts.values(), key=lambda attempt: -attempt.a):
            for cut in attempt.cuts:
                self._cuts.setdefault(cut.snap.c, []).append(cut)
        self._retires = retires
        self.completions: dict[tuple[int, int], int] = {}
        """(attempt, checkpoint) -> `n` of the event by which that snap was first completed."""
        self._completed: dict[int, int] = {}
        completers: Sequence[Done | Commit] = subtask.commits if sink == "atomic" else dones
        for event in completers:
            self._complete(event, alone=sink != "atomic")

    def cut_before(
        self, c: int, n: int, *, attempt: int | None = None, below: int | None = None
    ) -> SnapshotCut | None:
        """The snap of checkpoint `c` before event `n`: by `attempt`, else by the highest attempt (below `below`)."""
        for cut in self._cuts.get(c, ()):
            named = attempt is None or cut.snap.a == attempt
            if named and cut.snap.n < n and (below is None or cut.snap.a < below):
                return cut
        return None

    def snaps(self, c: int) -> list[Snap]:
        """The snaps of checkpoint `c`, in order."""
        return sorted((cut.snap for cut in self._cuts.get(c, ())), key=lambda snap: snap.n)

    def cut_committed(self, commit: Commit) -> SnapshotCut | None:
        """The snap whose epoch a commit makes visible."""
        named = None if commit.a is UNSET else commit.a
        return self.cut_before(commit.c, commit.n, attempt=named)

    def cut_restored(self, attempt: AttemptTrace) -> SnapshotCut | None:
        """The snap that an attempt starts from; None if it starts empty, or no such snap exists."""
        if attempt.start is None or attempt.start.from_ is None:
            return None
        return self.cut_before(attempt.start.from_, attempt.start.n, below=attempt.a)

    def completed_by(self, c: int, n: int) -> bool:
        """Whether checkpoint `c` was completed before event `n`."""
        return self._completed.get(c, n) < n

    def retired_by(self, c: int, n: int) -> int | None:
        """Number of the first `retire` before event `n` that forbids restoring checkpoint `c`."""
        return next((retire.n for retire in self._retires if retire.c >= c and retire.n < n), None)

    def restorable(self, c: int, n: int) -> bool:
        """Whether checkpoint `c` was completed, and not retired, before event `n`."""
        return self.completed_by(c, n) and self.retired_by(c, n) is None

    @property
    def distinct(self) -> Iterator[int]:
        """The numbers of the completed checkpoints."""
        return iter(self._completed)

    def _complete(self, event: Done | Commit, *, alone: bool) -> None:
        """With `alone` the checkpoint completes even if this subtask has no snap of it; a commit needs its snap."""
        cut = self.cut_committed(event) if isinstance(event, Commit) else self.cut_before(event.c, event.n)
        if cut is not None:
            self.completions.setdefault((cut.snap.a, event.c), event.n)
        if alone or cut is not None:
            self._completed.setdefault(event.c, event.n)


class Chain:
    """The last attempt, and the attempts before it, linked by the snaps that were restored."""

    def __init__(
        self, subtask: SubtaskTrace, checkpoints: Checkpoints, *, until: SnapshotCut | None = None
    ) -> None:
        """`until`: the snap at which a rescale ended the subtask; None: its last attempt stands as a whole."""
        self.links: list[tuple[AttemptTrace, SnapshotCut | None]] = []
        """From the earliest to the last attempt, each with the snap that was restored; None for the last."""
        attempt, cut = subtask.last, until
        if cut is not None:
            attempt = subtask.attempts[cut.snap.a]
        while attempt is not None:
            self.links.append((attempt, cut))
            cut = checkpoints.cut_restored(attempt)
            attempt = None if cut is None else subtask.attempts[cut.snap.a]
        self.links.reverse()
        self._until = {attempt.a: None if cut is None else cut.snap.n for attempt, cut in self.links}

    def holds(self, a: int, n: int) -> bool:
        """Whether event `n` of attempt `a` precedes the snap that the next attempt restored."""
        if a not in self._until:
            return False
        until = self._until[a]
        return until is None or n < until

    def holds_snap(self, a: int, n: int) -> bool:
        """As `holds`, for the snap `n`; the restored snap itself belongs to the chain."""
        return self.holds(a, n) or self._until.get(a) == n


class Shown(NamedTuple):
    """A visible emission, and the commit that made it visible (None: the sink needs none)."""

    emission: Emission
    commit: int | None = None

    @property
    def witness(self) -> tuple[int, ...]:
        """The events to list in an anomaly about this appearance."""
        return (self.emission.n,) if self.commit is None else (self.emission.n, self.commit)


def effective_output(
    subtask: SubtaskTrace, *, sink: Sink, checkpoints: Checkpoints, chain: Chain
) -> list[Shown]:
    """The effective output O* of the subtask, by the kind of sink."""
    match sink:
        case "append":
            emissions = (e for attempt in subtask.attempts.values() for e in attempt.emissions)
            return [Shown(emission) for emission in sorted(emissions, key=lambda emission: emission.n)]
        case "rollback":
            links = ((attempt, None if cut is None else cut.emitted) for attempt, cut in chain.links)
            return [Shown(emission) for attempt, until in links for emission in attempt.emissions[:until]]
        case "atomic" | "two-phase":
            return list(_committed(subtask, checkpoints))
        case _:
            assert_never(sink)


def _committed(subtask: SubtaskTrace, checkpoints: Checkpoints) -> Iterator[Shown]:
    for commit in subtask.commits:
        if (cut := checkpoints.cut_committed(commit)) is not None:
            epoch = subtask.attempts[cut.snap.a].emissions[cut.since : cut.emitted]
            yield from (Shown(emission, commit.n) for emission in epoch)


def outputs(shown: list[Shown]) -> Iterator[tuple[Shown, Out]]:
    """The entries that are results of records, not watermarks."""
    return ((entry, entry.emission) for entry in shown if isinstance(entry.emission, Out))


def outputs_by(outcome: Settled | None, expect: list[object] | UnsetType) -> list[object] | None:
    """The outputs that an outcome calls for, or `expect` without one; None: unknown."""
    match outcome:
        case None:
            return None if expect is UNSET else expect
        case Dead() | Res(r="fail"):
            return []
        case Res(r="timeout"):
            return [] if outcome.error is not UNSET or outcome.v is UNSET else outcome.v
        case _:
            known = expect if expect is not UNSET else outcome.v
            return None if known is UNSET else known


def visible(one: int, how: str, other: int) -> str:
    """That one emission is visible `before` or `after` another; says why if their numbers have the other order."""
    why = "" if (one < other) == (how == "before") else ", because their commits have that order"
    return f"{let(one)} is visible {how} {let(other)}{why}"


class Expectation(NamedTuple):
    """The outputs that one record must have in O*."""

    outputs: list[object] | None
    """None: unknown."""
    outcome: Settled | None
    """The outcome that decides; None if there is none in the deciding attempt."""
    begun: bool
    """Whether some output of it is in O*."""

    @property
    def substituted(self) -> bool:
        """Whether the outputs are a timeout's substitute answer."""
        return isinstance(self.outcome, Res) and self.outcome.r == "timeout" and bool(self.outputs)
