"""The terminal: a reader who has gone is told apart from a verdict."""

from __future__ import annotations

import io

import pytest

from reports.pretty import terminal


class Gone(io.StringIO):
    """A pipe whose reader has closed it."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_who_has_gone_is_no_exit_with_code_1_which_is_a_violation_u5() -> None:
    with pytest.raises(BrokenPipeError):
        terminal(Gone()).print("a line")
