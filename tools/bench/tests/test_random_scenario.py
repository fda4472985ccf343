"""The random scenario: the reference passes every seed, planted defects are convicted, equal seeds are equal."""

from __future__ import annotations

from typing import Any

import pytest

from harness.sut.defects import variant_of
from reference_impl.elements import Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, build_operator
from tools.bench import random_scenario
from tools.bench.answer import WrongOutput
from tools.bench.random_scenario import CAPACITY, ELEMENTS, RECORDS, run_seed, run_seeds
from tools.bench.scenario_machine import run_examples

SEEDS = 60


class Counted:
    """Builds the honest operator and notes what it is given; an operator is an attempt."""

    def __init__(self) -> None:
        self.emitted: list[list[Any]] = []
        self.requests = self.timeouts = self.most_in_flight = 0

    def __call__(self, **parts: Any) -> AsyncWaitOperator:
        emitted: list[Any] = []
        self.emitted.append(emitted)
        function, emit = parts["function"], parts["emit"]
        invoke, timeout = function.invoke, function.timeout

        def counting_emit(element: Any) -> None:
            emitted.append(element)
            emit(element)

        class Function:
            def invoke(inner, value: int, handle: Any) -> None:  # noqa: N805 - `self` is the counter's
                self.requests += 1
                self.most_in_flight = max(self.most_in_flight, len(operator))
                invoke(value, handle)

            def timeout(inner, value: int, handle: Any) -> None:  # noqa: N805
                self.timeouts += 1
                timeout(value, handle)

        operator = build_operator(**{**parts, "function": Function(), "emit": counting_emit})
        return operator


def convicted(seed: int, build: BuildOperator) -> bool:
    try:
        run_seed(seed, build=build)
    except WrongOutput:
        return True
    return False


def test_the_reference_passes_every_seed() -> None:
    assert run_seeds(SEEDS) > 0


def test_a_scenario_is_what_its_name_says() -> None:
    """50 records and 5 watermarks, a crash and so two attempts, at most capacity in flight, some timeouts."""
    counted = [Counted() for _ in range(SEEDS)]

    for seed, build in enumerate(counted):
        run_seed(seed, build=build)

    assert sum(isinstance(element, Record) for element in ELEMENTS) == RECORDS
    assert len(ELEMENTS) - RECORDS == 5
    assert {len(build.emitted) for build in counted} == {2}
    assert {build.most_in_flight for build in counted} == {CAPACITY}
    requests = sum(build.requests for build in counted)
    assert 60 < requests / SEEDS < 90
    assert 0.02 < sum(build.timeouts for build in counted) / requests < 0.09


def test_a_seed_gives_the_same_scenario_again() -> None:
    first, second = Counted(), Counted()

    run_seed(5, build=first)
    run_seed(5, build=second)

    assert first.emitted == second.emitted


def test_seeds_give_different_scenarios() -> None:
    runs = [Counted() for _ in range(20)]
    for seed, build in enumerate(runs):
        run_seed(seed, build=build)

    assert len({repr(build.emitted) for build in runs}) == len(runs)


@pytest.mark.parametrize("name", ["snapshot-omits-completed", "unordered-emission", "watermarks-at-once"])
def test_a_planted_defect_of_order_or_loss_is_convicted_by_some_seed(name: str) -> None:
    """What needs retries, effects or threads to be seen is the kill matrix's: this scenario has none of them."""
    assert any(convicted(seed, variant_of(name).build_operator) for seed in range(200))


def late_answers_win(**parts: Any) -> AsyncWaitOperator:
    """An operator that takes the answer after a timeout for the outcome (against A36)."""
    function = parts["function"]
    function.timeout = lambda value, handle: handle.complete([value + random_scenario._TOO_LATE])
    return build_operator(**parts)


def test_an_answer_that_came_too_late_is_told_from_the_substitute() -> None:
    assert any(convicted(seed, late_answers_win) for seed in range(20))


def test_the_machine_runs_the_same_scenario() -> None:
    assert run_examples(3) > 0


def test_the_machine_convicts_a_planted_defect_too() -> None:
    with pytest.raises((WrongOutput, ExceptionGroup)):
        run_examples(100, build=variant_of("watermarks-at-once").build_operator)
