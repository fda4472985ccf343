"""A keyed task by hand: its source, its chain before lookups that only remember, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from harness.engine.subtask import LOOKUPS
from harness.scenario.model import Task, Workload
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.sessions import Stamp, session_stamps
from harness.sut.gated_inputs import GatedInputs
from harness.sut.keyed_head import KeyedHead, KeyedTask
from harness.sut.positions import SubtaskSource
from harness.sut.rescaling import HONEST_PARTS, KeyedParts
from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointOptions, StopMode
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.elements import OperatorInput, QueueElement, Record
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import DueTime
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, async_link

_LONG_AGO_MS = -(10**9)


class MemoryPhases:
    """Phases that are reached. Mutable."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    def reach(self, phase: str) -> None:
        self.reached.append(phase)


class RememberingLookups:
    """Lookups that never answer. Mutable: what came in is what has not left."""

    room: Availability = AVAILABLE

    def __init__(self, **parts: Any) -> None:
        self.parts = parts
        self.taken: list[OperatorInput] = []
        self.ended = self.closed = False

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        self.taken += restored

    def process(self, element: OperatorInput) -> None:
        self.taken.append(element)

    def snapshot(self) -> Sequence[Any]:
        return tuple(self.taken)

    def end_input(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True


class KeyedRig:
    """A `GatedInputs`, all of whose elements are due, its reader and its task. Mutable: reads on where it stands."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        seed: int = 7,
        parts: KeyedParts = HONEST_PARTS,
        workload: dict[str, Any] | None = None,
        **task: Any,
    ) -> None:
        made = Workload.model_validate(
            {"records": 80, "keys": 5, "watermark_every": 4, "checkpoint_every": 10, **(workload or {})}
        )
        asked = Task.model_validate({"gap": "60ms", "lag": "15ms", **task})
        self.elements = LookupSource(workload=made, seed=seed, subtask=0)
        self.inputs = Inputs(asked, self.elements, seed=seed, subtask=0)
        self.source = SubtaskSource(
            self.elements, checkpoint_every=made.checkpoint_every, origin_ms=_LONG_AGO_MS
        )
        self.task = KeyedTask(inputs=self.inputs, task=asked, parts=parts)
        self.stamps: dict[int, Stamp] = session_stamps(self.elements, self.inputs, task=asked)
        self.phases = MemoryPhases()
        self._loop = loop
        self._mailbox = Mailbox(loop=loop)
        self._head = KeyedHead(self.task, reader=self, phases=self.phases, loop=loop)
        self.lookups: RememberingLookups
        self.emitted: list[OperatorInput] = []
        self.failures: list[BaseException] = []
        self.taken: list[OperatorInput] = []
        self.begun: list[tuple[int, int]] = []
        """Checkpoints, each with the elements that had been taken by then."""
        self.kept: list[tuple[int, tuple[Any, ...]]] = []
        """With `async_snapshot`: the position of each checkpoint, and what it holds."""
        self.read_ahead: list[int] = []
        """How many elements the head had taken meanwhile."""
        self.chain: OperatorChain
        self.gated: GatedInputs

    def _build(self, **parts: Any) -> RememberingLookups:
        self.lookups = RememberingLookups(**parts)
        return self.lookups

    def open(self, restored: Sequence[Any] = (), *, position: int = 0) -> None:
        """Open the chain where a snapshot was taken."""
        replayed, executor = iter(restored), MailboxExecutor(self._mailbox, 0)
        self._executor = executor
        lookups = async_link(
            self._build,
            operator_id=LOOKUPS,
            restored=replayed,
            is_hard=False,
            blocked=lambda entering: entering,
        )
        self.chain = OperatorChain(
            [self._head.link(replayed), lookups],
            mailbox=self._mailbox,
            timers=partial(Timers, self._loop),
            record_writer=LocalRecordWriter(self.emitted.append),
            fail=self.failures.append,
        )
        timers = self.chain.timers[0]
        self.gated = self._head.inputs(
            self.source,
            task=self,
            chain=self.chain,
            position=position,
            due=DueTime(loop=self._loop, timers=timers),
            timers=timers,
            executor=executor,
        )
        self.chain.initialize_state_and_open_operators()

    def read_to(self, position: int) -> list[tuple[int, int]]:
        """Take elements up to there; the checkpoints that began, each with where it did."""
        self.begun.clear()
        while self.gated.position < position:
            assert self.gated.process_input() is DataInputStatus.MORE_AVAILABLE
            while self._executor.try_yield():
                pass
        return list(self.begun)

    def end(self) -> None:
        """Behind the last element, to the end of every channel."""
        assert self.gated.process_input() is DataInputStatus.END_OF_DATA
        self.chain.finish_operators(StopMode.DRAIN)
        assert self.gated.process_input() is DataInputStatus.END_OF_INPUT

    def snapshot(self) -> tuple[Any, ...]:
        """What a checkpoint would hold."""
        futures: dict[str, OperatorSnapshotFutures] = {}
        self.chain.snapshot_state(futures, CheckpointMetaData(checkpoint_id=1), CheckpointOptions())
        return self._finished(futures)

    def _finished(self, futures: dict[str, OperatorSnapshotFutures]) -> tuple[Any, ...]:
        states = {operator_id: future.finalize() for operator_id, future in futures.items()}
        return (*self._head.elements(states), *states[LOOKUPS].managed_operator_state)

    @property
    def stamped(self) -> dict[int, Stamp]:
        """What the records that came to the lookups are stamped with."""
        return {
            element.value.id: element.value.stamp
            for element in self.lookups.taken
            if isinstance(element, Record)
        }

    @property
    def has_ended(self) -> bool:
        """Whether the source has ended."""
        return self.gated.has_ended

    # ------------------------------------------------------------------- a `Reader` and a `CheckpointableTask`

    def takes(self, element: OperatorInput) -> None:
        self.taken.append(element)

    def source_exhausted(self) -> None:
        """Never called: the lookups tell the end of their own input, and here they only take."""

    def trigger_checkpoint_on_barrier(self, metadata: CheckpointMetaData, options: Any, metrics: Any) -> None:
        self.begun.append((metadata.checkpoint_id, self.gated.position))
        if self.task.task.async_snapshot:
            futures: dict[str, OperatorSnapshotFutures] = {}
            self.chain.snapshot_state(futures, metadata, CheckpointOptions())
            self._head.run_async(partial(self._keep, self.gated.position, futures))

    def _keep(self, position: int, futures: dict[str, OperatorSnapshotFutures]) -> None:
        self.kept.append((position, self._finished(futures)))
        self.read_ahead.append(self.gated.position - position)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: Exception) -> None:
        raise exception
