"""The sink that a scenario names, with what belongs to it: how to take over, and who coordinates.

Answers to `StreamingJobGraphGenerator` choosing a sink's committer. Invariant: a sink whose checkpoints are completed
elsewhere keeps them in the store; the atomic one keeps them in its own transaction and has no use for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.checkpoint_store import CheckpointStore, FolderFiles, checkpoint_folder
from harness.database.coordinated_sink import CoordinatedSink
from harness.database.driver import MySqlDriver
from harness.database.epoch import Attempt
from harness.database.idempotent_sink import IdempotentSink
from harness.database.sink import EpochSink, SplitSink
from harness.database.two_phase_sink import TwoPhaseSink
from harness.history.journal import Journal
from harness.runs.plan import RunPlan
from harness.scenario import Scenario
from harness.sut.careless_clients import CARELESS_SINKS
from harness.sut.coordination import Coordination
from harness.sut.mutants import MUTANTS
from harness.sut.phases import Phases
from harness.sut.prepared_coordination import Later, PreparedCoordination, TwoPhaseCoordination

__all__ = ["AnySink", "ChosenSink"]

AnySink = EpochSink | CoordinatedSink


class ChosenSink:
    """One attempt's sink and store."""

    def __init__(self, plan: RunPlan, scenario: Scenario, *, subtask: int) -> None:
        self.sink = _sink(plan, scenario, subtask)
        self.store = CheckpointStore(
            FolderFiles(checkpoint_folder(Path(plan.folder), subtask=subtask)),
            subtask=subtask,
            seed=plan.seed,
        )

    def take_over(self, *, now_ms: int) -> Attempt:
        """Fence all earlier attempts, and find what to resume from. Raises `SinkLost`."""
        if isinstance(self.sink, CoordinatedSink):
            return self.sink.take_over(now_ms=now_ms, restore=self.store.restore)
        return self.sink.take_over(now_ms=now_ms)

    def coordination(
        self,
        *,
        journal: Journal,
        phases: Phases,
        expect: Callable[[Any], Sequence[Any]] | None,
        timers: Later,
        restored: int,
    ) -> Coordination | PreparedCoordination:
        """Who coordinates; what earlier attempts left in the sink is settled, `restored` being their checkpoint."""
        match self.sink:
            case TwoPhaseSink() as sink:
                coordination = TwoPhaseCoordination(
                    journal=journal, sink=sink, phases=phases, expect=expect, store=self.store, timers=timers
                )
                coordination.recovers(restored)
                return coordination
            case CoordinatedSink() as sink:
                return PreparedCoordination(
                    journal=journal, sink=sink, phases=phases, expect=expect, store=self.store, timers=timers
                )
            case sink:
                return Coordination(journal=journal, sink=sink, phases=phases, expect=expect)


def _sink(plan: RunPlan, scenario: Scenario, subtask: int) -> AnySink:
    match scenario.sink:
        case "two-phase":
            return TwoPhaseSink(MySqlDriver(plan.sink), subtask=subtask, seed=plan.seed)
        case "idempotent":
            return IdempotentSink(MySqlDriver(plan.sink), subtask=subtask, seed=plan.seed)
        case "atomic":
            return _atomic(plan.mutant)(MySqlDriver(plan.sink), subtask=subtask, seed=plan.seed)


def _atomic(mutant: str | None) -> type[EpochSink]:
    """The reference's, or the one with the planted defect."""
    if mutant is None:
        return EpochSink
    return SplitSink if MUTANTS[mutant].writes_at_once else CARELESS_SINKS.get(mutant, EpochSink)
