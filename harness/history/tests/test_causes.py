"""The cause of a failure is what an error carries, or what somebody knows of it; otherwise there is none."""

from __future__ import annotations

from harness.history.event import Caused, cause_of


def behind(cause: BaseException) -> BaseException:
    error = RuntimeError("the task failed")
    error.__cause__ = ValueError("the call failed")
    error.__cause__.__cause__ = cause
    return error


def test_the_cause_is_that_of_the_error_behind_it_trust2() -> None:
    assert cause_of(behind(Caused("poisoned", by="bad"))) == "bad"


def test_an_error_of_its_own_has_no_cause_trust2() -> None:
    assert cause_of(behind(OSError("no"))) is None


def test_an_error_of_the_service_is_outside_only_for_somebody_who_knows_trust2() -> None:
    def is_outside(error: BaseException) -> bool:
        return isinstance(error, OSError)

    assert cause_of(behind(OSError("no")), is_outside=is_outside) == "outside"
    assert cause_of(behind(KeyError("no")), is_outside=is_outside) is None


def test_a_planted_error_is_planted_whatever_the_service_did_before_trust2() -> None:
    planted = Caused("planned", by="planted")
    planted.__cause__ = OSError("no")

    assert cause_of(behind(planted), is_outside=lambda error: isinstance(error, OSError)) == "planted"
