"""The subtask's part of a coordinated checkpoint: prepare, store, acknowledge, and commit when it is complete.

Answers to Flink's `SubtaskCheckpointCoordinatorImpl` with a `TwoPhaseCommitSinkFunction`. Invariants: the content of a
checkpoint is durable before its acknowledgement and committed only when it is complete; the task ends when its last
checkpoint is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.database.checkpoint_store import CheckpointStore
from harness.database.coordinated_sink import PARTS_KEPT, CoordinatedSink
from harness.database.epoch import CheckpointPart, SinkLost
from harness.database.two_phase_sink import TwoPhaseSink
from harness.sut.coordination import JournalledSubtask, TaskJournal
from harness.sut.phases import Phases
from harness.system.clock import REAL_CLOCK, Clock, Deadline
from reference_impl.task.positioned_input import Checkpoint

_LOOK_MS = 25
_LOOK_MAX_MS = 100
"""Polling interval for the completion of a checkpoint; it doubles up to the maximum while nothing completes."""
_OPEN_MAX = 16
"""The largest number of acknowledged, incomplete checkpoints; with more, the task waits."""
_COMPLETE_S = 120.0
"""How long a task waits for the parts of other subtasks; longer than a restart takes."""


class PreparedJournal(TaskJournal, Protocol):
    """A `TaskJournal` that also records completed checkpoints."""

    def heard_complete(self, checkpoint: int) -> None: ...


class TwoPhaseJournal(PreparedJournal, Protocol):
    """A journal of commits; `writer`: the attempt that prepared the transaction, if it was another one."""

    def committing(self, checkpoint: int, *, writer: int | None = None) -> None: ...
    def committed(self, checkpoint: int, *, writer: int | None = None) -> None: ...


class Later(Protocol):
    """Timers whose callbacks run as mail."""

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Any:
        """Sends `callback` as mail after the delay."""


class PreparedCoordination(JournalledSubtask):
    """The coordination of one attempt with an idempotent sink. Mutable: knows the incomplete checkpoints."""

    _journal: PreparedJournal

    def __init__(
        self,
        *,
        journal: PreparedJournal,
        sink: CoordinatedSink,
        phases: Phases,
        expect: Callable[[Any], Sequence[Any] | None] | None,
        store: CheckpointStore,
        timers: Later,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        super().__init__(journal=journal, sink=sink, phases=phases, expect=expect)
        self._epochs = sink
        self._store = store
        self._timers = timers
        self._clock = clock
        self._open: list[CheckpointPart] = []
        self._notify: Callable[[int], None]
        self._is_looking = False
        self._look_ms = _LOOK_MS
        self._is_finishing = False
        self._last: Deadline | None = None
        """The time limit for the completion of the last checkpoint."""

    def listens(self, notify: Callable[[int], None]) -> None:
        self._notify = notify

    def recovers(self, restored: int) -> None:
        """Called before the first write; this sink has no transactions of earlier attempts to settle."""

    def completes(self, checkpoint: Checkpoint) -> None:
        """Makes snapshot and outputs durable and acknowledges the checkpoint."""
        number = checkpoint.number
        elements = self.snapped(checkpoint)
        self._wait_for_others()
        self._epochs.prepare(number)
        token = self._epochs.token
        file = self._store.write(number, attempt=token, position=checkpoint.position, elements=elements)
        self._epochs.acknowledge(number, file=file)
        self._open.append(CheckpointPart(epoch=number, token=token, file=file))
        self._look_ms = _LOOK_MS
        self._phases.reach("ack")
        if self._is_finishing:
            self._last = Deadline(_COMPLETE_S, clock=self._clock)
        self._look_later()

    def finishing(self) -> None:
        super().finishing()
        self._is_finishing = True

    def drained(self) -> None:
        super().drained()
        self._epochs.end()

    def completed(self, number: int) -> None:
        """Makes the output of checkpoint `number` and earlier ones visible, in order."""
        for part in [part for part in self._open if part.epoch <= number]:
            self._phases.reach("notify")
            self.shows(part)
            self._open.remove(part)
            self._store.forget_below(part.epoch - PARTS_KEPT)
            self._stop_at(part.epoch, is_last=self._last is not None and not self._open)

    def shows(self, part: CheckpointPart) -> None:
        """Records the completion; the outputs of this sink are already visible."""
        self._journal.heard_complete(part.epoch)

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
        """The newest complete one of the acknowledged checkpoints."""
        newest = self._epochs.newest_completed()
        return max((part.epoch for part in self._open if part.epoch <= (newest or 0)), default=None)

    def _wait_for_others(self) -> None:
        """Blocks while too many checkpoints are incomplete. Raises `SinkLost`."""
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
    """The coordination of one attempt with a two-phase sink."""

    _journal: TwoPhaseJournal
    _epochs: TwoPhaseSink

    def recovers(self, restored: int) -> None:
        """Before the first write: commits the transactions of the restored checkpoint and rolls back the others."""
        for part in self._epochs.settle_leftovers(restored):
            self._commit(part, writer=part.token)

    def shows(self, part: CheckpointPart) -> None:
        self._commit(part, writer=None)

    def _commit(self, part: CheckpointPart, *, writer: int | None) -> None:
        self._journal.committing(part.epoch, writer=writer)
        self._epochs.show(part)
        self._phases.reach("commit.post")
        self._journal.committed(part.epoch, writer=writer)
