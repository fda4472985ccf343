"""The wall clock: an attempt's one door to the time of day, which may be set, stand still, or run too fast.

Answers to `System.currentTimeMillis` as an operator's code would ask it. The honest operator never asks: its timers
count on the loop's monotonic clock, which nobody can set (T1). Invariant: what a fault moved is measured through this
same door, as the difference between the two clocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.clock import monotonic_us, utc_now
from harness.sut.inside.stall import ActJournal

__all__ = ["ClockJump", "WallClock"]

_NS_PER_US = 1000
_NS_PER_MS = 1_000_000

Shift = Callable[[int], int]
"""By how much (ns) the clock is off at an instant of the monotonic one (ns)."""


def _true(at_ns: int) -> int:
    del at_ns
    return 0


class WallClock:
    """Mutable: `shift` may be replaced."""

    def __init__(self) -> None:
        self._origin_ns = round(utc_now().timestamp() * 1_000_000_000) - monotonic_us() * _NS_PER_US
        self.shift: Shift = _true

    def now_ns(self) -> int:
        """The time of day, as the clock has it."""
        now_ns = monotonic_us() * _NS_PER_US
        return self._origin_ns + now_ns + self.shift(now_ns)

    def offset_ms(self) -> float:
        """How far it is ahead of the monotonic clock, less what it was ahead when it was made."""
        now_ns = monotonic_us() * _NS_PER_US
        return round((self.now_ns() - self._origin_ns - now_ns) / _NS_PER_MS, 1)

    def set_right(self) -> None:
        """What a fault did is over."""
        self.shift = _true


def _shift(how: str, *, began_ns: int, by_ns: int, lasts_ns: int) -> Shift:
    match how:
        case "freeze":
            return lambda at_ns: began_ns - at_ns
        case "smear":
            return lambda at_ns: by_ns * min(at_ns - began_ns, lasts_ns) // lasts_ns
        case _:
            return lambda at_ns: by_ns


class ClockJump:
    """Sets the clock: `jump` at once, `smear` bit by bit while it lasts, `freeze` not at all."""

    def __init__(
        self,
        fault: str,
        *,
        how: str,
        shift_ms: int,
        lasts_ms: int | None,
        clock: WallClock,
        loop: asyncio.AbstractEventLoop,
        journal: ActJournal,
    ) -> None:
        self._fault = fault
        self._how = how
        self._shift_ms = shift_ms
        self._lasts_ms = lasts_ms
        self._clock = clock
        self._loop = loop
        self._journal = journal

    def act(self) -> None:
        """From now on; without a time, to the attempt's end."""
        self._journal.acted(self._fault, "clock", how=self._how, shift_ms=self._shift_ms)
        before_ms = self._clock.offset_ms()
        lasts_ms = self._lasts_ms or 1
        self._clock.shift = _shift(
            self._how,
            began_ns=monotonic_us() * _NS_PER_US,
            by_ns=self._shift_ms * _NS_PER_MS,
            lasts_ns=lasts_ms * _NS_PER_MS,
        )
        self._measure("begin", before_ms)
        if self._lasts_ms is not None:
            self._loop.call_soon_threadsafe(self._loop.call_later, self._lasts_ms / 1000, self._end)

    def _end(self) -> None:
        moved_ms = self._clock.offset_ms()
        self._clock.set_right()
        self._measure("end", moved_ms)

    def _measure(self, when: str, before_ms: float) -> None:
        after_ms = self._clock.offset_ms()
        self._journal.measured(self._fault, "offset", when=when, before_ms=before_ms, after_ms=after_ms)
