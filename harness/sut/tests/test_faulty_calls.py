"""Faults of calls pick their records and no others, as often as asked, and write down what they do first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from harness.faults.tests.entries import made
from harness.scenario.workloads.lookups import Lookup
from harness.sut.inside_faults import FaultyCalls, PlannedCalls, Poisoned
from harness.sut.tests.handles import Answering, Notes, Told
from reference_impl.operator.result import ResultHandle

ANSWERED = ("complete", ["answer 7"])


LOOKUP = Lookup(id=7, key=1, service_ms=0)


class Later(Answering):
    """Answers when `answer` is called."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self.answer = partial(super().invoke, value, handle)


class Died(BaseException):
    """In place of the process's end."""


def die(why: str, fault: str) -> None:
    assert fault == "f"
    raise Died(why)


def calls(does: str, *, left: int = 1, notes: Notes | None = None) -> tuple[FaultyCalls, Answering]:
    function = Answering()
    completions = {"twice": "duplicate_completion", "never": "missing_completion"}
    fault = made(completions[does], subtask=0) if does in completions else made("poison", subtask=0, how=does)
    planned = PlannedCalls(fault=fault, ids=range(7, 8), left=left)
    return FaultyCalls(function, [planned], journal=notes or Notes(), die=die), function


class Clock:
    """The turn of each timer that was asked for, and what is done in it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Callable[[], None]]] = []

    def at_timer(self, turn: str, act: Callable[[], None]) -> None:
        self.asked.append((turn, act))


def timed(how: str, clock: Clock, *, notes: Notes | None = None) -> FaultyCalls:
    planned = PlannedCalls(fault=made("answer_at_timeout", subtask=0, how=how), ids=[7], left=1)
    return FaultyCalls(Answering(), [planned], journal=notes or Notes(), die=die, at_timer=clock.at_timer)


def called(faulty: FaultyCalls, id_: int = 7) -> list[tuple[str, object]]:
    handle = Told()
    faulty.invoke(Lookup(id=id_, key=1, service_ms=0), handle)
    return handle.told


def test_a_record_that_no_fault_picks_is_called_as_ever() -> None:
    notes = Notes()
    faulty, _ = calls("raises", notes=notes)

    assert called(faulty, 8) == [("complete", ["answer 8"])]
    assert notes.acts == []


def test_a_call_that_raises_fails_without_the_function_being_asked() -> None:
    notes = Notes()
    faulty, function = calls("raises", notes=notes)

    ((kind, error),) = called(faulty)

    assert (kind, type(error)) == ("fail", Poisoned)
    assert function.asked == []
    assert notes.acts == [("f", "raises", {"id": 7})]


def test_a_silent_call_is_never_answered() -> None:
    faulty, function = calls("silent")

    assert called(faulty) == []
    assert function.asked == []


def test_a_call_that_kills_is_written_down_before_the_process_ends() -> None:
    notes = Notes()
    faulty, _ = calls("kills", notes=notes)

    with pytest.raises(Died, match="record 7"):
        called(faulty)

    assert notes.acts == [("f", "kills", {"id": 7})]


def test_a_completion_that_comes_twice_goes_through_both_times_and_is_measured() -> None:
    notes = Notes()
    faulty, _ = calls("twice", notes=notes)

    assert called(faulty) == [ANSWERED, ANSWERED]
    assert notes.measures == [("f", "completion repeated", {"id": 7, "by": "complete"})]


def test_a_completion_that_is_lost_was_asked_for_and_answered() -> None:
    notes = Notes()
    faulty, function = calls("never", notes=notes)

    assert called(faulty) == []
    assert function.asked == [7]
    assert notes.measures == [("f", "completion lost", {"id": 7, "by": "complete"})]


@pytest.mark.parametrize("how", ["before", "at"])
def test_an_answer_is_held_until_the_timer_of_its_record(how: str) -> None:
    clock, notes = Clock(), Notes()
    faulty, handle = timed(how, clock, notes=notes), Told()

    faulty.invoke(LOOKUP, handle)
    held = list(handle.told)
    ((turn, act),) = clock.asked
    act()

    assert (held, turn, handle.told) == ([], how, [ANSWERED])
    assert notes.measures == [("f", "answer at the timeout", {"id": 7, "by": "complete"})]


def test_an_answer_is_held_until_the_function_has_answered_the_timeout() -> None:
    faulty, handle = timed("after", Clock()), Told()

    faulty.invoke(LOOKUP, handle)
    faulty.timeout(LOOKUP, handle)
    faulty.timeout(LOOKUP, handle)

    assert handle.told == [("complete", ["late 7"]), ANSWERED, ("complete", ["late 7"])]


def test_an_answer_that_is_later_than_its_timeout_is_not_held_and_is_no_evidence() -> None:
    clock, notes, later = Clock(), Notes(), Later()
    planned = PlannedCalls(fault=made("answer_at_timeout", subtask=0, how="at"), ids=[7], left=1)
    faulty, handle = FaultyCalls(later, [planned], journal=notes, die=die, at_timer=clock.at_timer), Told()

    faulty.invoke(LOOKUP, handle)
    clock.asked[0][1]()
    later.answer()

    assert handle.told == [ANSWERED]
    assert notes.measures == []


@pytest.mark.parametrize("left", [0, 1, 3])
def test_it_acts_as_often_as_is_left_and_then_no_more(left: int) -> None:
    faulty, _ = calls("silent", left=left)

    answers = [called(faulty) for _ in range(5)]

    assert answers == [[]] * left + [[ANSWERED]] * (5 - left)


def test_a_timeout_is_the_functions_to_answer_and_it_is_opened_and_closed() -> None:
    faulty, function = calls("silent")
    handle = Told()

    faulty.open()
    faulty.timeout(Lookup(id=7, key=1, service_ms=0), handle)
    faulty.close()

    assert handle.told == [("complete", ["late 7"])]
    assert function.life == ["open", "close"]
