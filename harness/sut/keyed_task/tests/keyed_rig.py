"""A keyed task by hand: its source, its chain before lookups that only remember, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness.scenario import Task, Workload
from harness.sut.keyed_task.keyed_chain import KeyedChain
from harness.sut.keyed_task.keyed_task import KeyedTask
from harness.sut.keyed_task.merged_inputs import MergedInputs
from harness.sut.keyed_task.parts import HONEST_PARTS, KeyedParts
from harness.sut.positions import SubtaskSource
from harness.workloads.inputs import Inputs
from harness.workloads.lookups import LookupSource
from harness.workloads.sessions import Stamp, session_stamps
from reference_impl.elements import EndOfInput, OperatorInput, QueueElement, Record
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.timers import Timers

__all__ = ["KeyedRig", "MemoryPhases", "RememberingLookups"]


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
    """Mutable: reads on where it stands."""

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
        self.source = SubtaskSource(self.elements, checkpoint_every=made.checkpoint_every, origin_ms=0)
        self.task = KeyedTask(inputs=self.inputs, gap_ms=asked.gap, parts=parts)
        self.stamps: dict[int, Stamp] = session_stamps(self.elements, self.inputs, gap_ms=asked.gap)
        self.phases = MemoryPhases()
        self._loop = loop
        self._mailbox = Mailbox(loop=loop)
        executor = MailboxExecutor(self._mailbox, 0)
        self._timers: Callable[[MailboxExecutor], Timers] = lambda of: Timers(loop, of)
        self.merged: MergedInputs = self.task.merged(
            self.source, phases=self.phases, timers=self._timers(executor), executor=executor
        )
        self.lookups: RememberingLookups
        self.emitted: list[OperatorInput] = []
        self.failures: list[BaseException] = []
        self.chain: KeyedChain = self.task.chain(
            phases=self.phases,
            lookups=self._build,
            mailbox=self._mailbox,
            timers=self._timers,
            emit=self.emitted.append,
            fail=self.failures.append,
        )
        self.position = 0

    def _build(self, **parts: Any) -> RememberingLookups:
        self.lookups = RememberingLookups(**parts)
        return self.lookups

    def open(self, restored: Sequence[Any] = (), *, position: int = 0) -> None:
        """Open the chain where a snapshot was taken."""
        self.chain.open(restored)
        self.position = position
        self.merged.barrier_before(position)

    def read_to(self, position: int) -> list[tuple[int, int]]:
        """Take elements up to there; the checkpoints that began, each with where it did."""
        begun: list[tuple[int, int]] = []
        while self.position < position:
            element = self.merged.read(self.position)
            assert not isinstance(element, EndOfInput)
            self.chain.process(element)
            self.position += 1
            barrier = self.merged.barrier_before(self.position)
            if barrier is not None:
                begun.append((barrier.checkpoint_id, self.position))
        return begun

    @property
    def stamped(self) -> dict[int, Stamp]:
        """What the records that came to the lookups are stamped with."""
        return {
            element.value.id: element.value.stamp
            for element in self.lookups.taken
            if isinstance(element, Record)
        }
