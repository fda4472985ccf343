"""A whole job to break: sources, a keyed exchange, a count by key and a lookup behind it, a two-phase sink.

Invariant: what is in `splits` and in `store` outlives every task and every job, as a log and a database would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from reference_impl.checkpoints.state_handler import StreamOperatorStateContext
from reference_impl.elements import OperatorInput, Record
from reference_impl.functions.keyed_operators import KeyedProcessOperator
from reference_impl.functions.sink import StreamSink
from reference_impl.functions.tests.transaction_store import TransactionStore
from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction
from reference_impl.job.completed_checkpoints import (
    CheckpointMetadataStorage,
    CompletedCheckpoint,
    MemoryCheckpointStorage,
)
from reference_impl.job.execution_graph import ExecutionAttemptID, JobVertex
from reference_impl.job.local_job import LocalJob, LocalVertex, Message, at_once
from reference_impl.job.local_subtask import SubtaskContext, by_key
from reference_impl.job.messages import CheckpointCoordinatorConfiguration
from reference_impl.job.tests.split_source import SPLITS, Split, SplitSource
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.operator.build import Mode, build_operator
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle
from reference_impl.state.element_serializer import from_state
from reference_impl.state.serializer import PlainSerializer
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.task.operator_chain import OperatorLink

__all__ = [
    "MAX_PARALLELISM",
    "Pipeline",
    "a_pipeline",
    "assert_all_is_shown_once",
    "complete_one",
    "produce",
    "run_to_the_end",
    "settle",
]

MAX_PARALLELISM = 8


class Count:
    """Stamps each record with how many its key has had."""

    def open(self, context: Any) -> None:
        self._count = context.get_state(ValueStateDescriptor(name="count", value_type=int, default=0))

    def process_element(self, value: Sequence[Any], context: Any, out: Callable[[Any], None]) -> None:
        nth = self._count.value() + 1
        self._count.update(nth)
        out([*value, nth])


class Lookup(AsyncFunction):
    """Answers each call after some virtual time, longer for every other one; of a record in `broken` it fails."""

    def __init__(self, loop: VirtualLoop, broken: set[int]) -> None:
        self._loop = loop
        self._broken = broken

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        if value[1] in self._broken:
            handle.fail(ConnectionError(value[1]))
            return
        delay_ms = 1 + 4 * (value[1] % 2)
        self._loop.call_at_ms(self._loop.now_ms() + delay_ms, handle.complete, [value])


class Pipeline:
    """The world outside the job, and the jobs in it one after the other. Mutable.

    A record is [key, unique number]; what the sink publishes is [key, unique number, nth of its key].
    """

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        splits: int = 3,
        parallelism: tuple[int, int, int] = (2, 2, 2),
        mode: Mode = "ordered",
        storage: CheckpointMetadataStorage | None = None,
        **configuration: Any,
    ) -> None:
        self.loop = loop
        self.splits: Mapping[str, Split] = {f"split {number}": Split() for number in range(splits)}
        self.store = TransactionStore()
        self.broken: set[int] = set()
        """The numbers of records for which the lookup fails."""
        self.storage = storage or MemoryCheckpointStorage()
        self._parallelism = parallelism
        self._mode: Mode = mode
        self._configuration = CheckpointCoordinatorConfiguration(**configuration)
        self._numbers = 0
        self.job = self.new_job()

    def new_job(self, *, route: Callable[[Message], Sequence[int]] = at_once, **settings: Any) -> LocalJob:
        """One that knows no more than what is in the storage."""
        self.job = LocalJob(
            self._vertices(),
            job_id="job",
            loop=self.loop,
            storage=self.storage,
            configuration=self._configuration,
            route=route,
            **settings,
        )
        return self.job

    def _vertices(self) -> list[LocalVertex]:
        sources, keyed, sinks = self._parallelism
        return [
            LocalVertex(
                vertex=JobVertex(
                    name="source",
                    operator_ids=("source",),
                    parallelism=sources,
                    max_parallelism=MAX_PARALLELISM,
                ),
                links=self._source,
            ),
            LocalVertex(
                vertex=JobVertex(
                    name="keyed",
                    operator_ids=("count", "lookup"),
                    parallelism=keyed,
                    max_parallelism=MAX_PARALLELISM,
                    inputs=("source",),
                ),
                links=self._keyed,
                selector=self._by_key,
            ),
            LocalVertex(
                vertex=JobVertex(
                    name="sink",
                    operator_ids=("sink",),
                    parallelism=sinks,
                    max_parallelism=MAX_PARALLELISM,
                    inputs=("keyed",),
                ),
                links=self._sink,
                selector=self._by_key,
            ),
        ]

    @staticmethod
    def _by_key(vertex: JobVertex) -> Callable[[Any], int]:
        return by_key(
            lambda value: value[0], max_parallelism=vertex.max_parallelism, parallelism=vertex.parallelism
        )

    def _source(self, context: SubtaskContext) -> list[OperatorLink]:
        def build(_: StreamOperatorStateContext, *, emit: Any, **__: Any) -> SplitSource:
            parallelism = context.vertex.parallelism
            return SplitSource(
                splits=self.splits, subtask=context.subtask, parallelism=parallelism, emit=emit
            )

        return [context.plain("source", build)]

    def _keyed(self, context: SubtaskContext) -> list[OperatorLink]:
        def count(state: StreamOperatorStateContext, *, emit: Any, **_: Any) -> KeyedProcessOperator:
            assert state.keyed_state_backend is not None
            assert state.timer_services is not None
            return KeyedProcessOperator(
                function=Count(),
                key_selector=lambda value: value[0],
                key_context=state.keyed_state_backend,
                timer_services=state.timer_services,
                emit=emit,
            )

        def lookup(_: StreamOperatorStateContext, **parts: Any) -> Any:
            return build_operator(
                mode=self._mode, capacity=4, function=Lookup(self.loop, self.broken), timeout_ms=0, **parts
            )

        return [context.keyed("count", count), context.plain("lookup", lookup)]

    def _sink(self, context: SubtaskContext) -> list[OperatorLink]:
        def build(_: StreamOperatorStateContext, *, timers: Any, **__: Any) -> StreamSink:
            function = TwoPhaseCommitSinkFunction(self.store, now_ms=self.loop.now_ms)
            return StreamSink(function=function, timers=timers)

        return [context.plain("sink", build)]

    # ---------------------------------------------------------------------------------------- what happens outside

    def produce(self, split: int, key: str) -> None:
        """One more record, unless the split has ended."""
        if not self.splits[f"split {split}"].has_ended:
            self._numbers += 1
            self.splits[f"split {split}"].append([key, self._numbers])

    def end(self, *splits: int) -> None:
        """No more records, in these or in all."""
        for split in splits or range(len(self.splits)):
            self.splits[f"split {split}"].end()

    def attempt(self, vertex: str, subtask: int) -> ExecutionAttemptID:
        """The present one at a subtask."""
        return self.job.graph.attempts(vertex)[subtask]

    # --------------------------------------------------------------------------------------------- what it comes to

    @property
    def produced(self) -> list[int]:
        """The numbers of all records, sorted."""
        return sorted(value[1] for split in self.splits.values() for value in split.values)

    @property
    def published(self) -> list[int]:
        """The numbers of those that the sink has made visible, sorted; twice if it did so twice."""
        return sorted(value[1] for value in self.store.published)

    def shown_by(self, checkpoint: CompletedCheckpoint | None) -> list[int]:
        """What the sink may show: all that was read before it, but what was on its way is held instead (C28)."""
        if checkpoint is None:
            return []
        held = self._held_by(checkpoint)
        read = self._read_before(checkpoint)
        assert len(set(held)) == len(held), "held twice"
        assert set(held) <= set(read), "held, but not read"
        return sorted(set(read) - set(held))

    @staticmethod
    def _held_by(checkpoint: CompletedCheckpoint) -> list[int]:
        """The numbers of the records in the lookup's queue, or captured in a channel."""
        elements: list[OperatorInput] = []
        for state in checkpoint.operator_states.values():
            for mine in state.subtask_states.values():
                for channel in mine.input_channel_state or ():
                    elements += channel.elements
                if state.operator_id == "lookup" and mine.managed_operator_state is not None:
                    (queue,) = mine.managed_operator_state.states.values()
                    elements += [from_state(PlainSerializer().decode(item)) for item in queue.items]
        return [element.value[1] for element in elements if isinstance(element, Record)]

    def _read_before(self, checkpoint: CompletedCheckpoint) -> list[int]:
        """The numbers of the records before its barriers; a source without state has finished, and read all."""
        read = {name: len(split.values) for name, split in self.splits.items()}
        for mine in checkpoint.operator_states["source"].subtask_states.values():
            for item in mine.managed_operator_state.states[SPLITS].items:
                name, position = PlainSerializer().decode(item)
                read[name] = position
        return [value[1] for name, split in self.splits.items() for value in split.values[: read[name]]]

    def check_counts(self, *, may_overtake: bool = False) -> None:
        """Of each key that is shown, the records have the counts 1 to n: no state was lost, none counted twice.

        If one may overtake another behind the count, some may be missing for the time being.
        """
        counts: Counter[str] = Counter(value[0] for value in self.store.published)
        for key, count in counts.items():
            stamps = sorted(value[2] for value in self.store.published if value[0] == key)
            if may_overtake:
                assert len(set(stamps)) == count, (key, stamps)
            else:
                assert stamps == list(range(1, count + 1)), (key, stamps)


@contextmanager
def a_pipeline(records: int = 12, **settings: Any) -> Iterator[Pipeline]:
    """Started, with some records to read."""
    with virtual_loop() as loop:
        pipeline = Pipeline(loop, **settings)
        pipeline.job.start()
        produce(pipeline, records)
        yield pipeline


def produce(pipeline: Pipeline, count: int) -> None:
    """So many records, of all keys, in all splits."""
    for number in range(count):
        pipeline.produce(number % 3, "abcde"[number % 5])


def settle(pipeline: Pipeline) -> None:
    """Let everything happen that does not need another event, and the clock of checkpoints tick a few times."""
    for _ in range(300):
        if not pipeline.job.turn():
            break


def complete_one(pipeline: Pipeline, *, is_savepoint: bool = False) -> CompletedCheckpoint:
    """Ask for a checkpoint, and wait for it."""
    coordinator = pipeline.job.coordinator
    asked = coordinator.trigger_savepoint() if is_savepoint else coordinator.trigger_checkpoint()
    pipeline.job.run_until(asked.done)
    return asked.result(timeout=0)


def run_to_the_end(pipeline: Pipeline) -> None:
    """All is read, and a last checkpoint lets the tasks go (C18)."""
    pipeline.end()
    for _ in range(10):
        if pipeline.job.has_finished:
            break
        asked = pipeline.job.coordinator.trigger_checkpoint()
        pipeline.job.run_until(asked.done)
        settle(pipeline)


def assert_all_is_shown_once(pipeline: Pipeline) -> None:
    """The job has come to its end, and nothing was lost or doubled on the way."""
    assert pipeline.job.failure is None
    assert pipeline.job.has_finished
    assert pipeline.published == pipeline.produced
    pipeline.check_counts()
