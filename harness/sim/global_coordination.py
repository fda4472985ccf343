"""A subtask's side of a global checkpoint: prepare, acknowledge, and make visible when it is complete.

Answers to Flink's `SubtaskCheckpointCoordinatorImpl` with a `TwoPhaseCommitSinkFunction`. Invariant: what a
checkpoint holds is durable before it is acknowledged, and visible only once its completion was heard of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.sim.coordinator import Part
from harness.sut.coordination import JournalledSubtask
from reference_impl.task.positioned_input import Checkpoint

if TYPE_CHECKING:
    from harness.sim.coordinated_run import CoordinatedRun

__all__ = ["GlobalCoordination"]


class GlobalCoordination(JournalledSubtask):
    """One attempt's. Mutable: knows which checkpoint is its last. `sink` is a `TwoPhaseSink`, or of its shape."""

    def __init__(self, *, sink: Any, **parts: Any) -> None:
        super().__init__(sink=sink, **parts)
        self._epochs = sink
        self._run: CoordinatedRun = sink.attempt.run
        self.cuts_at_end = self._run.cuts_at_end
        """See `harness.engine.subtask.Coordination`."""
        self._is_finishing = False

    def completes(self, checkpoint: Checkpoint) -> None:
        """The subtask's part: snapshot and outputs, durable but not visible."""
        elements = self.snapped(checkpoint)
        state = self._epochs.prepare(checkpoint.number)
        attempt = self._epochs.attempt
        part = Part(
            subtask=attempt.subtask,
            attempt=attempt.number,
            checkpoint=checkpoint,
            elements=elements,
            state=state,
            is_final=self._is_finishing,
        )
        self._run.store.write(attempt, part)
        self._run.acknowledge(part)
        self._phases.reach("ack")

    def finishing(self) -> None:
        """Everything has left; the next checkpoint that is cut is the last that is needed."""
        self._is_finishing = True

    def drained(self) -> None:
        """See `Coordination`; the job's coordinator waits for this subtask no more."""
        self._journal.drained()
        attempt = self._epochs.attempt
        self._run.ends(attempt.subtask, attempt.number)
        self._phases.reach("close")

    def declines(self, number: int) -> None:
        """The job gives the checkpoint up."""
        self._run.coordinator.give_up(number)

    def completed(self, number: int) -> None:
        """Checkpoint `number` is complete: commit what it holds."""
        self._phases.reach("notify")
        self._epochs.completed(number)
        if self._epochs.shows_when_complete:
            self._phases.reach("commit.post")
