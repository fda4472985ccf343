"""Claims about timers where they live: in a chain that finishes, and in front of an operator that yields (T13, T16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reference_impl.checkpoint_events import StopMode
from reference_impl.checkpoints.async_checkpoint import TaskStateStore
from reference_impl.checkpoints.state_handler import StreamTaskStateInitializer
from reference_impl.checkpoints.tests.checkpoint_rig import NotingResponder
from reference_impl.elements import OperatorInput
from reference_impl.functions.keyed_operators import KeyedProcessOperator
from reference_impl.functions.process_function import Collector, ProcessContext
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink
from reference_impl.tests.rig import record, shown, watermark


class Alarm:
    """Each record sets a timer in both times at its own instant; each timer tells of itself."""

    def process_element(self, value: int, context: ProcessContext, out: Collector) -> None:
        context.timer_service.register_event_time_timer(value)
        context.timer_service.register_processing_time_timer(value)

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        out(timestamp)


class Yielding:
    """Waits for room, as it were, with each element: meanwhile it runs mail of its own, and of nobody before it."""

    def __init__(self, *, executor: MailboxExecutor, emit: Callable[[OperatorInput], None], **_: Any) -> None:
        self._executor = executor
        self._emit = emit
        self._depth = 0

    def process(self, element: OperatorInput) -> None:
        self._depth += 1
        assert self._depth == 1, "an emission was entered again (A90)"
        while self._executor.try_yield():
            pass
        self._emit(element)
        self._depth -= 1

    def finish(self) -> None:
        self._emit(record("finish"))


class ChainBench:
    """An alarm in front of an operator that yields."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.emitted: list[Any] = []
        self.mailbox = Mailbox(loop=loop)
        store = TaskStateStore(responder=NotingResponder([]), restored=None, restored_checkpoint_id=None)
        self._states = StreamTaskStateInitializer(task_state_store=store)
        self.chain = OperatorChain(
            [
                OperatorLink(
                    operator_id="alarm",
                    build=self._alarm,
                    state_handler=lambda _operator, _timers: self._states.handler_of("alarm"),
                ),
                OperatorLink(operator_id="yielding", build=Yielding),
            ],
            mailbox=self.mailbox,
            timers=lambda executor: Timers(loop, executor),
            record_writer=LocalRecordWriter(lambda element: self.emitted.append(shown(element))),
            fail=self.emitted.append,
        )
        self.chain.initialize_state_and_open_operators()

    def _alarm(
        self, *, executor: MailboxExecutor, timers: Timers, emit: Callable[[OperatorInput], None], **_: Any
    ) -> KeyedProcessOperator:
        context = self._states.keyed_context_of("alarm", timers=timers)
        assert context.keyed_state_backend is not None
        assert context.timer_services is not None
        return KeyedProcessOperator(
            function=Alarm(),
            key_selector=lambda value: value,
            key_context=context.keyed_state_backend,
            timer_services=context.timer_services,
            emit=emit,
            executor=executor,
        )

    def mail(self, priority: int) -> None:
        MailboxExecutor(self.mailbox, priority).execute(lambda: self.emitted.append("mail"), "mail")

    def process(self, *elements: OperatorInput) -> None:
        for element in elements:
            self.chain.process(element)


@pytest.fixture
def bench() -> Iterator[ChainBench]:
    with virtual_loop() as loop:
        yield ChainBench(loop)


def test_an_operator_that_yields_in_the_midst_of_a_timers_emission_fires_no_other_t13_flink_35528(
    bench: ChainBench,
) -> None:
    bench.process(record(10), record(20), record(30))
    bench.mail(priority=0)
    bench.mail(priority=1)

    bench.process(watermark(30))
    while bench.mailbox.has_mail():
        bench.mailbox.take().action()

    assert bench.emitted == ["mail", 10, "mail", 20, 30, "w30"]


def test_a_chain_that_finishes_fires_what_an_interrupted_watermark_left_t13_flink_39481(
    bench: ChainBench,
) -> None:
    bench.process(record(10), record(20))
    bench.mail(priority=0)
    bench.process(watermark(20))
    assert bench.emitted == [10]

    bench.chain.finish_operators(StopMode.DRAIN)

    assert bench.emitted == [10, "mail", 20, "w20", "finish"]


def test_no_timer_of_the_clock_fires_once_its_operator_has_finished_t16(bench: ChainBench) -> None:
    bench.process(record(10))
    bench.chain.finish_operators(StopMode.DRAIN)

    bench.process(record(20))
    bench.loop.advance(100)
    bench.loop.run_ready()

    assert bench.emitted == ["finish"]
    assert not bench.mailbox.has_mail()


def test_no_timer_fires_once_the_chain_is_closed_t16(bench: ChainBench) -> None:
    bench.process(record(10))
    bench.loop.advance(10)
    bench.loop.run_ready()
    assert bench.mailbox.has_mail()

    bench.chain.close_all_operators()
    while bench.mailbox.has_mail():
        bench.mailbox.take().action()

    assert bench.emitted == []
