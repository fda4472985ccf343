"""The generations of one run with processes: each rescale ends the subtasks that run, and starts the next ones.

Implements `Execution` over the executions of a `LevelRunner`. Invariant: the next generation starts only after every
subtask of the one before has stopped or ended and its execution was stopped.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from harness.database.coordinator import Coordinator
from harness.engine.level import Execution, ExecutionState, LevelRunner
from harness.engine.rescale import Rescaler
from harness.faults.real.fault_site import Succession
from harness.faults.real.spark_site import SparkProcesses
from harness.history.follower import Follower
from harness.scenario.plan import RunPlan
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity


class Generations:
    """One run that rescales. Mutable: its execution, and the plan of its subtasks."""

    def __init__(
        self,
        runner: LevelRunner,
        plan: RunPlan,
        *,
        rescaler: Rescaler,
        logs: Path,
        coordinator: Coordinator | None,
    ) -> None:
        self._coordinator = coordinator
        self._runner = runner
        self._plan = plan
        self._rescaler = rescaler
        self._logs = logs
        self._killed: list[int] = []
        self._current = self._started()

    def _started(self) -> Execution:
        return self._runner.start(self._plan, subtasks=len(self._rescaler.running), logs=self._logs)

    def poll(self) -> ExecutionState:
        """The state of the run; carries out a rescale that is due, which takes as long as its transaction."""
        state = self._current.poll()
        if state.running or state.error is not None:
            return state
        ended = self._ended()
        if not self._rescaler.is_due(ended):
            return state
        self._killed += self._current.stop()
        try:
            self._plan = self._rescaler.rescale(self._plan, ended=ended)
        except WorldError as error:
            return ExecutionState(running=False, error=str(error), ends=state.ends)
        if self._coordinator is not None:
            self._coordinator.until = self._rescaler.stops_at
        self._current = self._started()
        return ExecutionState(running=True, ends=state.ends)

    def _ended(self) -> set[int]:
        """The subtasks of this generation whose newest attempt has drained; the others have stopped."""
        attempts = Follower(Path(self._plan.folder)).poll().attempts
        newest = {view.subtask: view for _, view in sorted(attempts.items())}
        return {s for s in self._rescaler.running if s in newest and newest[s].drained}

    def process(self, subtask: int) -> ProcessIdentity | None:
        """See `Workers`; None for a subtask of another generation."""
        return self._current.process(subtask) if subtask in self._rescaler.running else None

    def supersede(self, subtask: int) -> Succession:
        """See `Workers`."""
        return self._current.supersede(subtask)

    def executor(self) -> ProcessIdentity | None:
        """See `Workers`."""
        return self._current.executor()

    def spark(self) -> SparkProcesses | None:
        """See `Workers`."""
        return self._current.spark()

    def stop(self) -> Collection[int]:
        """See `Execution`."""
        return [*self._killed, *self._current.stop()]
