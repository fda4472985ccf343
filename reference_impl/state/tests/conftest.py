"""Timers in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reference_impl.mailbox.loops import virtual_loop
from reference_impl.state.tests.timer_bench import TimerBench


@pytest.fixture
def bench() -> Iterator[TimerBench]:
    """One subtask's timers at instant 0."""
    with virtual_loop() as loop:
        yield TimerBench(loop)
