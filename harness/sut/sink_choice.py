"""The sink that a scenario names, with its checkpoint store and its coordination.

Answers to `StreamingJobGraphGenerator`, which chooses a sink's committer. Invariant: coordinated sinks keep checkpoints
in the store; the atomic sink keeps them in its own transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from harness.database.checkpoint_store import CheckpointStore
from harness.database.coordinated_sink import PARTS_KEPT, CoordinatedSink, IdempotentSink, TwoPhaseSink
from harness.database.driver import Driver, MySqlDriver
from harness.database.epoch import CheckpointPart, SavedEpoch, SinkLost, Takeover
from harness.database.sink import EpochSink, FailoverSink
from harness.database.store_files import Files
from harness.history.notes import HeardComplete
from harness.history.recorder import newest_attempt
from harness.scenario.model import Scenario, Sink
from harness.scenario.plan import RunPlan
from harness.sut.coordination import AtomicCoordination, AttemptLog, JournalledSubtask
from harness.sut.variant import Variant
from harness.system.clock import REAL_CLOCK, Clock, Deadline
from reference_impl.task.input_processor import Checkpoint

AnySink = EpochSink | CoordinatedSink
_SINKS: Final[dict[Sink, type[AnySink]]] = {
    "atomic": EpochSink,
    "two-phase": TwoPhaseSink,
    "idempotent": IdempotentSink,
}


class ChosenSink:
    """The sink and the checkpoint store of one attempt."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        plan: RunPlan,
        subtask: int,
        driver: Driver,
        files: Files,
        clock: Clock,
        variant: Variant,
    ) -> None:
        fails_over = scenario.sink == "atomic" and scenario.has_two_servers
        kind = FailoverSink if fails_over else _SINKS[scenario.sink]
        self.sink: AnySink = variant.sink(kind)(driver, subtask=subtask, seed=plan.seed, clock=clock)
        if isinstance(self.sink, FailoverSink):
            self.sink.newest_attempt = partial(newest_attempt, Path(plan.folder), subtask=subtask)
            self.sink.replica = None if plan.replica is None else MySqlDriver(plan.replica)
        self.sink.generation = plan.generation
        self.store: CheckpointStore = variant.store(CheckpointStore)(
            files, subtask=subtask, seed=plan.seed, clock=clock
        )
        self._clock = clock
        self._variant = variant
        self._share = plan.shares.get(subtask)

    def take_over(self, *, now_ms: int) -> Takeover:
        """Fences all earlier attempts and finds the checkpoint to restore. Raises `SinkLost`."""
        if isinstance(self.sink, CoordinatedSink):
            taken = self.sink.take_over(now_ms=now_ms, restore=self.store.restore)
        else:
            taken = self.sink.take_over(now_ms=now_ms)
        share = self._share
        if share is None or taken.saved is not None:
            return taken
        # Its own first checkpoint is still to come: what it starts from is its share of the rescale.
        saved = SavedEpoch(epoch=share.checkpoint, position=share.inherited, elements=share.elements)
        return replace(taken, saved=saved)

    def coordination(
        self, log: AttemptLog, *, timers: Later, restored: int
    ) -> AtomicCoordination | PreparedCoordination:
        """The coordination for this sink; settles transactions of earlier attempts up to checkpoint `restored`."""
        if not isinstance(self.sink, CoordinatedSink):
            made: AtomicCoordination = self._variant.coordination(AtomicCoordination)(log, sink=self.sink)
            return made
        kind = TwoPhaseCoordination if isinstance(self.sink, TwoPhaseSink) else PreparedCoordination
        coordination: PreparedCoordination = self._variant.coordination(kind)(
            log, sink=self.sink, store=self.store, timers=timers, clock=self._clock
        )
        coordination.recovers(restored)
        return coordination


_LOOK_MS = 25
_LOOK_MAX_MS = 100
"""Polling interval for the completion of a checkpoint; it doubles up to the maximum while nothing completes."""
_OPEN_MAX = 16
"""The largest number of acknowledged, incomplete checkpoints; with more, the task waits."""
_COMPLETE_S = 120.0
"""How long a task waits for the parts of other subtasks; longer than a restart takes."""


class Later(Protocol):
    """Timers whose callbacks run as mail."""

    def register(self, delay_ms: int, callback: Callable[[], None]) -> object:
        """Sends `callback` as mail after the delay."""


class PreparedCoordination(JournalledSubtask):
    """The coordination of one attempt with an idempotent sink. Mutable: knows the incomplete checkpoints."""

    def __init__(
        self,
        log: AttemptLog,
        *,
        sink: CoordinatedSink,
        store: CheckpointStore,
        timers: Later,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        super().__init__(log, sink=sink)
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
        self._journal.note(HeardComplete(c=part.epoch))

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
