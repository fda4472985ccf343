"""The timers of a keyed operator under one name, in event time and in processing time.

Answers to Flink's `InternalTimerServiceImpl`. Invariant: a registered timer fires once, with its key as the current
one, unless it is deleted first; two registrations of one key, namespace and instant are one timer (T10).

Processing-time instants are those of the `Timers` handed in. Who restores elsewhere hands in timers whose instants
mean the same there. A timer fires when its instant is reached, not one millisecond later (decision 13).

Deviation: the late firing of a timer of the clock that was replaced by an earlier one (T3) does not count as the
firing of its successor; in Flink it does, and two are armed for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.errors import WrongState
from reference_impl.internal_timers.internal_timer import InternalTimer, KeyContext, Triggerable
from reference_impl.internal_timers.timer_heap import TimerHeap
from reference_impl.timers import Timer, Timers, cancel

__all__ = ["MIN_WATERMARK", "InternalTimerService"]

MIN_WATERMARK = -(2**63)
"""Before the first watermark: behind every event time, as in Flink."""


class InternalTimerService:
    """Mutable. Built without a `Triggerable` it only keeps what was restored, until `start`."""

    heap_kind = TimerHeap
    """A planted defect has another."""

    def __init__(self, *, timers: Timers, key_context: KeyContext) -> None:
        self._timers = timers
        self._key_context = key_context
        self._target: Triggerable | None = None
        self._event_time = self.heap_kind()
        self._processing_time = self.heap_kind()
        self._armed: Timer | None = None
        """The one timer of the clock: that of the earliest processing-time timer (T11)."""
        self._watermark = MIN_WATERMARK
        self._closed = False

    def start(self, target: Triggerable) -> None:
        """From now on timers fire, at `target`; those of processing time that are overdue do so at once (T15)."""
        if self._target is None:
            self._target = target
            self._arm()
        self._target = target

    @property
    def is_started(self) -> bool:
        """Whether somebody is there to be told."""
        return self._target is not None

    def close(self) -> None:
        """No timer fires any more, not even one whose mail waits already (T16)."""
        self._closed = True
        self._disarm()

    # ------------------------------------------------------------------------------------- what a function sees

    @property
    def current_processing_time(self) -> int:
        """The present instant (ms)."""
        return self._timers.now_ms()

    @property
    def current_watermark(self) -> int:
        """The newest; `MIN_WATERMARK` before the first."""
        return self._watermark

    @property
    def num_event_time_timers(self) -> int:
        """Those that wait, of all keys."""
        return len(self._event_time)

    @property
    def num_processing_time_timers(self) -> int:
        """Those that wait, of all keys."""
        return len(self._processing_time)

    def register_event_time_timer(self, namespace: Any, time: int) -> None:
        """Fire for the current key once the watermark has reached `time` (ms); late ones at the next watermark."""
        self._event_time.add(self._timer_at(namespace, time))

    def delete_event_time_timer(self, namespace: Any, time: int) -> None:
        """Of no effect if there is none."""
        self._event_time.remove(self._timer_at(namespace, time))

    def register_processing_time_timer(self, namespace: Any, time: int) -> None:
        """Fire for the current key once the clock has reached `time` (ms); at once, but as mail, if it has."""
        timer = self._timer_at(namespace, time)
        before = self._processing_time.peek()
        if self._processing_time.add(timer) and (before is None or time < before.timestamp):
            self._disarm()
            self._arm()

    def delete_processing_time_timer(self, namespace: Any, time: int) -> None:
        """Of no effect if there is none; the clock's timer stays and finds nothing to do."""
        self._processing_time.remove(self._timer_at(namespace, time))

    def for_each_event_time_timer(self, consume: Callable[[Any, int], None]) -> None:
        """Call `consume` with each one's namespace and instant, its key being the current one."""
        self._for_each(self._event_time, consume)

    def for_each_processing_time_timer(self, consume: Callable[[Any, int], None]) -> None:
        """Call `consume` with each one's namespace and instant, its key being the current one."""
        self._for_each(self._processing_time, consume)

    def _for_each(self, heap: TimerHeap, consume: Callable[[Any, int], None]) -> None:
        """In the order of registration; `consume` may register and delete. The last key stays the current one."""
        for timer in list(heap):
            self._key_context.set_current_key(timer.key)
            consume(timer.namespace, timer.timestamp)

    def _timer_at(self, namespace: Any, time: int) -> InternalTimer:
        key = self._key_context.current_key
        if key is None:
            raise WrongState(
                f"a timer at {time} ms for no key: register and delete timers while a record, or a timer, is processed"
            )
        return InternalTimer(time, key, namespace)

    # ----------------------------------------------------------------------------------------------- event time

    @property
    def reached_watermark(self) -> int:
        """The highest watermark whose timers have all fired; behind the current one while an advance rests."""
        head = self._event_time.peek()
        return self._watermark if head is None else min(self._watermark, head.timestamp - 1)

    def advance_watermark(self, time: int) -> None:
        """Fire every timer up to `time` (ms), in the order of their instants (T12)."""
        self.try_advance_watermark(time, _never)

    def try_advance_watermark(self, time: int, should_stop: Callable[[], bool]) -> bool:
        """As `advance_watermark` until `should_stop`, but fire one at least, so that each call leads on (T13).

        Whether it was left alone to the end. Between two calls a snapshot holds what has not fired (T14).
        """
        self._watermark = time
        if self._target is None:
            return True
        while not self._closed and (timer := self._pop_until(time, self._event_time)) is not None:
            self._target.on_event_time(timer)
            if should_stop():
                return False
        return True

    def _pop_until(self, time: int, heap: TimerHeap) -> InternalTimer | None:
        """Take out what is due, and select its key: before the callback, which may register it anew (T11)."""
        timer = heap.pop_until(time)
        if timer is not None:
            self._key_context.set_current_key(timer.key)
        return timer

    # ------------------------------------------------------------------------------------------ processing time

    def _arm(self) -> None:
        head = self._processing_time.peek()
        if head is None or self._target is None or self._closed:
            return
        delay_ms = max(head.timestamp - self._timers.now_ms(), 0)

        def fire() -> None:
            self._on_clock(head.timestamp, armed)

        armed = self._armed = self._timers.register(delay_ms, fire)

    def _disarm(self) -> None:
        if self._armed is not None:
            cancel(self._armed)
            self._armed = None

    def _on_clock(self, time: int, armed: Timer) -> None:
        """Fire what is due at `time`, then arm for the earliest that is left, unless a callback did (T11)."""
        if self._armed is armed:
            self._armed = None
        if self._target is None:
            return
        while not self._closed and (timer := self._pop_until(time, self._processing_time)) is not None:
            self._target.on_processing_time(timer)
        if self._armed is None:
            self._arm()

    # ------------------------------------------------------------------------------------------------- snapshot

    def event_time_timers(self) -> list[InternalTimer]:
        """A copy, for a snapshot."""
        return list(self._event_time)

    def processing_time_timers(self) -> list[InternalTimer]:
        """A copy, for a snapshot."""
        return list(self._processing_time)

    def restore(self, *, event_time: list[InternalTimer], processing_time: list[InternalTimer]) -> None:
        """Add what a snapshot held, before `start`."""
        for timer in event_time:
            self._event_time.add(timer)
        for timer in processing_time:
            self._processing_time.add(timer)


def _never() -> bool:
    return False
