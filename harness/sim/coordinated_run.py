"""A run whose checkpoints are completed by a coordinator: its tables, its letters to the subtasks, and theirs to it.

Answers to Flink's job master and its `CheckpointCoordinator`'s messages. Invariant: who is told that a checkpoint is
complete is told after it is, some are not told at all, and some are told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.database.epoch import Visible
from harness.history.event import Abort, Commit, Done, Retire
from harness.sim.attempt import Attempt, Job
from harness.sim.checkpoint_store import SimulatedStore
from harness.sim.coordinator import Coordinator, Part, Word
from harness.sim.simulation import Simulation
from harness.sim.sinks.ledger import Ledger, Transaction

__all__ = ["CoordinatedRun", "RegionalRun"]

_WORDS: Final[dict[Word, type[Done | Abort | Retire]]] = {"done": Done, "abort": Abort, "retire": Retire}


class CoordinatedRun(Simulation):
    """Mutable. `recounts`: the numbers of checkpoints stand in the source, and come again after a restart."""

    cuts_at_end: bool
    """Whether a task cuts its last checkpoint itself, as with barriers, or waits for the mail."""
    round_trip_ms: tuple[int, int] = (1, 3)
    """Of an acknowledgement, and of a notification."""
    notify_lost_share: int = 0
    notify_again_share: int = 0
    """In percent."""

    def __init__(self, *, subtasks: int, recounts: bool, keeps: int = 1, **parts: Any) -> None:
        super().__init__(**parts)
        self.cuts_at_end = recounts
        self.ledgers = {
            subtask: Ledger(self.database.fence(subtask), shown=partial(self._show, subtask))
            for subtask in range(subtasks)
        }
        self.coordinator: Coordinator = self.variant.coordinator(Coordinator)(
            subtasks=subtasks, say=self._say, recounts=recounts, keeps=keeps
        )
        self.store = SimulatedStore()

    # ------------------------------------------------------------------------------------------ the tables

    def _say(self, word: Word, number: int) -> None:
        tape = self.tape
        tape.add(_WORDS[word](n=tape.n, t=tape.t, c=number))

    def _show(self, subtask: int, transaction: Transaction, rows: Sequence[Visible]) -> None:
        for row in rows:
            self.database.write(subtask, id=row.id, token=transaction.attempt, j=row.j, v=row.value)
        tape = self.tape
        tape.add(Commit(n=tape.n, t=tape.t, s=subtask, c=transaction.epoch, a=transaction.attempt))

    def completed(self, subtask: int) -> frozenset[int]:
        """Those that were done."""
        del subtask
        return frozenset(range(1, (self.coordinator.latest or 0) + 1))

    # --------------------------------------------------------------------------------------------- letters

    def started(self, attempt: Attempt) -> None:
        """See `Simulation`."""
        self.coordinator.begins(attempt.subtask, attempt.number)
        super().started(attempt)

    def acknowledge(self, part: Part) -> None:
        """An attempt's word on its part is on its way."""
        self.hub.at(self.hub.now_ms + self._round_trip_ms(), partial(self._acknowledged, part))

    def _round_trip_ms(self) -> int:
        return self.draw.between(*self.round_trip_ms)

    def _acknowledged(self, part: Part) -> None:
        self._notify_of(self.coordinator.acknowledge(part))

    def ends(self, subtask: int, attempt: int) -> None:
        """An attempt's word that all is done."""
        self._notify_of(self.coordinator.ends(subtask, attempt))

    def _notify_of(self, number: int | None) -> None:
        """The checkpoint is complete: tell everybody, but some letters are lost, and some come twice."""
        if number is None:
            return
        finals = self.coordinator.finals(number)
        for attempt in self.going_on():
            if not self.draw.chance(10 * self.notify_lost_share) or attempt.subtask in finals:
                self.send(attempt, partial(_notify, number=number))
            if self.draw.chance(10 * self.notify_again_share):
                self.send(attempt, partial(_notify, number=number))

    def going_on(self) -> list[Attempt]:
        """The attempts that can take a letter: the others are not there yet, or have gone."""
        return [
            attempt
            for attempt in self.attempts.values()
            if attempt.actor.alive and getattr(attempt, "task", None) is not None
        ]

    def send(self, attempt: Attempt, letter: Any) -> None:
        """It arrives after a while, if the attempt is still there."""
        self.hub.at(self.hub.now_ms + self._round_trip_ms(), partial(_deliver, attempt, letter))


class RegionalRun(CoordinatedRun):
    """Each subtask is a region of its own: it goes back to the completed checkpoint, the others go on. Mutable."""

    def begin(self, job: Job, subtask: int, *, at_ms: int) -> Attempt:
        """See `Simulation`; what the attempt before it handed in and is not complete is void."""
        self.coordinator.forget(subtask)
        return super().begin(job, subtask, at_ms=at_ms)

    def _acknowledged(self, part: Part) -> None:
        """Of a checkpoint that is complete already, an older one was restored: its owner hears so at once."""
        latest, attempt = self.coordinator.latest or 0, self.attempts[part.subtask]
        if part.checkpoint.number > latest:
            super()._acknowledged(part)
        elif attempt.number == part.attempt and attempt.actor.alive:
            self.send(attempt, partial(_notify, number=latest))


def _notify(attempt: Attempt, *, number: int) -> None:
    """Checkpoint `number` is complete."""
    attempt.task.notify_complete(number)


def _deliver(attempt: Attempt, letter: Any) -> None:
    if attempt.actor.alive:
        letter(attempt)
        attempt.actor.wake()
