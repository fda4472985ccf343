"""Signals and progress: when the first Ctrl-C ends the command at once, and what a terminal shows of many runs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys

import pytest
from rich.console import Console
from rich.live import Live

from harness.cli.run_campaign import Plain, Redrawn, stop_on_interrupt
from harness.system.errors import Exit


def test_ctrl_c_during_set_up_ends_it_at_once() -> None:
    with stop_on_interrupt() as stop, pytest.raises(KeyboardInterrupt), stop.setting_up():
        os.kill(os.getpid(), signal.SIGINT)

    assert stop.is_set()


def test_ctrl_c_during_a_run_lets_it_be_reported() -> None:
    with stop_on_interrupt() as stop:
        with stop.setting_up():
            pass
        os.kill(os.getpid(), signal.SIGINT)

        assert stop.is_set()


_KILLED_WITH_WORKERS = """
import os, signal
from harness.cli.run_campaign import stop_on_interrupt
from harness.system.pool import open_processes

with stop_on_interrupt(), open_processes(2) as machines:
    assert list(machines.map(len, [1, 2, 3, 4], most=1)) == [1, 1, 1, 1]
    print("working", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.real
def test_the_second_signal_ends_the_workers_too() -> None:
    """The pipes of the process are closed only when the last worker that inherited them is gone."""
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_WITH_WORKERS], capture_output=True, text=True, timeout=60, check=False
    )

    assert killed.stdout == "working\n"
    assert "floodmark: killed" in killed.stderr
    assert killed.returncode == Exit.INTERRUPTED


def test_a_terminal_shows_how_many_runs_are_done() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)

    with Live(console=console, auto_refresh=False) as live:
        Redrawn(console, live).counted(done=7, asked=20, unexpected=1)
        live.refresh()

    assert "7 of 20, 1 not as expected  (35 %)" in screen.getvalue()


def test_without_a_terminal_a_line_is_printed_now_and_then() -> None:
    screen = io.StringIO()
    plain = Plain(Console(file=screen, width=80))

    for done in range(1, 401):
        plain.counted(done=done, asked=500)

    assert screen.getvalue().splitlines() == ["run    200 of 500", "run    400 of 500"]
