"""Claims about functions that count: S10 with its rounding, and windows by count."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.functions.keyed_operators import KeyedProcessOperator
from reference_impl.functions.tests.examples import CountWindow, CountWindowAverage, Rounding
from reference_impl.functions.tests.keyed_bench import KeyedBench, owner_of
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.tests.rig import quickly, record
from tools.cases import each

EXAMPLE = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]


def by_first(function: Any) -> partial[KeyedProcessOperator]:
    return partial(KeyedProcessOperator, function=function, key_selector=lambda pair: pair[0])


def test_the_example_of_the_documentation_s10() -> None:
    with virtual_loop() as loop:
        bench = KeyedBench(loop, by_first(CountWindowAverage()))
        after_each = []
        for pair in EXAMPLE:
            bench.operator.process(record(pair))
            after_each.append(list(bench.values()))

        assert after_each == [[], [(1, 4)], [(1, 4)], [(1, 4), (1, 5)], [(1, 4), (1, 5)]]
        bench.backend.set_current_key(1)
        left = bench.backend.get_partitioned_state(
            None, ValueStateDescriptor(name="average", value_type=tuple[int, int], default=(0, 0))
        )
        assert left.value() == (1, 2)


@each(
    ("checkpoint", "crash"),
    [(checkpoint, crash) for crash in range(len(EXAMPLE) + 1) for checkpoint in range(crash + 1)],
)
def test_a_crash_anywhere_and_a_replay_give_the_same_s10(checkpoint: int, crash: int) -> None:
    with virtual_loop() as loop:
        before = KeyedBench(loop, by_first(CountWindowAverage()))
        for pair in EXAMPLE[:checkpoint]:
            before.operator.process(record(pair))
        saved, visible = before.save(), before.values()
        for pair in EXAMPLE[checkpoint:crash]:
            before.operator.process(record(pair))

        after = KeyedBench(loop, by_first(CountWindowAverage()), restored=[saved])
        for pair in EXAMPLE[checkpoint:]:
            after.operator.process(record(pair))

        assert visible + after.values() == [(1, 4), (1, 5)]


@pytest.mark.parametrize(
    ("rounding", "numbers", "average"),
    [
        (Rounding.TRUNCATE, (-3, -4), -3),
        (Rounding.FLOOR, (-3, -4), -4),
        (Rounding.TRUNCATE, (2**60, 2**60 + 1), 2**60),
        (Rounding.TRUNCATE, (-(2**60), -(2**60) - 1), -(2**60)),
    ],
)
def test_the_rounding_is_said_and_exact_beyond_floating_point_s10(
    rounding: Rounding, numbers: tuple[int, int], average: int
) -> None:
    with virtual_loop() as loop:
        bench = KeyedBench(loop, by_first(CountWindowAverage(rounding=rounding)))
        for number in numbers:
            bench.operator.process(record(("k", number)))

        assert bench.values() == [("k", average)]


def test_the_state_is_cleared_before_the_average_goes_out_s10() -> None:
    with virtual_loop() as loop:
        bench = KeyedBench(loop, by_first(CountWindowAverage(threshold=1)))
        for number in (5, 7):
            bench.operator.process(record(("k", number)))

        assert bench.values() == [("k", 5), ("k", 7)]
        assert bench.backend.num_keyed_state_entries == 0


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        CountWindow(size=0)
    with pytest.raises(ValueError, match="give 1 or more"):
        CountWindowAverage(threshold=0)


def test_each_key_has_windows_of_its_own() -> None:
    with virtual_loop() as loop:
        bench = KeyedBench(loop, by_first(CountWindow(size=2)))
        for pair in [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]:
            bench.operator.process(record(pair))

        assert bench.values() == [[("a", 1), ("a", 3)], [("b", 2), ("b", 5)]]


@quickly
@given(
    st.lists(st.sampled_from("abcd"), max_size=20),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_windows_are_the_same_with_and_without_a_restore_at_another_parallelism(
    keys: list[str], size: int, cut: int, old: int, new: int
) -> None:
    numbered = [(key, number) for number, key in enumerate(keys)]
    expected = []
    for key in dict.fromkeys(keys):
        own = [pair for pair in numbered if pair[0] == key]
        expected += [own[start : start + size] for start in range(0, len(own) - size + 1, size)]

    with virtual_loop() as loop:

        def subtasks(parallelism: int, **restored: Any) -> list[KeyedBench]:
            return [
                KeyedBench(
                    loop, by_first(CountWindow(size=size)), subtask=index, parallelism=parallelism, **restored
                )
                for index in range(parallelism)
            ]

        before = subtasks(old)
        for pair in numbered[:cut]:
            before[owner_of(pair[0], old)].operator.process(record(pair))
        after = subtasks(new, restored=[one.save() for one in before])
        for pair in numbered[cut:]:
            after[owner_of(pair[0], new)].operator.process(record(pair))

        emitted = [window for one in before + after for window in one.values()]
        assert sorted(emitted) == sorted([list(window) for window in expected])
