"""Planted defect: timers count on the wall clock, which may be set.

Answers to `System.currentTimeMillis` where a monotonic clock belongs (T1). A clock set forward ends calls early, one
set back lets them wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reference_impl.mailbox.loops import clock_of
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers

__all__ = ["WallClockTimers"]


class WallClockTimers(Timers):
    """Timers on the clock `wall_ns`; the loop, which wakes them, has its own."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
    ) -> None:
        super().__init__(loop, executor)
        self._loop_ns = clock_of(loop)
        self.now_ns = wall_ns

    def wake_at(self, instant_ns: int) -> None:
        """Wake in as long as there is to go, by today's wall clock."""
        super().wake_at(self._loop_ns() + instant_ns - self.now_ns())
