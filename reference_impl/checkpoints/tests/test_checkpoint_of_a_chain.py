"""Claims about the checkpoint of a whole chain: a keyed operator with timers in front of asynchronous lookups.

Everything is the real thing but the network and the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointMetrics, CheckpointOptions
from reference_impl.checkpoints.async_checkpoint import TaskStateSnapshot, TaskStateStore
from reference_impl.checkpoints.state_handler import StreamTaskStateInitializer
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.tests.checkpoint_rig import NotingResponder
from reference_impl.elements import OperatorInput
from reference_impl.functions.keyed_operators import KeyedProcessOperator
from reference_impl.functions.tests.examples import CountWindowAverage
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import ordered_wait
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink
from reference_impl.tests.rig import HandFunction, quickly, record, shown


class Job:
    """A task of two operators, from the start or from a checkpoint. Mutable."""

    def __init__(
        self,
        loop: VirtualLoop,
        restored: TaskStateSnapshot | None = None,
        *,
        checkpoint_id: int | None = None,
    ) -> None:
        self.happened: list[Any] = []
        self.emitted: list[Any] = []
        self.hand = HandFunction()
        self.responder = NotingResponder(self.happened)
        store = TaskStateStore(
            responder=self.responder, restored=restored, restored_checkpoint_id=checkpoint_id
        )
        self.states = StreamTaskStateInitializer(task_state_store=store, max_parallelism=8)
        self.mailbox = Mailbox(loop=loop)
        self.behind: list[Callable[[], None]] = []
        self.checkpoints = SubtaskCheckpointCoordinator(
            task_name="lookups",
            task_state_store=store,
            executor=self.behind.append,
            fail=self.happened.append,
        )
        self.chain = OperatorChain(
            [
                OperatorLink(
                    operator_id="average",
                    build=self._average,
                    state_handler=lambda _operator, _timers: self.states.handler_of("average"),
                ),
                OperatorLink(
                    operator_id="lookup",
                    build=self._lookup,
                    state_handler=lambda _operator, _timers: self.states.handler_of("lookup"),
                ),
            ],
            mailbox=self.mailbox,
            timers=lambda executor: Timers(loop, executor),
            record_writer=LocalRecordWriter(self._emit, on_event=self.happened.append),
            fail=self.happened.append,
        )
        self.chain.initialize_state_and_open_operators()

    def _average(self, *, timers: Timers, emit: Callable[[OperatorInput], None], **_: Any) -> Any:
        context = self.states.keyed_context_of("average", timers=timers, key_type=int)
        assert context.keyed_state_backend is not None
        assert context.timer_services is not None
        return KeyedProcessOperator(
            function=CountWindowAverage(),
            key_selector=lambda pair: pair[0],
            key_context=context.keyed_state_backend,
            timer_services=context.timer_services,
            emit=emit,
        )

    def _lookup(self, *, timers: Timers, **parts: Any) -> Any:
        self.states.context_of("lookup", timers=timers)
        return ordered_wait(function=self.hand, timeout_ms=0, timers=timers, **parts)

    def _emit(self, element: OperatorInput) -> None:
        self.emitted.append(shown(element))

    def process(self, *pairs: tuple[int, int]) -> None:
        """Records of a key and a value."""
        for pair in pairs:
            self.chain.process(record(pair))

    def answer(self) -> None:
        """Every call that is open ends, and what that emits leaves."""
        for handles in self.hand.attempts.values():
            for handle in handles:
                handle.complete(["found"])
        while (mail := self.mailbox.try_take(-1)) is not None:
            mail.action()

    def checkpoint(self, checkpoint_id: int) -> None:
        """Its synchronous part."""
        self.checkpoints.checkpoint_state(
            CheckpointMetaData(checkpoint_id=checkpoint_id),
            CheckpointOptions(),
            CheckpointMetrics(),
            operator_chain=self.chain,
            is_task_finished=False,
            is_running=lambda: True,
        )

    def work(self) -> None:
        """Its asynchronous part."""
        while self.behind:
            self.behind.pop(0)()


@contextmanager
def a_job(restored: TaskStateSnapshot | None = None, *, checkpoint_id: int | None = None) -> Iterator[Job]:
    """A task in virtual time."""
    with virtual_loop() as loop:
        yield Job(loop, restored, checkpoint_id=checkpoint_id)


def test_a_restored_chain_goes_on_where_it_was_cut_c4_c45_s10() -> None:
    with a_job() as job:
        job.process((1, 3), (1, 5), (1, 7))
        job.checkpoint(1)
        job.work()
        snapshot = job.responder.acknowledged[1]

    with a_job(snapshot, checkpoint_id=1) as again:
        again.process((1, 4), (1, 2))
        asked = list(again.hand.attempts)
        again.answer()

    assert asked == [(1, 4), (1, 5)]
    assert again.emitted == ["found", "found"]


def test_what_happens_while_it_is_written_is_not_in_the_snapshot_c7() -> None:
    with a_job() as job:
        job.process((1, 3))
        job.checkpoint(1)
        job.process((1, 5), (2, 1))
        job.answer()
        job.work()
        snapshot = job.responder.acknowledged[1]

    with a_job(snapshot, checkpoint_id=1) as again:
        replayed = list(again.hand.attempts)
        again.process((1, 5), (2, 1))

        assert replayed == []
        assert list(again.hand.attempts) == [(1, 4)]


def test_the_operators_keep_their_parts_by_their_ids_tail_first_c3() -> None:
    with a_job() as job:
        job.process((1, 3))
        job.checkpoint(1)
        job.work()

        snapshot = job.responder.acknowledged[1]

    assert snapshot is not None
    assert list(snapshot.operator_states) == ["lookup", "average"]
    assert snapshot.operator_states["average"].managed_keyed_state is not None
    assert snapshot.operator_states["lookup"].managed_operator_state is not None


@pytest.mark.parametrize("closed", [True, False])
def test_closed_operators_are_skipped_in_the_snapshot_c3_flink_16383(
    closed: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    with a_job() as job:
        if closed:
            job.chain.close_all_operators()
        job.checkpoint(1)
        job.work()

        snapshot = job.responder.acknowledged[1]

    assert (snapshot is None) == closed


@given(values=st.lists(st.integers(0, 9), min_size=1, max_size=8), data=st.data())
@settings(quickly, max_examples=15)
def test_wherever_it_is_cut_the_averages_are_those_of_one_run_c4_s10(
    values: list[int], data: st.DataObject
) -> None:
    """What had left before the cut, and what leaves after a restart from it, are what leaves without one."""
    pairs = [(1, value) for value in values]
    cut = data.draw(st.integers(0, len(pairs)))
    with a_job() as whole:
        whole.process(*pairs)
        expected = list(whole.hand.attempts.items())

    with a_job() as job:
        job.process(*pairs[:cut])
        job.checkpoint(1)
        job.process(*pairs[cut:])
        job.work()
        snapshot = job.responder.acknowledged[1]
    with a_job(snapshot, checkpoint_id=1) as again:
        again.process(*pairs[cut:])
        asked = [(value, len(handles)) for value, handles in again.hand.attempts.items()]

    assert asked == [(value, len(handles)) for value, handles in expected]
