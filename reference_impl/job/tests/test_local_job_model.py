"""Claims about a whole job under any order of events, against the tiniest model: a set of numbers (C1-C45, S9, S20).

Tasks run in any order; messages are lost, late, repeated; tasks die, the coordinator dies; the parallelism changes.
Whatever happens, the sink shows a part of what the last completed checkpoint covers, each record once and each key's
count without a gap; after a restore it shows exactly that; in the end everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference_impl.errors import StopWithSavepointFailed
from reference_impl.job.local_job import Message, TaskKilled
from reference_impl.job.tests.local_pipeline import Pipeline
from reference_impl.mailbox.loops import virtual_loop

INTERVAL_MS, TIMEOUT_MS = 40, 150
FATES: list[tuple[int, ...]] = [(0,), (0,), (), (3,), (70,), (0, 0), (1, 90), (2, 2, 200)]
"""After how many ms a message arrives: at once, never, late, repeatedly."""
SMALL = st.integers(0, 5)
PARALLELISM = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


class JobMachine(RuleBasedStateMachine):
    """A job, and the world that outlives it."""

    is_unaligned = False

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.fates: list[tuple[int, ...]] = [(0,)]
        self.messages = 0

    @initialize(parallelism=PARALLELISM, is_ordered=st.booleans(), concurrent=st.integers(1, 2))
    def start(self, parallelism: tuple[int, int, int], is_ordered: bool, concurrent: int) -> None:  # noqa: FBT001
        self.loop = self.stack.enter_context(virtual_loop())
        self.is_ordered = is_ordered
        self.pipeline = Pipeline(
            self.loop,
            parallelism=parallelism,
            mode="ordered" if is_ordered else "unordered",
            checkpoint_interval_ms=INTERVAL_MS,
            checkpoint_timeout_ms=TIMEOUT_MS,
            max_concurrent_checkpoints=concurrent,
            is_unaligned=self.is_unaligned,
            aligned_timeout_ms=None if concurrent == 1 else 2,
        )
        self.pipeline.new_job(route=self._route)
        self.pipeline.job.start()
        self.produce(0, list("abcdef"))
        self.produce(1, list("abcdef"))

    def _route(self, _message: Message) -> Sequence[int]:
        self.messages += 1
        return self.fates[self.messages % len(self.fates)]

    # -------------------------------------------------------------------------------------------- what happens

    @rule(split=st.integers(0, 2), keys=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8))
    def produce(self, split: int, keys: list[str]) -> None:
        for key in keys:
            self.pipeline.produce(split, key)

    @rule(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=3))
    def messages_fare(self, fates: list[tuple[int, ...]]) -> None:
        self.fates = fates

    @rule(which=SMALL, times=st.integers(1, 8))
    def one_task_runs(self, which: int, times: int) -> None:
        attempts = list(self.pipeline.job.subtasks)
        for _ in range(times):
            self.pipeline.job.step(attempts[which % len(attempts)])
        self.loop.run_ready()

    @rule(turns=st.integers(1, 12))
    def all_tasks_run(self, turns: int) -> None:
        for _ in range(turns):
            self.pipeline.job.turn()

    @rule(passed_ms=st.integers(1, 60))
    def time_passes(self, passed_ms: int) -> None:
        until_ms = self.loop.now_ms() + passed_ms
        while self.loop.now_ms() < until_ms and self.pipeline.job.turn():
            pass

    @rule(is_savepoint=st.booleans())
    def somebody_asks_for_a_checkpoint(self, is_savepoint: bool) -> None:  # noqa: FBT001
        coordinator = self.pipeline.job.coordinator
        _ = coordinator.trigger_savepoint() if is_savepoint else coordinator.trigger_checkpoint()
        self.loop.run_ready()

    @rule()
    def a_checkpoint_is_awaited(self) -> None:
        """For a while: what it is told may be lost."""
        asked = self.pipeline.job.coordinator.trigger_checkpoint()
        for _ in range(60):
            if not asked.done():
                self.pipeline.job.turn()

    @rule(which=SMALL)
    def a_task_dies(self, which: int) -> None:
        attempts = [attempt for attempt, one in self.pipeline.job.subtasks.items() if not one.has_finished]
        if not attempts:
            return
        self.pipeline.job.kill(attempts[which % len(attempts)])
        assert isinstance(self.pipeline.job.failure, TaskKilled)
        self._check_shown_is_covered(self.pipeline.job.restart().checkpoint_id)

    @rule(split=st.integers(0, 2))
    def a_split_ends(self, split: int) -> None:
        """Tasks with nothing more to read wait for their last checkpoint, and finish (C18, C19)."""
        self.pipeline.end(split)

    @rule(drain=st.booleans(), turns=st.integers(0, 150))
    def the_job_is_stopped_with_a_savepoint_and_begins_again(self, drain: bool, turns: int) -> None:  # noqa: FBT001
        """Which may not succeed, or not in time (C17)."""
        job = self.pipeline.job
        job.coordinator.stop_with_savepoint(drain=drain)
        for _ in range(turns):
            job.turn()
        assert job.failure is None or isinstance(job.failure, StopWithSavepointFailed)
        self._check_shown_is_covered(job.restart().checkpoint_id)

    @rule()
    def the_coordinator_dies_with_all_tasks(self) -> None:
        for subtask in self.pipeline.job.subtasks.values():
            subtask.abandon()
        self.pipeline.job.coordinator.shutdown()
        self.pipeline.new_job(route=self._route)
        self._check_shown_is_covered(self.pipeline.job.start().checkpoint_id)

    def _check_shown_is_covered(self, checkpoint_id: int | None) -> None:
        latest = self.pipeline.job.coordinator.store.latest_checkpoint
        assert checkpoint_id == (latest.checkpoint_id if latest else None)
        assert self.pipeline.published == self.pipeline.shown_by(latest), "exactly what it covers (C43)"

    # ---------------------------------------------------------------------------------------- what always holds

    @invariant()
    def the_job_has_not_failed_by_itself(self) -> None:
        if self.pipeline.job.failure is not None:
            raise self.pipeline.job.failure

    @invariant()
    def what_is_shown_is_covered_and_shown_once(self) -> None:
        shown = self.pipeline.published
        assert len(set(shown)) == len(shown)
        latest = self.pipeline.job.coordinator.store.latest_checkpoint
        assert set(shown) <= set(self.pipeline.shown_by(latest))
        self.pipeline.check_counts(may_overtake=not self.is_ordered)

    @invariant()
    def no_channel_is_blocked_without_a_pending_checkpoint(self) -> None:
        """FLINK-18238."""
        for subtask in self.pipeline.job.subtasks.values():
            blocked = [channel for gate in subtask._gates for channel in gate.channels if channel.is_blocked]
            assert not blocked or subtask._handler.is_checkpoint_pending, subtask.attempt

    def teardown(self) -> None:
        """In the end, with nothing in the way any more, everything is shown once."""
        try:
            if hasattr(self, "pipeline"):
                self.fates = [(0,)]
                self.pipeline.end()
                self.pipeline.job.run_until(lambda: False)
                self.the_job_has_not_failed_by_itself()
                assert self.pipeline.published == self.pipeline.produced
                self.pipeline.check_counts()
        finally:
            self.stack.close()


class AlignedJobMachine(JobMachine):
    """With aligned barriers, so that the parallelism may change at any time."""

    @rule(parallelism=PARALLELISM)
    def the_parallelism_changes(self, parallelism: tuple[int, int, int]) -> None:
        restored = self.pipeline.job.restart(dict(zip(("source", "keyed", "sink"), parallelism, strict=True)))
        self._check_shown_is_covered(restored.checkpoint_id)


class UnalignedJobMachine(JobMachine):
    """With barriers that overtake, at once or after a while: what was in flight is restored, too (C28)."""

    is_unaligned = True


TestAlignedJob = AlignedJobMachine.TestCase
TestUnalignedJob = UnalignedJobMachine.TestCase
TestAlignedJob.settings = TestUnalignedJob.settings = settings(
    max_examples=6, stateful_step_count=30, deadline=None, derandomize=True
)


@pytest.mark.sweep
class TestManyAlignedJobs(AlignedJobMachine.TestCase):  # type: ignore[misc, valid-type]
    """More of them, at tier sweep."""

    settings = settings(TestAlignedJob.settings, max_examples=60)


@pytest.mark.sweep
class TestManyUnalignedJobs(UnalignedJobMachine.TestCase):  # type: ignore[misc, valid-type]
    """More of them, at tier sweep."""

    settings = settings(TestUnalignedJob.settings, max_examples=60)
