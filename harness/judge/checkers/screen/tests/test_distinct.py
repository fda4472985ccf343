"""Values are told apart, however many there are, in whatever order they come, and cheaply where they are numbered."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judge.checkers.screen.totals import Distinct
from harness.system.choices import Choices
from tools.cases import each

MANY = 40_000


def distinct(values: list[Any], *, batch: int = 10_000) -> Distinct:
    found = Distinct()
    for at in range(0, len(values), batch):
        found.pending.extend(values[at : at + batch])
        found.settle()
    return found


def shuffled_nearby(count: int, seed: int) -> list[int]:
    """Each number at most some places from its own."""
    choices = Choices(seed, "shuffled nearby")
    numbers = list(range(count))
    for place in range(0, count - 8, 7):
        other = place + choices.index(8)
        numbers[place], numbers[other] = numbers[other], numbers[place]
    return numbers


MANY_KINDS: dict[str, list[Any]] = {
    "few": [1, "1", 2, "2"],
    "numbered": shuffled_nearby(MANY, 1),
    "with gaps": [number * 10 for number in range(MANY)],
    "words": [f"record {number}" for number in range(MANY)],
    "below zero": [-number for number in range(3, MANY)],
    "beyond a machine word": [2**61 - 1 + 2**70 * number for number in range(MANY)],
    "numbered and words": [*range(MANY), *(f"record {number}" for number in range(MANY))],
}


@each("kind", MANY_KINDS)
def test_different_values_are_different(kind: str) -> None:
    assert distinct(MANY_KINDS[kind]).all_different()


@each("kind", MANY_KINDS)
@each("share", [0.0, 0.5, 0.99])
def test_a_value_that_comes_twice_is_found_however_far_apart(kind: str, share: float) -> None:
    values = MANY_KINDS[kind]

    assert not distinct([*values, values[int(share * len(values))]]).all_different()


def test_a_number_that_comes_among_words_is_found_among_the_ranges() -> None:
    words = [f"record {number}" for number in range(MANY)]

    assert not distinct([*range(MANY), *words, 17], batch=MANY).all_different()


@pytest.mark.parametrize("odd", [True, 1.0, None, [1]])
def test_what_is_no_integer_and_no_string_is_not_vouched_for(odd: Any) -> None:
    assert not distinct([odd]).all_different()
    assert not distinct([*range(MANY), odd]).all_different()


def test_numbers_without_gaps_take_no_memory() -> None:
    found = distinct(shuffled_nearby(3 * MANY, 2))

    assert len(found._begins) < 10
    assert not found._buckets
