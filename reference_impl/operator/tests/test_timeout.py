"""Claims about the timeout of a call: A43-A50, and that it ends no other way but as mail (B25, B26)."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from reference_impl.errors import CallbackFailed, CallTimedOut, SimulationStuck
from reference_impl.operator.build import Mode
from reference_impl.operator.result import ResultHandle
from reference_impl.tests.rig import (
    HandFunction,
    OpenRig,
    open_rig,
    open_virtual,
    record,
    substitute,
    watermark,
)
from tools.cases import each

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


def silent(_: Any, __: ResultHandle) -> None:
    """A handler that answers nothing."""


def test_by_default_a_timeout_fails_the_task_a44(rigs: OpenRig) -> None:
    with rigs(timeout_ms=1) as rig:
        rig.process(record(1))
        rig.operator.end_input()

    (failure,) = rig.failures
    assert str(failure.__cause__) == "Async function call has timed out."
    assert rig.happened == [("called", 1), ("timeout", 1)]


def test_a_completed_record_does_not_time_out_though_its_mail_still_waits_a43() -> None:
    """FLINK-22573, B13: the timer's mail comes first, the completion's second."""
    function = HandFunction(timeout=lambda _, __: pytest.fail("timed out"))
    with open_rig(timeout_ms=1, function=function) as rig:
        rig.process(record(1))
        timer_mail = rig.mailbox.take()
        rig.complete(1, "a")

        timer_mail.action()
        rig.run_mail()

    assert rig.values() == ["a"]


def test_the_handler_is_asked_once_a43() -> None:
    with open_virtual(timeout_ms=5, function=HandFunction(timeout=silent)) as rig:
        rig.process(record(1))

        rig.advance(1_000)

        assert {value: len(handles) for value, handles in rig.hand.timeouts.items()} == {1: 1}


def test_a_late_result_after_the_timeout_is_ignored_a45(rigs: OpenRig) -> None:
    with rigs(timeout_ms=1, function=HandFunction(timeout=substitute())) as rig:
        rig.process(record(1))
        rig.operator.end_input()
        rig.complete(1, "late")
        rig.run_mail()

    assert (rig.emitted, rig.failures) == ([], [])


@each("results", [[], ["s"], ["s", "t", "u"]])
def test_a_handler_may_answer_with_any_number_of_results_a45(rigs: OpenRig, results: list[str]) -> None:
    with rigs(timeout_ms=1, function=HandFunction(timeout=substitute(*results))) as rig:
        rig.process(record(1), watermark(1))
        rig.operator.end_input()

    assert (rig.values(), rig.failures) == ([*results, "w1"], [])


def test_a_timeout_that_answers_nothing_keeps_its_slot_until_somebody_does_a46(rigs: OpenRig) -> None:
    with rigs(timeout_ms=1, function=HandFunction(timeout=silent)) as rig:
        rig.process(record(1))
        rig.executor.yield_()
        rig.run_mail()
        assert (len(rig.operator), len(rig.timers)) == (1, 0)

        rig.hand.timeouts[1][0].complete(["at last"])
        rig.run_mail()

    assert rig.values() == ["at last"]


def test_after_a_silent_handler_the_calls_own_result_still_counts_a46(rigs: OpenRig) -> None:
    with rigs(timeout_ms=1, function=HandFunction(timeout=silent)) as rig:
        rig.process(record(1))
        rig.executor.yield_()

        rig.complete(1, "at last")
        rig.run_mail()

    assert rig.values() == ["at last"]


@BOTH
def test_a_silent_handler_stalls_the_drain_and_the_error_names_the_record_a46_b2(mode: Mode) -> None:
    with open_virtual(mode=mode, timeout_ms=5, function=HandFunction(timeout=silent)) as rig:
        rig.process(record(7))

        with pytest.raises(SimulationStuck) as stuck:
            rig.operator.end_input()

    (note,) = stuck.value.__notes__
    assert "end of input" in note
    assert "value=7" in note


def test_a_timeout_that_raises_fails_the_task_a47(rigs: OpenRig) -> None:
    def burst(_: Any, __: ResultHandle) -> None:
        raise ArithmeticError

    with rigs(timeout_ms=1, function=HandFunction(timeout=burst)) as rig:
        rig.process(record(1))
        with pytest.raises(CallbackFailed, match="timeout") as raised:
            rig.operator.end_input()

    assert isinstance(raised.value.__cause__, ArithmeticError)


def test_after_a_drain_no_timer_is_left_a48(rigs: OpenRig) -> None:
    """B26, FLINK-5652."""
    with rigs(timeout_ms=60_000) as rig:
        for value in range(5):
            rig.process(record(value))
            rig.complete(value, value)
        assert len(rig.timers) == 5
        rig.operator.end_input()

        assert len(rig.timers) == 0


def test_a_timer_is_cancelled_when_the_outcome_is_processed_and_not_before_a48(rigs: OpenRig) -> None:
    with rigs(timeout_ms=60_000) as rig:
        rig.process(record(1))
        rig.complete(1)
        assert len(rig.timers) == 1

        rig.executor.yield_()

        assert len(rig.timers) == 0


def test_an_outcome_interrupts_no_running_handler_a48_b25() -> None:
    """A48, FLINK-13635: a result that comes while the handler runs lets it end, and the first word counts."""
    ended: list[Any] = []

    def slow(value: Any, handle: ResultHandle) -> None:
        rig.complete(value, "result")
        rig.run_mail()
        handle.complete(["substitute"])
        ended.append(value)

    with open_virtual(timeout_ms=1, function=HandFunction(timeout=slow)) as rig:
        rig.process(record(1))
        rig.advance(1)

    assert (rig.values(), ended) == (["result"], [1])


def test_in_virtual_time_a_timeout_is_due_at_its_instant_and_not_before_a49() -> None:
    with open_virtual(timeout_ms=50) as rig:
        rig.process(record(1))
        rig.advance(49)
        assert rig.hand.timeouts == {}

        rig.advance(50)

        assert list(rig.hand.timeouts) == [1]


def test_the_failure_of_a_timeout_names_the_record_and_frees_its_slot_a41_a44_b3() -> None:
    """B3, FLINK-6435: an ordered queue goes on behind it."""
    with open_virtual(timeout_ms=5) as rig:
        rig.process(record(1))
        rig.advance(2)
        rig.process(record(2))
        rig.complete(2, "b")
        rig.advance(6)

    assert rig.causes() == [CallTimedOut]
    assert str(rig.failures[0]) == f"Could not complete the stream element: {record(1)}."
    assert rig.values() == ["b"]
