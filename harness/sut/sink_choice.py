"""The sink that a scenario names, with its checkpoint store and its coordination.

Answers to `StreamingJobGraphGenerator`, which chooses a sink's committer. Invariant: coordinated sinks keep checkpoints
in the store; the atomic sink keeps them in its own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.database.checkpoint_store import CheckpointStore
from harness.database.coordinated_sink import CoordinatedSink, IdempotentSink
from harness.database.driver import Driver, MySqlDriver
from harness.database.epoch import SavedEpoch, Takeover
from harness.database.failover_sink import FailoverSink
from harness.database.sink import EpochSink
from harness.database.store_files import Files
from harness.database.two_phase_sink import TwoPhaseSink
from harness.history.recorder import newest_attempt
from harness.scenario.model import Scenario, Sink
from harness.scenario.plan import RunPlan
from harness.sut.coordination import AtomicCoordination
from harness.sut.phases import Phases
from harness.sut.prepared_coordination import Later, PreparedCoordination, TwoPhaseCoordination
from harness.sut.variant import Variant
from harness.system.clock import Clock

AnySink = EpochSink | CoordinatedSink
_SINKS: Final[dict[Sink, type[AnySink]]] = {
    "atomic": EpochSink,
    "two-phase": TwoPhaseSink,
    "idempotent": IdempotentSink,
}


def _may_fail_over(scenario: Scenario) -> bool:
    return scenario.sink == "atomic" and scenario.has_two_servers


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
        kind = FailoverSink if _may_fail_over(scenario) else _SINKS[scenario.sink]
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
        self,
        *,
        journal: Any,
        phases: Phases,
        expect: Callable[[Any], Sequence[Any] | None] | None,
        timers: Later,
        restored: int,
    ) -> AtomicCoordination | PreparedCoordination:
        """The coordination for this sink; settles transactions of earlier attempts up to checkpoint `restored`."""
        if not isinstance(self.sink, CoordinatedSink):
            made: AtomicCoordination = self._variant.coordination(AtomicCoordination)(
                journal=journal, sink=self.sink, phases=phases, expect=expect
            )
            return made
        kind = TwoPhaseCoordination if isinstance(self.sink, TwoPhaseSink) else PreparedCoordination
        coordination: PreparedCoordination = self._variant.coordination(kind)(
            journal=journal,
            sink=self.sink,
            phases=phases,
            expect=expect,
            store=self.store,
            timers=timers,
            clock=self._clock,
        )
        coordination.recovers(restored)
        return coordination
