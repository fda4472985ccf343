"""The source clock: the processing time of a keyed task is the time at which the element that it reads is due.

Answers to Flink's `TestProcessingTimeService`. Timers and the time to live of state count by it, so an attempt that
reads the same positions again sees the same times, whatever the machine's load: what they lead to can be expected as
values. Invariants: the clock never goes back within an attempt; a timer runs as mail, before the first element that is
due at its time or later.
"""

from __future__ import annotations

import asyncio

from reference_impl.mailbox.loops import NS_PER_MS
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers


class SourceClock:
    """The source's clock in one attempt. Mutable: `start_at`, then `advance`."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._timers: list[_SourceTimers] = []

    def now_ms(self) -> int:
        return self._now_ms

    def timers(self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor) -> Timers:
        """Timers on this clock, whose mail goes to `executor`."""
        made = _SourceTimers(loop, executor, clock=self)
        self._timers.append(made)
        return made

    def start_at(self, now_ms: int) -> None:
        """Sets the clock before the attempt reads its first element."""
        self._now_ms = now_ms

    def advance(self, now_ms: int) -> bool:
        """Sets the clock and puts the mail of timers that are due; whether there are any, which must run first."""
        self._now_ms = max(now_ms, self._now_ms)
        due = [timers for timers in self._timers if timers.has_due()]
        for timers in due:
            timers.fire_due()
        return bool(due)


class _SourceTimers(Timers):
    """Timers that wait for the clock instead of the loop. Mutable."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, clock: SourceClock
    ) -> None:
        super().__init__(loop, executor)
        self.now_ns = lambda: clock.now_ms() * NS_PER_MS

    def wake_at(self, instant_ns: int) -> None:
        """Does nothing: the clock moves only when it is advanced."""

    def has_due(self) -> bool:
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= self.now_ms()

    def fire_due(self) -> None:
        self._fire_due()
