"""Faults of calls pick their records and no others, as often as asked, and write down what they do first."""

from __future__ import annotations

import pytest

from harness.faults.tests.entries import made
from harness.scenario.workloads.lookups import Lookup
from harness.sut.inside_faults import FaultyCalls, PlannedCalls, Poisoned
from harness.sut.tests.handles import Answering, Notes, Told

ANSWERED = ("complete", ["answer 7"])


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
