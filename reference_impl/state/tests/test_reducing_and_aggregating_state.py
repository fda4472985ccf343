"""Claims about states to which values are added."""

from __future__ import annotations

import pytest

from reference_impl.state.state_descriptor import AggregatingStateDescriptor, ReducingStateDescriptor
from reference_impl.state.tests.state_rig import keyed


class Mean:
    """Sums and counts; refuses what is negative."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        if value < 0:
            raise ValueError("negative")
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a[0] += b[0]
        a[1] += b[1]
        return a


MEAN = AggregatingStateDescriptor(name="mean", aggregate=Mean(), accumulator_type=list[int])


def test_a_reducing_state_reduces_old_and_new_in_this_order_s5() -> None:
    _, store = keyed()
    words = store.get_reducing_state(
        ReducingStateDescriptor(name="words", reduce=lambda old, new: f"{old}-{new}", value_type=str)
    )

    met = [words.get()]
    for word in "abc":
        words.add(word)
        met.append(words.get())

    assert met == [None, "a", "a-b", "a-b-c"]


def test_an_aggregating_state_is_none_until_something_is_added_s5() -> None:
    _, store = keyed()
    mean = store.get_aggregating_state(MEAN)

    met = [mean.get()]
    mean.add(1)
    mean.add(4)
    met.append(mean.get())
    mean.clear()
    met.append(mean.get())

    assert met == [None, 2.5, None]


def test_an_exception_in_the_function_leaves_the_old_value_s5() -> None:
    _, store = keyed()
    total = store.get_reducing_state(
        ReducingStateDescriptor(name="total", reduce=lambda old, new: old // new, value_type=int)
    )
    mean = store.get_aggregating_state(MEAN)
    total.add(6)
    mean.add(4)

    with pytest.raises(ZeroDivisionError):
        total.add(0)
    with pytest.raises(ValueError, match="negative"):
        mean.add(-100)

    assert (total.get(), mean.get()) == (6, 4.0)
