"""The operator's measures: what was done is what was asked, and a wrong operator gets no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.elements import OperatorInput, Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import ordered_wait
from tools.bench import windows
from tools.bench.answer import WrongOutput, require_all_in_order
from tools.bench.operator_rate import OperatorLoad, assembled, run_operator
from tools.bench.windows import run_callback_window, run_task_window

AT_ONCE = OperatorLoad(records=300, capacity=10, latency_ms=0)
TIMED = OperatorLoad(records=40, capacity=20, latency_ms=2)


class Spoiled:
    """An operator whose emissions go through `spoil`, which emits as it likes."""

    def __init__(self, spoil: Callable[[Callable[[Any], None], Any], None]) -> None:
        self._spoil = spoil

    def __call__(self, *, emit: Callable[[Any], None], **parts: Any) -> AsyncWaitOperator:
        return ordered_wait(emit=lambda element: self._spoil(emit, element), **parts)


def lose(emit: Callable[[Any], None], element: Any) -> None:
    if element.value != 7:
        emit(element)


def double(emit: Callable[[Any], None], element: Any) -> None:
    emit(element)
    if element.value == 7:
        emit(element)


@pytest.mark.parametrize("load", [AT_ONCE, TIMED])
def test_a_time_is_given_for_records_that_all_came_out_in_order(load: OperatorLoad) -> None:
    assert run_operator(load) >= load.ideal_s


@pytest.mark.parametrize("load", [AT_ONCE, TIMED])
@pytest.mark.parametrize("spoil", [lose, double])
def test_an_operator_that_loses_or_doubles_a_record_gets_no_time(
    load: OperatorLoad, spoil: Callable[[Callable[[Any], None], Any], None]
) -> None:
    with pytest.raises(WrongOutput, match="first wrong one is at"):
        run_operator(load, build=Spoiled(spoil))


def test_every_record_has_a_timer_while_it_is_in_flight() -> None:
    seen: list[int] = []

    def build(**parts: Any) -> AsyncWaitOperator:
        timers, function = parts["timers"], parts["function"]
        invoke = function.invoke

        def counting(value: int, handle: Any) -> None:
            seen.append(len(timers))
            invoke(value, handle)

        function.invoke = counting
        return ordered_wait(**parts)

    run_operator(TIMED, build=build)

    assert max(seen) == TIMED.capacity


def test_records_made_beforehand_are_those_that_are_processed() -> None:
    records = [Record(value=number) for number in range(AT_ONCE.records)]

    assert run_operator(AT_ONCE, records=records) > 0
    with pytest.raises(WrongOutput):
        run_operator(AT_ONCE, records=records[1:])


def test_the_function_may_be_another_than_the_echo() -> None:
    class Twice:
        def invoke(self, value: int, handle: Any) -> None:
            handle.complete([value, value])

        def timeout(self, value: int, handle: Any) -> None:
            handle.complete([])

    came_out: list[OperatorInput] = []
    with assembled(AT_ONCE, emit=came_out.append, function=Twice()) as bench:
        bench.drive(iter([Record(value=1)]))

    assert came_out == [Record(value=1), Record(value=1)]


def test_the_ideal_is_capacity_over_latency() -> None:
    load = OperatorLoad(records=20_000, capacity=100, latency_ms=5)

    assert (load.ideal_per_second, load.ideal_s) == (20_000, 1.0)


def test_the_windows_hold_to_the_same_outputs() -> None:
    assert run_task_window(AT_ONCE) > 0
    assert run_callback_window(TIMED) >= TIMED.ideal_s


def test_a_window_that_answers_wrongly_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong(value: int) -> list[int]:
        return [value + 1]

    monkeypatch.setattr(windows, "_echo", wrong)

    with pytest.raises(WrongOutput):
        run_task_window(AT_ONCE)


@pytest.mark.parametrize("came_out", [[0, 2, 1], [0, 1], [0, 1, 2, 2], []])
def test_only_each_value_once_and_in_order_is_accepted(came_out: list[int]) -> None:
    require_all_in_order([0, 1, 2], 3)

    with pytest.raises(WrongOutput):
        require_all_in_order(came_out, 3)
