"""Claims about namespaces: apart until they are merged."""

from __future__ import annotations

import pytest

from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.tests.state_rig import keyed

VALUE = ValueStateDescriptor(name="value")
LIST = ListStateDescriptor(name="list", element_type=int)
SUM = ReducingStateDescriptor(name="sum", reduce=lambda old, new: old + new, value_type=int)


class Mean:
    """Sums and counts."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a[0] += b[0]
        a[1] += b[1]
        return a


MEAN = AggregatingStateDescriptor(name="mean", aggregate=Mean(), accumulator_type=list[int])


def test_merged_namespaces_concatenate_lists_and_leave_the_sources_empty_s7() -> None:
    one, _ = keyed()
    state = one.get_or_create_keyed_state(LIST)
    for namespace, elements in {"a": [1], "b": [2, 3], "c": [], "t": [9]}.items():
        state.set_current_namespace(namespace)
        state.add_all(elements)

    state.merge_namespaces("t", ["a", "b", "c"])

    met = {}
    for namespace in "abct":
        state.set_current_namespace(namespace)
        met[namespace] = state.get()
    assert met == {"a": [], "b": [], "c": [], "t": [9, 1, 2, 3]}


def test_merged_namespaces_reduce_and_aggregate_s7() -> None:
    one, _ = keyed()
    total, mean = one.get_or_create_keyed_state(SUM), one.get_or_create_keyed_state(MEAN)
    for namespace, value in ((1, 10), ((2, 3), 20)):
        for state in (total, mean):
            state.set_current_namespace(namespace)
            state.add(value)

    for state in (total, mean):
        state.merge_namespaces("target", [1, (2, 3), "empty"])
        state.set_current_namespace("target")

    assert (total.get(), mean.get()) == (30, 15.0)
    assert one.num_keyed_state_entries == 2


def test_a_merge_whose_function_raises_changes_nothing_s7() -> None:
    one, _ = keyed()
    state = one.get_or_create_keyed_state(
        ReducingStateDescriptor(name="total", reduce=lambda old, new: old // new, value_type=int)
    )
    for namespace, value in (("a", 0), ("t", 5)):
        state.set_current_namespace(namespace)
        state.add(value)

    with pytest.raises(ZeroDivisionError):
        state.merge_namespaces("t", ["a"])

    assert (state.current_namespace, state.get()) == ("t", 5)
    state.set_current_namespace("a")
    assert state.get() == 0


def test_a_merge_of_nothing_is_nothing_s7() -> None:
    one, _ = keyed()
    state = one.get_or_create_keyed_state(SUM)

    state.merge_namespaces("t", ["a", "b"])

    assert one.num_keyed_state_entries == 0


def test_namespaces_of_a_key_do_not_see_each_other_s1() -> None:
    one, _ = keyed()
    for namespace in (None, 1, True, "1", (1, 2)):
        one.get_partitioned_state(namespace, VALUE).update(repr(namespace))

    met = [one.get_partitioned_state(namespace, VALUE).value() for namespace in (None, 1, True, "1", (1, 2))]

    assert met == ["None", "1", "True", "'1'", "(1, 2)"]
