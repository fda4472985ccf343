"""A subtask in virtual time: a source by hand, the reference's operator, a coordination that keeps what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from harness.engine.subtask import Subtask
from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import EndOfInput, OperatorInput, StreamElement
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode, build_operator
from reference_impl.task.input_processor import Checkpoint
from reference_impl.tests.rig import HandFunction, record, shown, watermark

ELEMENTS: list[StreamElement] = [record(1), record(2), watermark(2), record(3), record(4)]


class ListSource:
    """Elements with a gap between them, and a barrier before some positions."""

    def __init__(
        self, elements: Sequence[StreamElement], *, barriers: Sequence[int] = (), gap_ms: int = 0
    ) -> None:
        self.elements = elements
        self.barriers = barriers
        self.gap_ms = gap_ms

    def read(self, position: int) -> StreamElement:
        """The element there."""
        return self.elements[position] if position < len(self.elements) else EndOfInput()

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The checkpoint that cuts there."""
        return CheckpointBarrier(checkpoint_id=position) if position in self.barriers else None

    def due_ms(self, position: int) -> int:
        """One gap after the other."""
        return position * self.gap_ms


class HandCoordination:
    """Keeps what it is told. Mutable; `completing` is what else happens to a checkpoint."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.is_complete_at_once = True
        self.cuts_at_end = True
        self.completing: Callable[[Checkpoint], None] = lambda checkpoint: None
        self.log: list[Any] = []
        """What was taken, each with its instant, and the words of the end."""
        self.emitted: list[Any] = []
        self.checkpoints: list[tuple[int, Checkpoint, list[Any]]] = []
        """Each with its instant, and with what had been emitted by then."""
        self.declined: list[int] = []
        self.completed_numbers: list[int] = []
        self._now_ms = now_ms

    def listens(self, notify: Callable[[int], None]) -> None:
        self.notify = notify

    def takes(self, element: OperatorInput) -> None:
        self.log.append((self._now_ms(), shown(element)))

    def emit(self, element: OperatorInput) -> None:
        self.emitted.append(shown(element))

    def completes(self, checkpoint: Checkpoint) -> None:
        self.completing(checkpoint)
        self.checkpoints.append((self._now_ms(), checkpoint, list(self.emitted)))

    def declines(self, number: int) -> None:
        self.declined.append(number)

    def source_exhausted(self) -> None:
        self.log.append("exhausted")

    def finishing(self) -> None:
        self.log.append("finishing")

    def completed(self, number: int) -> None:
        self.completed_numbers.append(number)

    def drained(self) -> None:
        self.log.append("drained")


class SubtaskRig:
    """A subtask whose calls end after `delay_ms` each."""

    def __init__(
        self,
        loop: VirtualLoop,
        source: ListSource,
        *,
        delay_ms: int = 10,
        mode: Mode = "ordered",
        capacity: int = 10,
        kind: type[Subtask] = Subtask,
        coordination: type[HandCoordination] = HandCoordination,
        **settings: Any,
    ) -> None:
        def invoke(value: Any, handle: Any) -> None:
            loop.call_later(delay_ms / 1000, handle.complete, [value])

        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.told = coordination(loop.now_ms)
        self.subtask = kind(
            loop=loop,
            mailbox=self.mailbox,
            timers=partial(Timers, loop),
            source=source,
            lookups=partial(
                build_operator,
                mode=mode,
                capacity=capacity,
                function=HandFunction(invoke=invoke),
                timeout_ms=0,
                key_of=(lambda value: 0) if mode == "keyed" else None,
            ),
            coordination=self.told,
            **settings,
        )

    def at(self, instant_ms: int, action: Callable[[], object]) -> None:
        """Do it then, in a callback of the loop, as the world outside would."""
        self.loop.call_at_ms(instant_ms, action)


@contextmanager
def open_subtask(source: ListSource, **settings: Any) -> Iterator[SubtaskRig]:
    with virtual_loop() as loop:
        rig = SubtaskRig(loop, source, **settings)
        try:
            yield rig
        finally:
            rig.subtask.close()
