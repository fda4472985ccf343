"""The table of errors: a number has one class, and what is no server's number is a lost connection."""

from __future__ import annotations

import pytest

from harness.database.transactions import _BY_CLASS, ERRORS, ErrorClass, class_of, code_of
from tools.cases import each


def test_no_number_stands_under_two_classes() -> None:
    assert sum(len(codes) for codes in _BY_CLASS.values()) == len(ERRORS)


@each(
    ("code", "kind"),
    [
        (2013, ErrorClass.RECONNECT),
        (1040, ErrorClass.RECONNECT),
        (1205, ErrorClass.RETRY),
        (1213, ErrorClass.RETRY),
        (1317, ErrorClass.RETRY),
        (1290, ErrorClass.BACK_OFF),
        (1114, ErrorClass.BACK_OFF),
        (1062, ErrorClass.DONE),
        (1146, ErrorClass.FAIL),
        (1054, ErrorClass.FAIL),
        (9999, ErrorClass.FAIL),
    ],
)
def test_the_class_of_a_number(code: int, kind: ErrorClass) -> None:
    assert class_of(code) is kind


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError(1213, "a deadlock"), 1213),
        (ValueError("Packet sequence number wrong"), "ValueError"),
        (ConnectionResetError(104, "reset by peer"), "ConnectionResetError"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_code_of_an_error_is_its_number_or_its_name(error: Exception, code: int | str) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize("code", ["ConnectionResetError", "TimeoutError", "InternalError"])
def test_what_is_no_number_is_a_lost_connection(code: str) -> None:
    assert class_of(code) is ErrorClass.RECONNECT
