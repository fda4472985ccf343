"""Claims about the task around the operator, and its restart: A33, A56, A57, A59, A61, A66, M3, M28, M39, B23."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

import pytest

from reference_impl.async_wait_build import Mode
from reference_impl.elements import EndOfInput, OperatorInput, StreamElement
from reference_impl.errors import MailboxClosed
from reference_impl.events import CheckpointBarrier
from reference_impl.loops import virtual_loop
from reference_impl.mailbox_processor import MailboxProcessor
from reference_impl.source_task import Checkpoint, SourceTask
from reference_impl.tests.rig import HandFunction, Rig, record, shown, watermark
from reference_impl.virtual_loop import VirtualLoop

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


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


class TaskRig:
    """A task in virtual time, whose calls end after `delay_ms` each; its own coordinator."""

    def __init__(self, loop: VirtualLoop, source: ListSource, *, delay_ms: int, **settings: Any) -> None:
        def invoke(value: Any, handle: Any) -> None:
            loop.call_later(delay_ms / 1000, handle.complete, [value])

        self.rig = Rig(loop, function=HandFunction(invoke=invoke), **settings)
        self.log: list[Any] = []
        self.checkpoints: list[tuple[int, Checkpoint, list[Any]]] = []
        self.mailbox_processor = MailboxProcessor(self.rig.mailbox)
        self.task = SourceTask(
            loop=loop,
            mailbox_processor=self.mailbox_processor,
            timers=self.rig.timers,
            operator=self.rig.operator,
            source=source,
            coordinator=self,
        )

    def takes(self, element: OperatorInput) -> None:
        """Note it, and when."""
        self.log.append((self.rig.timers.now_ms(), shown(element)))

    def completes(self, checkpoint: Checkpoint) -> None:
        """Keep it, with the instant and with what had been emitted by then."""
        self.checkpoints.append((self.rig.timers.now_ms(), checkpoint, self.rig.values()))

    def source_exhausted(self) -> None:
        """Note it."""
        self.log.append("exhausted")

    def drained(self) -> None:
        """Note it."""
        self.log.append("drained")


@contextmanager
def open_task(source: ListSource, *, delay_ms: int = 10, **settings: Any) -> Iterator[TaskRig]:
    with virtual_loop() as loop:
        yield TaskRig(loop, source, delay_ms=delay_ms, **settings)


ELEMENTS: list[StreamElement] = [record(1), record(2), watermark(2), record(3), record(4)]


@BOTH
def test_all_input_is_taken_in_drained_and_committed_a66(mode: Mode) -> None:
    with open_task(ListSource(ELEMENTS), mode=mode, capacity=3) as rig:
        rig.task.run()

        assert rig.rig.values() == [1, 2, "w2", 3, 4]
        assert rig.log[-2:] == ["exhausted", "drained"]
        ((_, last, emitted),) = rig.checkpoints
        assert (last.elements, emitted) == ((), rig.rig.values())


@BOTH
@pytest.mark.parametrize("capacity", [1, 2, 10])
@pytest.mark.parametrize("cut", range(1, len(ELEMENTS) + 1))
def test_what_was_emitted_before_a_checkpoint_and_what_its_restore_emits_is_everything_once_a59(
    mode: Mode, capacity: int, cut: int
) -> None:
    """A56, A57, A59, A61."""
    source = ListSource(ELEMENTS, barriers=[cut], gap_ms=3)
    with open_task(source, mode=mode, capacity=capacity) as before:
        before.task.run()
        _, checkpoint, emitted = before.checkpoints[0]
        assert before.rig.values() == [1, 2, "w2", 3, 4], "the checkpoint disturbed nothing"
    with open_task(source, mode=mode, capacity=capacity) as after:
        after.task.run(checkpoint)

        assert [*emitted, *after.rig.values()] == [1, 2, "w2", 3, 4]
        assert [number for _, number, _ in after.checkpoints if number.number == cut] == []


def test_a_checkpoint_does_not_wait_for_a_slot_a33_b23() -> None:
    """A33, B23, FLINK-39835: the queue is full, its call takes a second, and the barrier comes at once."""
    with open_task(ListSource(ELEMENTS[:2], barriers=[1]), capacity=1, delay_ms=1000) as rig:
        rig.task.run()

        at_ms, checkpoint, _ = rig.checkpoints[0]
        assert (at_ms, checkpoint.elements, checkpoint.position) == (0, (record(1),), 1)


def test_a_full_queue_stops_the_reading_and_not_the_task_a33_m39() -> None:
    with open_task(ListSource(ELEMENTS[:2]), capacity=1, delay_ms=500) as rig:
        rig.task.run()

        assert rig.log[:2] == [(0, 1), (500, 2)]
        assert (rig.task.waits.soft_back_pressured.total_us, rig.task.waits.idle.total_us) == (1_000_000, 0)


def test_a_source_with_nothing_due_is_idle_m39() -> None:
    with open_task(ListSource(ELEMENTS[:2], gap_ms=40), delay_ms=1) as rig:
        rig.task.run()

        assert rig.log[:2] == [(0, 1), (40, 2)]
        assert (rig.task.waits.soft_back_pressured.total_us, rig.task.waits.idle.total_us) == (0, 80_000)


def test_once_all_is_finished_the_loop_runs_no_more_m28() -> None:
    ran: list[str] = []
    with open_task(ListSource(ELEMENTS)) as rig:
        rig.task.run()
        rig.rig.executor.execute(lambda: ran.append("mail"), "mail")

        rig.mailbox_processor.run_mailbox_loop(lambda: ran.append("default action"))

        assert ran == []


def test_a_barrier_is_no_element_of_a_source() -> None:
    with (
        open_task(ListSource([CheckpointBarrier(checkpoint_id=1)])) as rig,  # type: ignore[list-item]  # a mistake
        pytest.raises(TypeError, match="no input of an operator"),
    ):
        rig.task.run()


def test_a_mailbox_that_closes_under_a_task_is_its_end_m3() -> None:
    def close() -> None:
        rig.rig.mailbox.close()

    with open_task(ListSource(ELEMENTS, gap_ms=10)) as rig:
        rig.rig.executor.execute(close, "close")

        with pytest.raises(MailboxClosed):
            rig.task.run()
