"""Claims about two asynchronous operators in one task, with a filter between them: M25, M45, C3, C4, A59, A62, A89.

Everything is the real thing but the network and the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointMetrics, CheckpointOptions
from reference_impl.checkpoints.async_checkpoint import TaskStateSnapshot, TaskStateStore
from reference_impl.checkpoints.state_handler import StreamTaskStateInitializer
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.elements import OperatorInput
from reference_impl.functions.tests.examples import StreamFilter
from reference_impl.mailbox.availability import DataInputStatus
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode, build_operator
from reference_impl.operator.result import ResultHandle
from reference_impl.task.input_processor import StreamOneInputProcessor
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink, TaskEnvironment
from reference_impl.task.stream_task import StreamTask
from reference_impl.task.tests.task_rig import END, HandInput
from reference_impl.tests.rig import HandFunction, itself, quickly, record, shown, watermark

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


class TwoLookups:
    """A task of [lookup, filter, lookup], from the start or from a checkpoint. Mutable: keeps its checkpoints."""

    def __init__(
        self,
        loop: VirtualLoop,
        elements: Sequence[OperatorInput | DataInputStatus],
        *,
        mode: Mode = "ordered",
        capacities: tuple[int, int] = (10, 10),
        delay_ms: Callable[[str, Any], int] = lambda _name, _value: 10,
        keep: Callable[[Any], bool] = lambda _value: True,
        restored: tuple[int, TaskStateSnapshot | None] | None = None,
    ) -> None:
        self.loop = loop
        self.emitted: list[Any] = []
        self.cuts: dict[int, tuple[TaskStateSnapshot | None, list[Any], int]] = {}
        """Of each checkpoint its state, what had left before its barrier, and how many elements had been read."""
        self.input = CountingInput(*elements)
        self._delay_ms = delay_ms
        checkpoint_id, snapshot = restored or (None, None)
        processor = MailboxProcessor(Mailbox(loop=loop))
        store = TaskStateStore(responder=self, restored=snapshot, restored_checkpoint_id=checkpoint_id)
        self._states = StreamTaskStateInitializer(task_state_store=store)
        writer = LocalRecordWriter(self._emit)
        chain = OperatorChain(
            [
                self._lookup("first", mode=mode, capacity=capacities[0]),
                OperatorLink(
                    operator_id="filter", build=lambda *, emit, **_: StreamFilter(predicate=keep, emit=emit)
                ),
                self._lookup("second", mode=mode, capacity=capacities[1]),
            ],
            mailbox=processor.mailbox,
            timers=partial(Timers, loop),
            record_writer=writer,
            fail=processor.report_throwable,
        )
        self.task = StreamTask(
            loop=loop,
            mailbox_processor=processor,
            operator_chain=chain,
            input_processor=StreamOneInputProcessor(self.input, operator_chain=chain),
            record_writer=writer,
            environment=TaskEnvironment(
                task_name="two lookups",
                decline_checkpoint=self.decline_checkpoint,
                restored_checkpoint_id=checkpoint_id,
                checkpoints_after_tasks_finish=False,
            ),
            checkpoints=SubtaskCheckpointCoordinator(
                task_name="two lookups",
                task_state_store=store,
                executor=lambda part: part(),
                fail=processor.report_throwable,
            ),
        )

    def _lookup(self, name: str, **settings: Any) -> OperatorLink:
        def invoke(value: Any, handle: ResultHandle) -> None:
            self.loop.call_later(self._delay_ms(name, value) / 1000, handle.complete, [value])

        def build(**parts: Any) -> Any:
            self._states.context_of(name, timers=parts["timers"])
            return build_operator(
                timeout_ms=0, key_of=itself, function=HandFunction(invoke=invoke), **settings, **parts
            )

        return OperatorLink(
            operator_id=name,
            build=build,
            state_handler=lambda _operator, _timers: self._states.handler_of(name),
        )

    def _emit(self, element: OperatorInput) -> None:
        if shown(element) != LAST:
            self.emitted.append(shown(element))

    def cut_at(self, instant_ms: int, checkpoint_id: int) -> None:
        """Trigger a checkpoint then."""
        metadata, options = CheckpointMetaData(checkpoint_id=checkpoint_id), CheckpointOptions()
        self.loop.call_at_ms(instant_ms, lambda: self.task.trigger_checkpoint_async(metadata, options))

    def acknowledge_checkpoint(
        self, checkpoint_id: int, _metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """The asynchronous part runs at once, so what has left is what had left before the barrier."""
        self.cuts[checkpoint_id] = (snapshot, list(self.emitted), self.input.read)

    def decline_checkpoint(self, checkpoint_id: int, cause: Exception) -> None:
        """None is expected to be."""
        raise AssertionError(f"checkpoint {checkpoint_id} was declined") from cause

    def run(self) -> list[Any]:
        """To the end; what came out."""
        self.task.invoke()
        self.task.clean_up()
        return self.emitted


LAST = f"w{2**63 - 1}"


class CountingInput(HandInput):
    """Knows how far it is."""

    read = 0

    def emit_next(self, output: Any) -> Any:
        """One further."""
        self.read += 1
        return super().emit_next(output)


@BOTH
def test_what_passes_the_filter_passes_both_lookups_a89(mode: Mode) -> None:
    elements: list[OperatorInput | DataInputStatus] = [record(1), record(2), watermark(2), record(3), *END]
    with virtual_loop() as loop:
        assert TwoLookups(loop, elements, mode=mode, keep=lambda value: value != 2).run() == [1, "w2", 3]


def test_the_second_lookup_works_while_the_first_waits_m25() -> None:
    """M25, FLINK-13248: ten records of two calls of 10 ms each, one at a time: overlapped, not one after the other."""
    with virtual_loop() as loop:
        task = TwoLookups(loop, [*map(record, range(10)), *END], capacities=(1, 1))

        assert task.run() == list(range(10))
        assert loop.now_ms() <= 10 * (10 + 1) + 10


@pytest.mark.parametrize("slow", ["first", "second"])
@BOTH
def test_a_slow_lookup_holds_nothing_up_for_ever_m45_a62(mode: Mode, slow: str) -> None:
    """M45, A62, A90: what the first drains, the second takes in though it is full, and drains itself."""
    with virtual_loop() as loop:
        task = TwoLookups(
            loop,
            [*map(record, range(20)), *END],
            mode=mode,
            capacities=(5, 1),
            delay_ms=lambda name, _value: 50 if name == slow else 1,
        )

        assert sorted(task.run()) == list(range(20))


def test_a_checkpoint_waits_for_no_call_of_either_a57() -> None:
    """A57, FLINK-39835: the second is full, the first cannot emit, and both calls take a second."""
    with virtual_loop() as loop:
        task = TwoLookups(loop, [*map(record, range(5)), *END], capacities=(2, 1), delay_ms=lambda *_: 1_000)
        task.cut_at(5, 1)

        def look() -> None:
            assert list(task.cuts) == [1]

        loop.call_at_ms(6, look)
        task.run()

        snapshot, emitted, read = task.cuts[1]
        assert snapshot is not None
        assert (emitted, read) == ([], 2)


@BOTH
@quickly
@given(
    keys=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    delays=st.lists(st.integers(1, 15), min_size=20, max_size=20),
    capacities=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    cut_ms=st.integers(0, 60),
)
def test_what_left_before_a_cut_and_what_its_restore_emits_is_everything_once_a59(
    mode: Mode, keys: list[int], delays: list[int], capacities: tuple[int, int], cut_ms: int
) -> None:
    """A59, C3, C4: whatever is in the first, in the second, or on no way between."""
    elements = [record(number * 10 + key) for number, key in enumerate(keys)]
    delay_of = {"first": delays[:10], "second": delays[10:]}

    def delay_ms(name: str, value: int) -> int:
        return delay_of[name][value % 10]

    def keep(value: int) -> bool:
        return value % 10 != 3

    wanted = [element.value for element in elements if keep(element.value)]
    same: dict[str, Any] = {"mode": mode, "capacities": capacities, "delay_ms": delay_ms, "keep": keep}
    with virtual_loop() as loop:
        before = TwoLookups(loop, [*elements, *END], **same)
        before.cut_at(cut_ms, 7)
        whole = before.run()
        assert sorted(whole) == sorted(wanted)
        assert mode != "ordered" or whole == wanted
    if 7 not in before.cuts:
        return  # the task had ended before
    snapshot, emitted, read = before.cuts[7]
    with virtual_loop() as loop:
        after = TwoLookups(loop, [*elements[read:], *END], restored=(7, snapshot), **same)

        assert sorted([*emitted, *after.run()]) == sorted(wanted)
