"""A failure becomes a result that stands for it, after the last try, in the record's own place."""

from __future__ import annotations

from typing import Any

import pytest

from harness.scenario.workloads.lookups import Lookup
from harness.sut.function_under_test import DeadLetter, DeadLetterFunction, is_dead_letter
from harness.sut.tests.handles import Answering, Told
from reference_impl.operator.result import ResultHandle

LOOKUP = Lookup(id=7, key=1, service_ms=0)


def test_a_failure_is_a_letter_with_its_reason() -> None:
    handle = Told()

    DeadLetterFunction(Answering(error=ValueError("no"))).invoke(LOOKUP, handle)

    assert handle.told == [("complete", [DeadLetter(id=7, error="ValueError: no")])]


def test_an_answer_is_an_answer() -> None:
    handle = Told()

    DeadLetterFunction(Answering()).invoke(LOOKUP, handle)

    assert handle.told == [("complete", ["answer 7"])]


class _Failing(Answering):
    """Its timeouts fail too."""

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        handle.fail(TimeoutError(f"record {value.id}"))


def test_a_timeout_that_fails_is_a_letter_too() -> None:
    handle = Told()

    DeadLetterFunction(_Failing()).timeout(LOOKUP, handle)

    assert handle.told == [("complete", [DeadLetter(id=7, error="TimeoutError: record 7")])]


class _Lazy(Answering):
    """Gives its results by a supplier, and shows the handle that it was given."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        assert handle.record_key is not None
        assert not handle.done
        handle.supply(lambda: [f"made {value.id}"])
        assert handle.done


def test_a_supplier_goes_through() -> None:
    handle = Told()

    DeadLetterFunction(_Lazy()).invoke(LOOKUP, handle)

    assert handle.told == [("supply", ["made 7"])]


def test_it_is_opened_and_closed_with_its_function() -> None:
    function = Answering()
    letters = DeadLetterFunction(function)

    letters.open()
    letters.close()

    assert function.life == ["open", "close"]


@pytest.mark.parametrize(
    ("results", "dead"), [([], False), (["x"], False), ([DeadLetter(id=1, error="no")], True)]
)
def test_a_letter_is_told_from_results(results: list[Any], dead: bool) -> None:  # noqa: FBT001 - what it is about
    assert is_dead_letter(results) is dead
