"""A subtask's side of a checkpoint that others complete: prepare, store, acknowledge, and hear of it.

Answers to Flink's `SubtaskCheckpointCoordinatorImpl` with a `TwoPhaseCommitSinkFunction`. Invariant: what a checkpoint
holds is durable before it is acknowledged, and committed only when it is complete; the task ends when its last one is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.clock import REAL_CLOCK, Clock, Deadline
from harness.database.checkpoint_store import CheckpointStore
from harness.database.coordinated_sink import PARTS_KEPT, CoordinatedSink
from harness.database.epoch import Part, SinkLost
from harness.database.two_phase_sink import TwoPhaseSink
from harness.sut.coordination import JournalledSubtask, TaskJournal
from harness.sut.phases import Phases
from reference_impl.task.positioned_input import Checkpoint

__all__ = ["Later", "PreparedCoordination", "PreparedJournal", "TwoPhaseCoordination", "TwoPhaseJournal"]

_LOOK_MS = 25
_LOOK_MAX_MS = 100
"""Between two looks whether a checkpoint is complete, only while one is waited for: the pause doubles while there is
nothing new, as where another subtask restarts."""
_OPEN_MAX = 16
"""Checkpoints handed in and not complete: with more, the task waits for the others."""
_COMPLETE_S = 120.0
"""As long as a task waits for the others' parts; longer than they take to restart."""


class PreparedJournal(TaskJournal, Protocol):
    """What is written besides."""

    def heard_complete(self, checkpoint: int) -> None: ...


class TwoPhaseJournal(PreparedJournal, Protocol):
    """`writer`: the attempt that prepared what is committed, if another one did."""

    def committing(self, checkpoint: int, *, writer: int | None = None) -> None: ...
    def committed(self, checkpoint: int, *, writer: int | None = None) -> None: ...


class Later(Protocol):
    """Timers as mail."""

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Any:
        """Send `callback` as mail after the delay."""


class PreparedCoordination(JournalledSubtask):
    """One attempt's, with an idempotent sink. Mutable: knows which checkpoints are not complete yet."""

    _journal: PreparedJournal

    def __init__(
        self,
        *,
        journal: PreparedJournal,
        sink: CoordinatedSink,
        phases: Phases,
        expect: Callable[[Any], Sequence[Any]] | None,
        store: CheckpointStore,
        timers: Later,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        super().__init__(journal=journal, sink=sink, phases=phases, expect=expect)
        self._epochs = sink
        self._store = store
        self._timers = timers
        self._clock = clock
        self._open: list[Part] = []
        self._notify: Callable[[int], None]
        self._is_looking = False
        self._look_ms = _LOOK_MS
        self._is_finishing = False
        self._last: Deadline | None = None
        """Until when the last checkpoint must be complete."""

    def listens(self, notify: Callable[[int], None]) -> None:
        """`notify` sends the task the mail that a checkpoint is complete."""
        self._notify = notify

    def recovers(self, restored: int) -> None:
        """Before anything is written: nothing that earlier attempts left has to be settled."""

    def completes(self, checkpoint: Checkpoint) -> None:
        """The subtask's part: snapshot and outputs, durable, and handed in."""
        number = checkpoint.number
        elements = self.snapped(checkpoint)
        self._wait_for_others()
        self._epochs.prepare(number)
        token = self._epochs.token
        file = self._store.write(number, attempt=token, position=checkpoint.position, elements=elements)
        self._epochs.acknowledge(number, file=file)
        self._open.append(Part(epoch=number, token=token, file=file))
        self._look_ms = _LOOK_MS
        self._phases.reach("ack")
        if self._is_finishing:
            self._last = Deadline(_COMPLETE_S, clock=self._clock)
        self._look_later()

    def finishing(self) -> None:
        """The next checkpoint is the last."""
        self._is_finishing = True

    def drained(self) -> None:
        """As ever; nobody waits for this subtask any more."""
        super().drained()
        self._epochs.end()

    def completed(self, number: int) -> None:
        """Make visible what checkpoint `number` and earlier ones hold, in order."""
        for part in [part for part in self._open if part.epoch <= number]:
            self._phases.reach("notify")
            self.shows(part)
            self._open.remove(part)
            self._store.forget_below(part.epoch - PARTS_KEPT)

    def shows(self, part: Part) -> None:
        """The checkpoint is complete; its outputs were visible before."""
        self._journal.heard_complete(part.epoch)

    # ------------------------------------------------------------- looking whether checkpoints are complete

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._timers.register(self._look_ms, self._look_by_mail)

    def _look_by_mail(self) -> None:
        self._is_looking = False
        newest = self._newest_complete()
        if newest is not None:
            self._notify(newest)
        self._look_ms = _LOOK_MS if newest is not None else min(2 * self._look_ms, _LOOK_MAX_MS)
        if self._open:
            if self._last is not None and self._last.passed:
                raise _missing(f"checkpoint {self._open[-1].epoch}, its last")
            self._look_later()

    def _newest_complete(self) -> int | None:
        """Of the checkpoints handed in, the newest that is complete now."""
        newest = self._epochs.newest_completed()
        return max((part.epoch for part in self._open if part.epoch <= (newest or 0)), default=None)

    def _wait_for_others(self) -> None:
        """Block while too many checkpoints are not complete. Raises `SinkLost`."""
        deadline = Deadline(_COMPLETE_S, clock=self._clock)
        while len(self._open) >= _OPEN_MAX:
            if deadline.passed:
                raise _missing("an earlier checkpoint")
            self._clock.pause(_LOOK_MS / 1000)
            newest = self._newest_complete()
            if newest is not None:
                self.completed(newest)


def _missing(what: str) -> SinkLost:
    return SinkLost(f"{what} was not complete after {_COMPLETE_S:.0f} s: another subtask's part is missing")


class TwoPhaseCoordination(PreparedCoordination):
    """One attempt's, with a two-phase sink."""

    _journal: TwoPhaseJournal
    _epochs: TwoPhaseSink

    def recovers(self, restored: int) -> None:
        """Before anything is written: commit what the restored checkpoint holds, roll back the rest."""
        for part in self._epochs.settle_leftovers(restored):
            self._commit(part, writer=part.token)

    def shows(self, part: Part) -> None:
        """The checkpoint is complete: commit."""
        self._commit(part, writer=None)

    def _commit(self, part: Part, *, writer: int | None) -> None:
        self._journal.committing(part.epoch, writer=writer)
        self._epochs.show(part)
        self._phases.reach("commit.post")
        self._journal.committed(part.epoch, writer=writer)
