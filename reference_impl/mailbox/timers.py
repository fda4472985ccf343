"""Processing-time timers whose callbacks run as mail.

Answers to Flink's `ProcessingTimeService`. Invariant: the event loop only puts the mail; the callback runs on the
task's thread, between two other mails (T2). Timers fire in the order of their due times; those due at the same time
fire in the order of registration.

Difference from Flink: a timer fires when its delay has passed, not one millisecond later (T1). The delay is counted in
the clock's nanoseconds, so no timer fires early. The same holds in virtual time (A49, T9; decision 13).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any, Protocol

from reference_impl.errors import MailboxClosed
from reference_impl.mailbox.loops import NS_PER_MS, Handle, call_at_ns, clock_of
from reference_impl.mailbox.mailbox import MailboxExecutor

Timer = list[Any]
"""[due time in ns, number, callback]; the callback is None after the timer has fired or was cancelled.

A list and not a class, since each record has one and the heap compares it directly.
"""

_NEVER_REST = -1
"""The value of `_attend_at` after `clear`: timeouts added later are dropped at once (T6)."""
_SMALL = 64
"""Heaps of up to this many timers are not searched for cancelled ones."""


def cancel(timer: Timer) -> None:
    """Prevent the timer from firing; if it has fired, its mail still runs (T3).

    The entry stays in the heap until it is due, or until `Timers.register` drops it.
    """
    timer[2] = None


class Expiring(Protocol):
    """Something that either gets its results in time or is timed out."""

    @property
    def results(self) -> object | None:
        """None until the results are there, after which no timeout is due."""

    def time_out(self) -> None:
        """Called as mail when the delay has passed."""


class Timeouts:
    """Timers with one delay: a FIFO queue, since they fall due in the order in which they were added. Mutable.

    The fast path of `Timers.register`, used for each record: nothing is sorted, and completion needs no cancel.
    """

    def __init__(self, timers: Timers, delay_ms: int) -> None:
        self._timers = timers
        self._delay_ns = delay_ms * NS_PER_MS
        self._now_ns = timers.now_ns
        self._number = timers.number
        self._waiting: deque[tuple[int, int, Expiring]] = deque()
        self._attend_at = 0
        """Above this length `add` drops completed entries and wakes the loop for the first pending one."""

    def __len__(self) -> int:
        """The number of entries without results."""
        return sum(expiring.results is None for _, _, expiring in self._waiting)

    def add(self, expiring: Expiring) -> None:
        """Call `expiring.time_out` as mail once the delay has passed, unless it has results by then."""
        waiting = self._waiting
        instant_ns = self._now_ns() + self._delay_ns
        waiting.append((instant_ns, self._number(), expiring))
        if len(waiting) > self._attend_at:
            self._attend()

    def next_ns(self) -> float:
        """The due time of the first entry without results, or infinity."""
        waiting = self._waiting
        while waiting and waiting[0][2].results is not None:
            waiting.popleft()
        return waiting[0][0] if waiting else inf

    def pending(self) -> list[Timer]:
        """The entries without results, as timers."""
        return [[at, number, one.time_out] for at, number, one in self._waiting if one.results is None]

    def take_due(self, now_ns: int) -> list[Timer]:
        """Remove and return the entries that are due, as timers."""
        waiting, due = self._waiting, list[Timer]()
        while waiting and (waiting[0][0] <= now_ns or waiting[0][2].results is not None):
            instant_ns, number, expiring = waiting.popleft()
            if expiring.results is None:
                due.append([instant_ns, number, expiring.time_out])
        self._wake()
        return due

    def clear(self) -> None:
        """Cancel all timers, and drop those added later."""
        self._waiting.clear()
        self._attend_at = _NEVER_REST

    def _attend(self) -> None:
        """Drop completed entries.

        The next look is at twice the remaining length, so the cost per entry is constant.
        """
        if self._attend_at == _NEVER_REST:
            self._waiting.clear()
            return
        self._waiting = deque(item for item in self._waiting if item[2].results is None)
        self._attend_at = 2 * len(self._waiting) + _SMALL
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._timers.wake_at(self._waiting[0][0])
        else:
            self._attend_at = 0


class Timers:
    """The timers of one task. Mutable; `len` counts those that have neither fired nor been cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor) -> None:
        self._loop = loop
        self._executor = executor
        self.now_ns = clock_of(loop)
        self.number = count().__next__
        """Returns the next number, shared by both kinds of timers; it orders timers that are due at the same time."""
        self._heap: list[Timer] = []
        self._timeouts: list[Timeouts] = []
        self._purge_at = _SMALL
        self._armed_ns: float = inf
        self._armed: asyncio.Handle | Handle | None = None
        self._quiesced = False

    def __len__(self) -> int:
        return sum(timer[2] is not None for timer in self._heap) + sum(map(len, self._timeouts))

    def now_ms(self) -> int:
        return self.now_ns() // NS_PER_MS

    def next_due_ms(self) -> int | None:
        """Due time of the next pending timer, or None. The loop may wake earlier than that, for a cancelled timer."""
        heap = self._heap
        while heap and heap[0][2] is None:
            heappop(heap)
        next_ns = min([heap[0][0] if heap else inf, *(timeouts.next_ns() for timeouts in self._timeouts)])
        return None if next_ns == inf else int(next_ns) // NS_PER_MS

    def next_callback(self) -> Callable[[], None] | None:
        """What the first pending timer calls, or None."""
        timers = [timer for timer in self._heap if timer[2] is not None]
        timers += [timer for timeouts in self._timeouts for timer in timeouts.pending()]
        return min(timers)[2] if timers else None

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` as mail once `delay_ms` has passed; after `quiesce`, never (T6)."""
        if delay_ms < 0:
            raise ValueError(f"a timer's delay is {delay_ms} ms; give 0 or more")
        if self._quiesced:
            return [0, 0, None]
        instant_ns = self.now_ns() + delay_ms * NS_PER_MS
        timer = [instant_ns, self.number(), callback]
        heap = self._heap
        heappush(heap, timer)
        self.wake_at(instant_ns)
        if len(heap) > self._purge_at:
            heap[:] = [timer for timer in heap if timer[2] is not None]
            heapify(heap)
            self._purge_at = 2 * len(heap) + _SMALL  # so the cost per timer is constant
        return timer

    def timeouts(self, delay_ms: int) -> Timeouts:
        """Timers with that delay, for many objects."""
        timeouts = Timeouts(self, delay_ms)
        self._timeouts.append(timeouts)
        return timeouts

    def quiesce(self) -> None:
        """Cancel pending timers and ignore new ones; mail that was already put still runs (T6, T7)."""
        self._quiesced = True
        for timer in self._heap:
            cancel(timer)
        self._heap.clear()
        for timeouts in self._timeouts:
            timeouts.clear()
        self._disarm()

    def wake_at(self, instant_ns: int) -> None:
        """Make the loop call `_fire_due` at that time, if it would not already do so earlier."""
        if instant_ns < self._armed_ns and not self._quiesced:
            self._disarm()
            self._armed_ns = instant_ns
            self._armed = call_at_ns(self._loop, instant_ns, self._fire_due)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed, self._armed_ns = None, inf

    def _fire_due(self) -> None:
        self._armed, self._armed_ns = None, inf
        now_ns = self.now_ns()
        due = self._take_due(now_ns)
        for timeouts in self._timeouts:
            due += timeouts.take_due(now_ns)
        for timer in sorted(due):
            callback, timer[2] = timer[2], None
            try:
                self._executor.execute(callback, "timer")
            except MailboxClosed:  # the task is ending, which is no failure (T5)
                continue

    def _take_due(self, now_ns: int) -> list[Timer]:
        heap, due = self._heap, list[Timer]()
        while heap and (heap[0][0] <= now_ns or heap[0][2] is None):
            timer = heappop(heap)
            if timer[2] is not None:
                due.append(timer)
        if heap:
            self.wake_at(heap[0][0])
        return due
