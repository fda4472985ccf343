"""Claims about key groups: every one has one owner at every parallelism."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.state.key_groups import (
    KeyGroupRange,
    assign_key_to_parallel_operator,
    assign_to_key_group,
    check_parallelism,
    compute_default_max_parallelism,
    compute_key_group_range_for_operator_index,
    compute_operator_index_for_key_group,
)
from tools.cases import each


@st.composite
def parallelisms(draw: st.DrawFn) -> tuple[int, int]:
    """A maximum and a parallelism."""
    max_parallelism = draw(st.one_of(st.integers(1, 300), st.sampled_from((1000, 4096, 32768))))
    return max_parallelism, draw(st.integers(1, min(max_parallelism, 200)))


@given(parallelisms())
def test_the_ranges_follow_each_other_without_gap_or_overlap_s8(drawn: tuple[int, int]) -> None:
    max_parallelism, parallelism = drawn

    ranges = [
        compute_key_group_range_for_operator_index(max_parallelism, parallelism, index)
        for index in range(parallelism)
    ]

    assert [one.start for one in ranges] == [0, *(one.end + 1 for one in ranges[:-1])]
    assert ranges[-1].end == max_parallelism - 1
    assert min(map(len, ranges)) >= 1


@given(parallelisms(), st.integers(0, 32767))
def test_the_owner_of_a_key_group_is_the_subtask_whose_range_has_it_s8(
    drawn: tuple[int, int], number: int
) -> None:
    max_parallelism, parallelism = drawn
    key_group = number % max_parallelism

    owner = compute_operator_index_for_key_group(max_parallelism, parallelism, key_group)

    for index in {max(owner - 1, 0), owner, min(owner + 1, parallelism - 1)}:
        its = compute_key_group_range_for_operator_index(max_parallelism, parallelism, index)
        assert (key_group in its) is (index == owner)


def test_the_ranges_of_the_page_s8() -> None:
    ranges = [str(compute_key_group_range_for_operator_index(128, 3, index)) for index in range(3)]

    assert ranges == ["[0, 42]", "[43, 85]", "[86, 127]"]


def test_ranges_and_owners_are_those_of_flink_s8() -> None:
    """A digest that a Java program over the genuine `KeyGroupRangeAssignment` came to."""
    digest = 17

    def take(number: int) -> None:
        nonlocal digest
        digest = (digest * 31 + number) % 1_000_000_007

    for most in (1, 2, 7, 100, 128, 1000, 32768):
        for parallelism in range(1, min(most, 24) + 1):
            for index in range(parallelism):
                its = compute_key_group_range_for_operator_index(most, parallelism, index)
                take(its.start)
                take(its.end)
                for key_group in range(0, most, max(1, most // 13)):
                    take(compute_operator_index_for_key_group(most, parallelism, key_group))
    assert digest == 775016160


@each(
    ("parallelism", "default"),
    [
        (1, 128),
        (85, 128),
        (86, 256),
        (128, 256),
        (170, 256),
        (171, 256),
        (1000, 2048),
        (21845, 32768),
        (21846, 32768),
        (32768, 32768),
    ],
)
def test_the_default_maximum_is_flinks_s8(parallelism: int, default: int) -> None:
    assert compute_default_max_parallelism(parallelism) == default


@given(st.one_of(st.integers(), st.text(max_size=8), st.tuples(st.integers(), st.text(max_size=3))))
def test_a_key_goes_to_the_subtask_that_owns_its_key_group_s8(key: int | str | tuple[int, str]) -> None:
    index = assign_key_to_parallel_operator(key, 128, 3)

    assert assign_to_key_group(key, 128) in compute_key_group_range_for_operator_index(128, 3, index)


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "problem"),
    [
        (0, 1, "the maximum parallelism is 0; give 1 to 32768"),
        (32769, 1, "the maximum parallelism is 32769; give 1 to 32768"),
        (4, 5, "the parallelism is 5; give 1 to 4"),
        (4, 0, "the parallelism is 0; give 1 to 4"),
    ],
)
def test_a_parallelism_out_of_bounds_is_refused_by_operator_s8(
    max_parallelism: int, parallelism: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=f"operator 'counts': {problem}"):
        check_parallelism(max_parallelism, parallelism, operator="counts")


@pytest.mark.parametrize("max_parallelism", [0, -1, 32769])
def test_a_key_has_no_key_group_of_a_maximum_out_of_bounds_s8(max_parallelism: int) -> None:
    with pytest.raises(ValueError, match=f"the maximum parallelism is {max_parallelism}; give 1 to 32768"):
        assign_to_key_group("key", max_parallelism)


def test_the_bounds_themselves_are_good_s8() -> None:
    assert compute_key_group_range_for_operator_index(1, 1, 0) == KeyGroupRange(start=0, end=0)
    assert compute_key_group_range_for_operator_index(32768, 32768, 32767) == KeyGroupRange(
        start=32767, end=32767
    )


def test_an_index_out_of_bounds_is_refused_s8() -> None:
    with pytest.raises(ValueError, match="there is no subtask 3; they are 0 to 2"):
        compute_key_group_range_for_operator_index(128, 3, 3)
    with pytest.raises(ValueError, match="there is no key group 128; they are 0 to 127"):
        compute_operator_index_for_key_group(128, 3, 128)


def test_an_intersection_may_be_none() -> None:
    first, second = KeyGroupRange(start=0, end=5), KeyGroupRange(start=4, end=9)

    assert first.intersection(second) == KeyGroupRange(start=4, end=5)
    assert list(first.intersection(KeyGroupRange(start=7, end=8))) == []
