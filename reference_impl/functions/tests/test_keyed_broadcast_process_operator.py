"""Claims about broadcast state as functions see it: S24."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from reference_impl.elements import OperatorInput
from reference_impl.errors import StateError
from reference_impl.functions.keyed_operators import KeyedBroadcastProcessOperator
from reference_impl.functions.process_function import (
    BroadcastContext,
    Collector,
    ProcessContext,
    RuntimeContext,
)
from reference_impl.functions.tests.keyed_bench import KeyedBench
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.state.state_descriptor import MapStateDescriptor, ValueStateDescriptor
from reference_impl.tests.rig import record, watermark

RULES = MapStateDescriptor(name="rules", key_type=str, value_type=int)
COUNT = ValueStateDescriptor(name="count", value_type=int, default=0)


class Limits:
    """Counts the records of a key and tells when it is beyond its limit; a rule (key, limit) sets that."""

    def __init__(self) -> None:
        self._count: Any = None

    def open(self, context: RuntimeContext) -> None:
        self._count = context.get_state(COUNT)

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        self._count.update(self._count.value() + 1)
        limit = context.get_broadcast_state(RULES).get(value)
        if limit is not None and self._count.value() > limit:
            out(("beyond", value))

    def process_broadcast_element(self, value: Any, context: BroadcastContext, out: Collector) -> None:
        name, limit = value
        context.get_broadcast_state(RULES).put(name, limit)
        context.apply_to_keyed_state(COUNT, lambda key, count: out((key, count.value())))

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None: ...


def build(function: Any = None) -> partial[KeyedBroadcastProcessOperator]:
    return partial(
        KeyedBroadcastProcessOperator,
        function=function or Limits(),
        key_selector=lambda value: value,
        broadcast_states=[RULES],
    )


@pytest.fixture
def bench() -> Iterator[KeyedBench]:
    with virtual_loop() as loop:
        yield KeyedBench(loop, build())


def feed(operator: KeyedBroadcastProcessOperator, *elements: tuple[int, OperatorInput]) -> None:
    for number, element in elements:
        (operator.process1 if number == 1 else operator.process2)(element)


def test_the_keyed_side_sees_what_the_broadcast_side_wrote_s24(bench: KeyedBench) -> None:
    feed(bench.operator, (2, record(("a", 1))), (1, record("a")), (1, record("a")), (1, record("b")))

    assert bench.values() == [("beyond", "a")]


def test_the_keyed_side_cannot_write_s24(bench: KeyedBench) -> None:
    class Writing(Limits):
        def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
            out(hasattr(context.get_broadcast_state(RULES), "put"))

    writing = KeyedBench(bench.loop, build(Writing()))
    feed(writing.operator, (1, record("a")))

    assert writing.values() == [False]


def test_the_broadcast_side_reaches_every_keys_state_s24(bench: KeyedBench) -> None:
    feed(bench.operator, (1, record("a")), (1, record("b")), (1, record("a")), (2, record(("c", 1))))

    assert sorted(bench.values()) == [("a", 2), ("b", 1)]


def test_on_the_broadcast_side_no_key_is_left_over_s1_s24(bench: KeyedBench) -> None:
    class Careless(Limits):
        def process_broadcast_element(self, value: Any, context: BroadcastContext, out: Collector) -> None:
            self._count.update(99)

    careless = KeyedBench(bench.loop, build(Careless()))
    feed(careless.operator, (1, record("a")))

    with pytest.raises(StateError, match="state 'count': no key is set"):
        feed(careless.operator, (2, record(("a", 1))))


def test_event_time_waits_for_both_sides(bench: KeyedBench) -> None:
    feed(bench.operator, (1, watermark(9)), (2, watermark(5)))

    assert bench.values() == ["w5"]


def test_each_subtask_keeps_a_copy_which_is_restored_s24() -> None:
    with virtual_loop() as loop:
        before = KeyedBench(loop, build())
        feed(before.operator, (2, record(("a", 1))), (1, record("a")))

        after = KeyedBench(loop, build(), restored=[before.save()])
        feed(after.operator, (1, record("a")))

        assert after.values() == [("beyond", "a")]


def test_all_subtasks_that_got_the_same_elements_have_the_same_state_s24() -> None:
    """Whatever records came in between: the broadcast side does not look at them."""
    rules = [record(("a", 1)), record(("b", 2)), record(("a", 3))]
    with virtual_loop() as loop:
        subtasks = [KeyedBench(loop, build(), subtask=index, parallelism=2) for index in range(2)]
        for rule in rules:
            feed(subtasks[0].operator, (2, rule))
        for key in ("key 1", "key 2", "key 3", "key 4"):
            for one in subtasks:
                if one.owns(key):
                    feed(one.operator, (1, record(key)))
        for rule in rules:
            feed(subtasks[1].operator, (2, rule))

        copies = [dict(one.operator_state.get_broadcast_state(RULES).entries()) for one in subtasks]
        assert copies == [{"a": 3, "b": 2}] * 2


def test_a_broadcast_state_that_the_operator_does_not_have_is_named(bench: KeyedBench) -> None:
    class Lost(Limits):
        def process_broadcast_element(self, value: Any, context: BroadcastContext, out: Collector) -> None:
            context.get_broadcast_state(MapStateDescriptor(name="other"))

    lost = KeyedBench(bench.loop, build(Lost()))

    with pytest.raises(ValueError, match="no broadcast state 'other', but .'rules'.; name its descriptor"):
        feed(lost.operator, (2, record(("a", 1))))
