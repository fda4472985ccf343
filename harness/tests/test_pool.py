"""Processes of this machine that run pieces of work."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from harness.system.pool import open_processes


def first_or_for_ever(items: Sequence[int]) -> int:
    if items[0]:
        signal.pause()
    return items[0]


def one_result_then_ctrl_c() -> None:
    with open_processes(2) as processes:
        assert next(processes.map(first_or_for_ever, [0, 1, 2], most=1)) == 0
        raise KeyboardInterrupt


def test_an_error_in_the_block_ends_processes_that_are_still_at_work() -> None:
    with pytest.raises(KeyboardInterrupt):
        one_result_then_ctrl_c()
