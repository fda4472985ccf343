"""The only module of the harness that reads a clock or sleeps: monotonic microseconds, calendar time, deadlines.

Code that must also run in virtual time (sinks, coordinator, checkpoint store) takes a `Clock`; at levels live and
spark that is `REAL_CLOCK`. Operator code uses its event loop instead (`reference_impl.mailbox.loops`). Invariant:
`monotonic_us` is the same clock in every process of this machine, so events of different processes can be ordered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol


def monotonic_us() -> int:
    """Microseconds of the machine's monotonic clock (CLOCK_MONOTONIC: shared by all processes)."""
    return time.monotonic_ns() // 1000


def utc_now() -> datetime:
    """The calendar time, for display only; no decision depends on it."""
    return datetime.now(UTC)


def pause(seconds: float) -> None:
    """Sleep; only for polling loops that have a `Deadline`."""
    time.sleep(seconds)


class Clock(Protocol):
    """The time of blocking code: the machine's, or a simulation's."""

    def now_us(self) -> int:
        """Microseconds since a fixed origin."""

    def pause(self, seconds: float) -> None:
        """Sleep."""


class RealClock:
    """The machine's monotonic clock."""

    now_us = staticmethod(monotonic_us)
    pause = staticmethod(pause)


REAL_CLOCK: Final[Clock] = RealClock()


def _calendar_us() -> int:  # has a name, so that a `Deadline` can be pickled
    return time.time_ns() // 1000


class CalendarClock:
    """The calendar as a clock: for a `Deadline` that is sent to other machines, whose monotonic clocks differ."""

    now_us = staticmethod(_calendar_us)
    pause = staticmethod(pause)


CALENDAR_CLOCK: Final[Clock] = CalendarClock()


class Deadline:
    """A limit on a wait, in seconds from its creation."""

    def __init__(self, seconds: float, *, clock: Clock = REAL_CLOCK) -> None:
        self.seconds = seconds
        self._now_us = clock.now_us
        self._end_us = clock.now_us() + round(seconds * 1_000_000)

    @property
    def left_s(self) -> float:
        """Seconds that remain, never below 0."""
        return max(0.0, (self._end_us - self._now_us()) / 1_000_000)

    @property
    def passed(self) -> bool:
        return self._now_us() >= self._end_us


def wait_until(condition: Callable[[], bool], *, deadline: Deadline, every_s: float = 0.01) -> bool:
    """Poll `condition` until it holds (True) or the deadline has passed (False)."""
    while not condition():
        if deadline.passed:
            return False
        pause(min(every_s, deadline.left_s))
    return True
