"""The only module of the harness that reads a clock or sleeps: monotonic microseconds, calendar time, deadlines.

Code that must also run in virtual time (sinks, coordinator, checkpoint store) takes a `Clock`; at levels live and
spark that is `REAL_CLOCK`. Operator code uses its event loop instead (`reference_impl.mailbox.loops`). Invariant:
`monotonic_us` is the same clock in every process of this machine, so events of different processes can be ordered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Protocol


class Flag(Protocol):
    """What one thread waits for and another one sets."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is set, at the latest after `timeout` seconds."""


class Beside(Protocol):
    """Work beside its caller."""

    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None:
        """Waits until it has ended, at most `timeout` seconds."""


class Time(Protocol):
    """The time of this process, and what waits in it."""

    def now_us(self) -> int: ...
    def pause(self, seconds: float) -> None: ...
    def flag(self) -> Flag: ...
    def beside(self, work: Callable[[], None], *, name: str) -> Beside: ...


class RealTime:
    """The machine's monotonic clock, and threads."""

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def flag(self) -> Flag:
        return threading.Event()

    def beside(self, work: Callable[[], None], *, name: str) -> Beside:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread


_time: Time = RealTime()


@contextmanager
def virtual_time(of: Time) -> Iterator[None]:
    """All code of this process is in that time while the block lasts."""
    global _time  # noqa: PLW0603 - the one door
    before, _time = _time, of
    try:
        yield
    finally:
        _time = before


def monotonic_us() -> int:
    """Microseconds of the machine's monotonic clock (CLOCK_MONOTONIC: shared by all processes)."""
    return _time.now_us()


def flag() -> Flag:
    """A new flag, for code that may run in virtual time."""
    return _time.flag()


def beside(work: Callable[[], None], *, name: str) -> Beside:
    """Begins `work` beside the caller: in a thread, or in virtual time as another actor."""
    return _time.beside(work, name=name)


def utc_now() -> datetime:
    """The calendar time, for display only; no decision depends on it."""
    return datetime.now(UTC)


def pause(seconds: float) -> None:
    """Sleep; only for polling loops that have a `Deadline`."""
    _time.pause(seconds)


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
