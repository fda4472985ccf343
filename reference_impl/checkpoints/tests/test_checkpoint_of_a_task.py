"""Claims about checkpoints in a running task: what fails it, what it survives, and what its end waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import TaskStateStore
from reference_impl.checkpoints.state_handler import (
    StateInitializationContext,
    StateSnapshotContext,
    StreamTaskStateInitializer,
)
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.tests.checkpoint_rig import NotingResponder
from reference_impl.elements import OperatorInput
from reference_impl.errors import StateError
from reference_impl.mailbox.availability import DataInputStatus
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshots import SnapshotFuture
from reference_impl.state.state_descriptor import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from reference_impl.task.input_processor import StreamOneInputProcessor
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink, TaskEnvironment
from reference_impl.task.stream_task import StreamTask
from reference_impl.task.tests.task_rig import END, HandInput
from reference_impl.tests.rig import record, shown


class SeenOperator:
    """Keeps what it has seen in a list state, and passes it on. Mutable."""

    def __init__(self, emit: Callable[[OperatorInput], None], happened: list[Any]) -> None:
        self.error: Exception | None = None
        """What its next snapshot raises."""
        self._emit = emit
        self._happened = happened

    def initialize_state(self, context: StateInitializationContext) -> None:
        self._seen = context.operator_state_store.get_list_state(ListStateDescriptor(name="seen"))
        self._happened.append("initialize")

    def open(self) -> None:
        self._happened.append("open")

    def process(self, element: OperatorInput) -> None:
        self._seen.add(shown(element))
        self._emit(element)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        if self.error is not None:
            raise self.error

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._happened.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._happened.append(f"aborted {checkpoint_id}")


class Task:
    """A task with checkpoints, whose asynchronous parts run on the loop when a test lets them. Mutable."""

    def __init__(self, loop: VirtualLoop, task_input: HandInput) -> None:
        self.loop = loop
        self.input = task_input
        self.happened: list[Any] = []
        self.behind: list[Callable[[], None]] = []
        self.responder = NotingResponder(self.happened)
        store = TaskStateStore(responder=self.responder)
        self.states = StreamTaskStateInitializer(task_state_store=store)
        processor = MailboxProcessor(Mailbox(loop=loop))
        writer = LocalRecordWriter(self._emit, on_event=self._note_event)
        self.coordinator = SubtaskCheckpointCoordinator(
            task_name="seen",
            task_state_store=store,
            executor=self.behind.append,
            fail=processor.report_throwable,
            await_finished=lambda _futures: self.work(),
        )
        self.chain = OperatorChain(
            [
                OperatorLink(
                    operator_id="seen",
                    build=self._build,
                    state_handler=lambda _operator, _timers: self.states.handler_of("seen"),
                )
            ],
            mailbox=processor.mailbox,
            timers=lambda executor: Timers(loop, executor),
            record_writer=writer,
            fail=processor.report_throwable,
        )
        self.task = StreamTask(
            loop=loop,
            mailbox_processor=processor,
            operator_chain=self.chain,
            input_processor=StreamOneInputProcessor(task_input, operator_chain=self.chain),
            record_writer=writer,
            environment=TaskEnvironment(
                task_name="seen", decline_checkpoint=self.responder.decline_checkpoint
            ),
            checkpoints=self.coordinator,
        )

    def _build(self, *, timers: Timers, emit: Callable[[OperatorInput], None], **_: Any) -> SeenOperator:
        self.states.context_of("seen", timers=timers)
        self.operator = SeenOperator(emit, self.happened)
        return self.operator

    def _emit(self, element: OperatorInput) -> None:
        self.happened.append(shown(element))

    def _note_event(self, event: Any) -> None:
        if isinstance(event, CheckpointBarrier | CancelCheckpointMarker):
            self.happened.append(event)

    def work(self) -> None:
        """Run what is behind."""
        while self.behind:
            self.behind.pop(0)()

    def trigger(self, checkpoint_id: int) -> None:
        """Ask the task for its part."""
        self.task.trigger_checkpoint_async(
            CheckpointMetaData(checkpoint_id=checkpoint_id), CheckpointOptions()
        )

    def at(self, instant_ms: int, action: Callable[[], object]) -> None:
        """Do that then, as the world outside would."""
        self.loop.call_at_ms(instant_ms, action)

    def seen_in(self, checkpoint_id: int) -> list[Any]:
        """What the state held in that checkpoint."""
        snapshot = self.responder.acknowledged[checkpoint_id]
        assert snapshot is not None
        store = TaskStateStore(
            responder=self.responder, restored=snapshot, restored_checkpoint_id=checkpoint_id
        )
        initializer = StreamTaskStateInitializer(task_state_store=store)
        context = initializer.context_of("seen", timers=self.chain.timers[0])
        return context.operator_state_backend.get_list_state(ListStateDescriptor(name="seen")).get()


@contextmanager
def a_task(*script: Any) -> Iterator[Task]:
    """A task in virtual time."""
    with virtual_loop() as loop:
        yield Task(loop, HandInput(*script))


def ends_after_checkpoint(task: Task, checkpoint_id: int, *, at_ms: int) -> None:
    """The input ends then, and the last checkpoint follows (C18)."""
    task.at(at_ms, lambda: task.input.arrive(*END))
    task.at(at_ms + 1, lambda: task.trigger(checkpoint_id))
    task.at(at_ms + 2, task.work)
    task.at(at_ms + 3, lambda: task.task.notify_checkpoint_complete_async(checkpoint_id))


def test_state_is_initialised_before_the_operator_opens_c45() -> None:
    with a_task(DataInputStatus.NOTHING_AVAILABLE) as task:
        task.task.restore()

        assert task.happened == ["initialize", "open"]


def test_records_behind_the_barrier_are_exactly_those_not_in_the_snapshot_c4() -> None:
    with a_task(record(1), record(2), DataInputStatus.NOTHING_AVAILABLE) as task:
        task.at(5, lambda: task.trigger(1))
        task.at(6, lambda: task.input.arrive(record(3)))
        ends_after_checkpoint(task, 2, at_ms=10)

        task.task.invoke()
        barrier = next(what for what in task.happened if isinstance(what, CheckpointBarrier))
        before = task.happened[: task.happened.index(barrier)]

        assert [what for what in before if isinstance(what, int)] == [1, 2]
        assert task.seen_in(1) == [1, 2]
        assert task.seen_in(2) == [1, 2, 3, "w9223372036854775807"]


def test_a_task_survives_that_its_part_could_not_be_written_c9() -> None:
    with a_task(record(1), DataInputStatus.NOTHING_AVAILABLE) as task:

        def break_disk() -> None:
            parts = task.coordinator._pending[1]._snapshots_in_progress
            parts["seen"].managed_operator_state = SnapshotFuture.calling(_no_space)

        task.at(5, lambda: task.trigger(1))
        task.at(6, break_disk)
        task.at(7, task.work)
        ends_after_checkpoint(task, 2, at_ms=10)

        task.task.invoke()

        assert task.responder.declined[1].reason is CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
        assert list(task.responder.acknowledged) == [2]


def test_an_error_in_the_cut_fails_the_task_and_names_it_c5() -> None:
    with a_task(record(1), DataInputStatus.NOTHING_AVAILABLE) as task:
        task.operator.error = ArithmeticError("overflow")
        task.at(5, lambda: task.trigger(1))

        with pytest.raises(
            CheckpointException, match="'seen' could not take its part in checkpoint 1"
        ) as raised:
            task.task.invoke()
        task.task.clean_up(raised.value)

        assert task.responder.declined == {}
        assert "'seen'" in raised.value.__notes__[0]


def test_an_abort_by_call_ends_the_part_that_is_being_written_c12() -> None:
    with a_task(record(1), DataInputStatus.NOTHING_AVAILABLE) as task:
        task.at(5, lambda: task.trigger(1))
        task.at(6, lambda: task.task.notify_checkpoint_abort_async(1, 0))
        task.at(7, task.work)
        ends_after_checkpoint(task, 2, at_ms=10)

        task.task.invoke()

        assert "aborted 1" in task.happened
        assert list(task.responder.acknowledged) == [2]


def test_an_abort_that_comes_first_lets_nobody_downstream_wait_c2() -> None:
    with a_task(DataInputStatus.NOTHING_AVAILABLE) as task:
        task.at(5, lambda: task.task.notify_checkpoint_abort_async(1, 0))
        task.at(6, lambda: task.trigger(1))
        ends_after_checkpoint(task, 2, at_ms=10)

        task.task.invoke()

        assert CancelCheckpointMarker(checkpoint_id=1) in task.happened
        assert list(task.responder.acknowledged) == [2]


def test_the_last_checkpoint_says_that_the_task_has_finished_c18_c19() -> None:
    with a_task(record(1), DataInputStatus.NOTHING_AVAILABLE) as task:
        task.at(3, lambda: task.trigger(1))
        task.at(4, task.work)
        ends_after_checkpoint(task, 2, at_ms=10)

        task.task.invoke()

        finished = [
            snapshot.is_task_finished for snapshot in task.responder.acknowledged.values() if snapshot
        ]
        assert finished == [False, True]


def test_the_end_waits_for_what_is_being_written_m47() -> None:
    with a_task(record(1), DataInputStatus.NOTHING_AVAILABLE) as task:
        ends_after_checkpoint(task, 2, at_ms=10)
        task.at(12, lambda: task.trigger(3))  # nobody works on it before the task ends

        task.task.invoke()

        assert list(task.responder.acknowledged) == [2, 3]


def test_operators_of_a_task_that_has_ended_hear_nothing_more_c13_flink_16383() -> None:
    with a_task(record(1), DataInputStatus.NOTHING_AVAILABLE) as task:
        ends_after_checkpoint(task, 2, at_ms=10)
        task.task.invoke()
        task.task.clean_up()
        before = list(task.happened)

        task.coordinator.notify_checkpoint_complete(
            3, operator_chain=task.chain, is_running=lambda: task.task.is_running
        )
        task.chain.notify_checkpoint_complete(3)

        assert task.happened == before


def _no_space() -> Any:
    raise OSError("no space left")


def test_state_with_a_time_to_live_is_refused_where_nobody_has_handed_in_a_clock_s11() -> None:
    with a_task() as task:
        states = task.states.keyed_context_of("keyed", timers=task.chain.timers[0])
        descriptor = ValueStateDescriptor(name="seen", ttl=StateTtlConfig(time_to_live_ms=1))

        assert states.keyed_state_backend is not None
        with pytest.raises(StateError, match="operator 'keyed', state 'seen': .*pass now_ms"):
            states.keyed_state_backend.get_or_create_keyed_state(descriptor)
