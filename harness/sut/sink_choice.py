"""The sink that a scenario names, with what belongs to it: how to take over, and who coordinates.

Answers to `StreamingJobGraphGenerator` choosing a sink's committer. Invariant: a sink whose checkpoints are completed
elsewhere keeps them in the store; the atomic one keeps them in its own transaction and has no use for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.checkpoint_store import CheckpointStore, checkpoint_folder
from harness.database.coordinated_sink import CoordinatedSink
from harness.database.epoch import Attempt
from harness.database.idempotent_sink import IdempotentSink
from harness.database.sink import EpochSink
from harness.database.two_phase_sink import TwoPhaseSink
from harness.history.journal import Journal
from harness.plan import RunPlan
from harness.scenario import Scenario
from harness.sut.coordination import Coordination
from harness.sut.phases import Phases
from harness.sut.prepared_coordination import Later, PreparedCoordination, TwoPhaseCoordination
from harness.sut.variant import HONEST, Variant

__all__ = ["AnySink", "ChosenSink"]

AnySink = EpochSink | CoordinatedSink

_SINKS: Mapping[str, type[AnySink]] = {
    "atomic": EpochSink,
    "idempotent": IdempotentSink,
    "two-phase": TwoPhaseSink,
}
"""By the name that a scenario's `sink` has."""


class ChosenSink:
    """One attempt's sink and store."""

    def __init__(self, plan: RunPlan, scenario: Scenario, *, subtask: int, variant: Variant = HONEST) -> None:
        self._variant = variant
        self.sink: AnySink = variant.sink(_SINKS[scenario.sink])(plan.sink, subtask=subtask, seed=plan.seed)
        self.store = variant.store(CheckpointStore)(
            checkpoint_folder(Path(plan.folder), subtask=subtask), subtask=subtask, seed=plan.seed
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
        coordination: Coordination | PreparedCoordination
        match self.sink:
            case TwoPhaseSink() as sink:
                two_phase: TwoPhaseCoordination = self._variant.coordination(TwoPhaseCoordination)(
                    journal=journal, sink=sink, phases=phases, expect=expect, store=self.store, timers=timers
                )
                two_phase.recovers(restored)
                coordination = two_phase
            case CoordinatedSink() as sink:
                coordination = self._variant.coordination(PreparedCoordination)(
                    journal=journal, sink=sink, phases=phases, expect=expect, store=self.store, timers=timers
                )
            case sink:
                coordination = self._variant.coordination(Coordination)(
                    journal=journal, sink=sink, phases=phases, expect=expect
                )
        return coordination
