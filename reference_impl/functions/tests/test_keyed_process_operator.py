"""Claims about keyed functions: keys, timers, watermarks, restores (S1, T10-T16, C45)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from reference_impl.elements import LatencyMarker, Record, WatermarkStatus
from reference_impl.functions.keyed_operators import KeyedCoProcessOperator, KeyedProcessOperator
from reference_impl.functions.process_function import Collector, ProcessContext, RuntimeContext, TimeDomain
from reference_impl.functions.tests.keyed_bench import KeyedBench, owner_of
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.tests.rig import watermark


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as loop:
        yield loop


class CountAndTell:
    """Counts the records of a key; each sets timers `delay` later, which tell the count and clear it."""

    def __init__(self, *, event_time: int | None = None, processing_time: int | None = None) -> None:
        self._event_time = event_time
        self._processing_time = processing_time
        self._count: Any = None
        self.closed = 0
        self.seen: list[tuple[Any, ...]] = []

    def open(self, context: RuntimeContext) -> None:
        self._count = context.get_state(ValueStateDescriptor(name="count", value_type=int, default=0))

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        self._count.update(self._count.value() + 1)
        if self._event_time is not None and context.timestamp is not None:
            context.timer_service.register_event_time_timer(context.timestamp + self._event_time)
        if self._processing_time is not None:
            now = context.timer_service.current_processing_time
            context.timer_service.register_processing_time_timer(now + self._processing_time)

    process_element1 = process_element
    process_element2 = process_element

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        self.seen.append((timestamp, context.current_key, context.time_domain))
        out((context.current_key, self._count.value()))
        self._count.clear()

    def close(self) -> None:
        self.closed += 1


def keyed(function: Any, **more: Any) -> partial[KeyedProcessOperator]:
    return partial(KeyedProcessOperator, function=function, key_selector=lambda value: value, **more)


def two_inputs(function: Any) -> partial[KeyedCoProcessOperator]:
    return partial(
        KeyedCoProcessOperator,
        function=function,
        key_selectors=(lambda value: value, lambda value: value.lower()),
    )


def at(timestamp: int, value: Any = "k", position: int | None = None) -> Record:
    return Record(value=value, timestamp=timestamp, position=position)


def test_a_call_sees_the_state_of_its_own_key_s1(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, keyed(CountAndTell(event_time=10)))

    for key in "aab":
        bench.operator.process(at(0, key))
    bench.operator.process(watermark(10))

    assert bench.values() == [("a", 2), ("b", 1), "w10"]


def test_the_watermark_leaves_behind_what_its_timers_emit_t12(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, keyed(CountAndTell(event_time=10)))
    bench.operator.process(at(5))

    for time in (14, 15):
        bench.operator.process(watermark(time))

    assert bench.values() == ["w14", ("k", 1), "w15"]


def test_a_timer_of_each_domain_is_told_as_such_t10(loop: VirtualLoop) -> None:
    function = CountAndTell(event_time=10, processing_time=10)
    bench = KeyedBench(loop, keyed(function))
    bench.operator.process(at(0))

    bench.operator.process(watermark(10))
    bench.advance(10)

    assert function.seen == [(10, "k", TimeDomain.EVENT_TIME), (10, "k", TimeDomain.PROCESSING_TIME)]


def test_what_an_event_time_timer_emits_has_its_instant_and_what_the_clocks_emits_has_none(
    loop: VirtualLoop,
) -> None:
    bench = KeyedBench(loop, keyed(CountAndTell(event_time=10, processing_time=10)))
    bench.operator.process(at(7, position=3))

    bench.operator.process(watermark(17))
    bench.advance(10)

    assert bench.records() == [(("k", 1), 17, None), (("k", 0), None, None)]


def test_what_is_emitted_for_a_record_has_its_event_time_and_position(loop: VirtualLoop) -> None:
    class Echo:
        def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
            out(context.current_key)

    bench = KeyedBench(loop, keyed(Echo()))
    bench.operator.process(at(7, position=3))

    assert bench.records() == [("k", 7, 3)]


def test_what_is_neither_record_nor_watermark_goes_on(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, keyed(CountAndTell()))
    others = [WatermarkStatus(idle=True), LatencyMarker(id=1)]

    for element in others:
        bench.operator.process(element)

    assert bench.emitted == others


def test_a_function_without_on_timer_lets_its_timers_pass(loop: VirtualLoop) -> None:
    class Careless:
        def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
            context.timer_service.register_event_time_timer(5)

    bench = KeyedBench(loop, keyed(Careless()))
    bench.operator.process(at(0))
    bench.operator.process(watermark(5))

    assert bench.values() == ["w5"]


def test_mail_goes_between_two_timers_where_an_executor_is_given_t13(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, keyed(CountAndTell(event_time=10)), interruptible=True)
    for key in "abc":
        bench.operator.process(at(0, key))
    bench.executor.execute(lambda: bench.emitted.append(LatencyMarker(id=7)), "a barrier, for instance")

    bench.operator.process(watermark(10))
    bench.run_mail()

    assert bench.values() == [("a", 1), LatencyMarker(id=7), ("b", 1), ("c", 1), "w10"]


def test_state_and_timers_come_back_together_t15(loop: VirtualLoop) -> None:
    before = KeyedBench(loop, keyed(CountAndTell(event_time=10)))
    for key in "aab":
        before.operator.process(at(0, key))

    after = KeyedBench(loop, keyed(CountAndTell(event_time=10)), restored=[before.save()])
    after.operator.process(at(0, "b"))
    after.operator.process(watermark(10))

    assert after.values() == [("a", 2), ("b", 2), "w10"]


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 1), (2, 5)])
def test_each_key_has_its_state_and_its_timer_at_one_subtask_after_a_rescale_t15(
    loop: VirtualLoop, old: int, new: int
) -> None:
    keys = [f"key {number}" for number in range(20)]
    before = [
        KeyedBench(loop, keyed(CountAndTell(processing_time=10)), subtask=index, parallelism=old)
        for index in range(old)
    ]
    for number, key in enumerate(keys):
        for _ in range(number + 1):
            before[owner_of(key, old)].operator.process(at(0, key))
    saved = [one.save() for one in before]
    for one in before:
        one.operator.close()
    loop.advance(100)

    told = []
    for index in range(new):
        after = KeyedBench(loop, keyed(CountAndTell()), restored=saved, subtask=index, parallelism=new)
        after.advance(100)
        told += after.values()
        assert all(owner_of(key, new) == index for key, _ in after.values())

    assert sorted(told) == sorted((key, number + 1) for number, key in enumerate(keys))


def test_nothing_fires_once_it_is_closed_t16(loop: VirtualLoop) -> None:
    function = CountAndTell(processing_time=10)
    bench = KeyedBench(loop, keyed(function))
    bench.operator.process(at(0))

    bench.operator.close()
    bench.advance(100)

    assert (bench.values(), function.closed) == ([], 1)


# --------------------------------------------------------------------------------------------------- two inputs


def test_two_inputs_share_the_state_of_a_key_s1(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, two_inputs(CountAndTell(event_time=10)))
    bench.operator.process1(at(0, "k"))
    bench.operator.process2(at(0, "K"))

    for process in (bench.operator.process1, bench.operator.process2):
        process(watermark(10))

    assert bench.values() == [("k", 2), "w10"]


def test_event_time_is_the_lesser_of_the_inputs(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, two_inputs(CountAndTell()))

    bench.operator.process_watermark1(watermark(10))
    bench.operator.process_watermark2(watermark(4))
    bench.operator.process_watermark2(watermark(7))
    bench.operator.process_watermark1(watermark(11))

    assert bench.values() == ["w4", "w7"]


def test_an_idle_input_holds_nobody_back(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, two_inputs(CountAndTell()))
    bench.operator.process_watermark1(watermark(10))

    bench.operator.process_watermark_status2(WatermarkStatus(idle=True))
    bench.operator.process_watermark_status1(WatermarkStatus(idle=True))
    bench.operator.process_watermark_status2(WatermarkStatus(idle=False))

    assert bench.values() == ["w10", "idle", "active"]


def test_when_all_inputs_are_idle_the_highest_watermark_leaves_before_the_status_w3_d1(
    loop: VirtualLoop,
) -> None:
    bench = KeyedBench(loop, two_inputs(CountAndTell()))
    bench.operator.process_watermark1(watermark(10))
    bench.operator.process_watermark2(watermark(4))

    bench.operator.process_watermark_status1(WatermarkStatus(idle=True))
    bench.operator.process_watermark_status2(WatermarkStatus(idle=True))

    assert bench.values() == ["w4", "w10", "idle"]


def test_the_watermark_never_falls_when_an_input_wakes_up_behind(loop: VirtualLoop) -> None:
    bench = KeyedBench(loop, two_inputs(CountAndTell()))
    bench.operator.process_watermark1(watermark(10))
    bench.operator.process_watermark_status2(WatermarkStatus(idle=True))

    bench.operator.process_watermark2(watermark(3))
    bench.operator.process_watermark1(watermark(20))
    bench.operator.process_watermark2(watermark(15))

    assert bench.values() == ["w10", "w15"]


def test_elements_go_to_the_method_of_their_input(loop: VirtualLoop) -> None:
    class Sides:
        def process_element1(self, value: Any, context: ProcessContext, out: Collector) -> None:
            out((1, value))

        def process_element2(self, value: Any, context: ProcessContext, out: Collector) -> None:
            out((2, value))

    bench = KeyedBench(loop, two_inputs(Sides()))
    bench.operator.process_element1(at(0, "a"))
    bench.operator.process_element2(at(0, "b"))
    bench.operator.process2(LatencyMarker(id=7))

    assert bench.values() == [(1, "a"), (2, "b"), LatencyMarker(id=7)]
