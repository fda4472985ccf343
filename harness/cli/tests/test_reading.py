"""Progress of a reading: a line that moves on a terminal, a line a tenth where asked for, else nothing."""

from __future__ import annotations

import io
import sys

import pytest

from harness.cli.judging import Moving, Tenths, reading

MB = 1_000_000


class Terminal(io.StringIO):
    """Standard error as a person has it."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the test itself: pytest puts its own standard error in between a fixture and its test."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_each_further_tenth_is_one_line() -> None:
    shown = io.StringIO()
    tenths = Tenths("long.jsonl", shown)

    for done in range(0, 101 * MB, MB):
        tenths(done, 100 * MB)

    lines = shown.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[4] == "read     40 % of 100.0 MB  long.jsonl"


def test_a_file_without_a_byte_is_read_at_once() -> None:
    shown = io.StringIO()

    Tenths("empty.jsonl", shown)(0, 0)

    assert shown.getvalue() == "read    100 % of 0 B, checking  empty.jsonl\n"


def test_the_moving_line_comes_after_half_a_second_and_then_eight_times_a_second() -> None:
    shown = io.StringIO()
    clock = iter([0, 400_000, 500_000, 550_000, 625_000])
    moving = Moving("long.jsonl", shown, now_us=clock.__next__)

    for percent in (10, 20, 30, 40):
        moving(percent * MB, 100 * MB)

    drawn = shown.getvalue().split("\r\x1b[K")
    assert drawn == ["", "read  20 % of 100.0 MB  long.jsonl", "read  40 % of 100.0 MB  long.jsonl"]


def test_the_last_byte_is_told_at_once_for_the_judging_may_take_long() -> None:
    shown = io.StringIO()
    moving = Moving("long.jsonl", shown, now_us=iter([0, 600_000, 600_001]).__next__)

    moving(99 * MB, 100 * MB)
    moving(100 * MB, 100 * MB)

    assert shown.getvalue().endswith("\r\x1b[Kread 100 % of 100.0 MB, checking  long.jsonl")


def test_the_moving_line_fits_the_terminal_and_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    shown = io.StringIO()
    moving = Moving("a-very-long-name.jsonl", shown, now_us=iter([0, 500_000]).__next__)

    moving(1, 2)
    moving.wipe()

    assert shown.getvalue() == "\r\x1b[Kread  50 % of 2 B  \r\x1b[K"


def test_a_line_that_never_came_is_not_wiped() -> None:
    shown = io.StringIO()
    moving = Moving("short.jsonl", shown, now_us=iter([0, 1]).__next__)

    moving(1, 1)
    moving.wipe()

    assert not shown.getvalue()


def test_a_terminal_gets_the_moving_line(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)

    with reading("x", quiet=False, verbose=False) as progress:
        assert isinstance(progress, Moving)


@pytest.mark.parametrize(("name", "value"), [("CI", "1"), ("TERM", "dumb")])
def test_ci_and_a_dumb_terminal_get_nothing(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    on_a_terminal(monkeypatch)
    monkeypatch.setenv(name, value)

    with reading("x", quiet=False, verbose=False) as progress:
        assert progress is None


def test_what_is_no_terminal_gets_nothing_but_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    with reading("x", quiet=False, verbose=False) as silent, reading("x", quiet=False, verbose=True) as asked:
        assert silent is None
        assert isinstance(asked, Tenths)


def test_quiet_beats_verbose_and_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)

    with reading("x", quiet=True, verbose=True) as progress:
        assert progress is None
