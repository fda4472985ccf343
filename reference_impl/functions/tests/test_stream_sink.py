"""Claims about the ends of a chain: the operator of a sink function, and a filter on the way."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.elements import LatencyMarker, OperatorInput, Record, WatermarkStatus
from reference_impl.functions.sink import SinkContext, StreamSink
from reference_impl.functions.tests.examples import StreamFilter
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.state.internal_timers import MIN_WATERMARK
from reference_impl.state.tests.timer_bench import TimerBench
from reference_impl.tests.rig import record, shown, watermark


class Telling:
    """A sink function with every ability."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def invoke(self, value: Any, context: SinkContext) -> None:
        self.told.append((value, context))

    def initialize_state(self, context: Any) -> None:
        self.told.append("initialize")

    def open(self) -> None:
        self.told.append("open")

    def snapshot_state(self, context: Any) -> None:
        self.told.append(("snapshot", context.checkpoint_id))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.told.append(("aborted", checkpoint_id))

    def finish(self) -> None:
        self.told.append("finish")

    def close(self) -> None:
        self.told.append("close")


def live(sink: StreamSink) -> None:
    """All that can happen to it."""
    sink.initialize_state(StateInitializationContext(operator_id="sink"))
    sink.open()
    sink.process(Record(value="a", timestamp=7))
    sink.process(watermark(5))
    sink.process(LatencyMarker(id=1))
    sink.process(Record(value="b"))
    sink.snapshot_state(StateSnapshotContext(operator_id="sink", checkpoint_id=1))
    sink.notify_checkpoint_complete(1)
    sink.notify_checkpoint_aborted(2)
    sink.finish()
    sink.close()


def test_the_function_is_told_of_its_life_in_order_c45() -> None:
    with virtual_loop(start_ms=100) as loop:
        function = Telling()
        live(StreamSink(function=function, timers=TimerBench(loop).timers))

    first = SinkContext(current_processing_time=100, current_watermark=MIN_WATERMARK, timestamp=7)
    second = SinkContext(current_processing_time=100, current_watermark=5, timestamp=None)
    assert function.told == [
        *("initialize", "open", ("a", first), ("b", second), ("snapshot", 1)),
        *(("complete", 1), ("aborted", 2), "finish", "close"),
    ]


def test_a_function_needs_nothing_but_invoke() -> None:
    class Plain:
        def __init__(self) -> None:
            self.values: list[Any] = []

        def invoke(self, value: Any, context: SinkContext) -> None:
            self.values.append(value)

    with virtual_loop() as loop:
        function = Plain()
        live(StreamSink(function=function, timers=TimerBench(loop).timers))

    assert function.values == ["a", "b"]


def test_a_filter_drops_records_and_nothing_else() -> None:
    passed: list[OperatorInput] = []
    odd = StreamFilter(predicate=lambda value: value % 2 == 1, emit=passed.append)

    for element in (record(1), watermark(1), record(2), WatermarkStatus(idle=True), record(3)):
        odd.process(element)

    assert [shown(element) for element in passed] == [1, "w1", "idle", 3]


def test_what_a_predicate_raises_comes_out() -> None:
    broken = StreamFilter(predicate=lambda value: bool(1 / value), emit=lambda element: None)

    with pytest.raises(ZeroDivisionError):
        broken.process(record(0))
