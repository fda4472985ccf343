"""Planted defect: a timer that is registered twice is two timers, and fires twice.

Answers to a heap of timers that is no set (T10). Where no timer is registered again, the mutant is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import InternalTimer, InternalTimerService, TimerHeap

__all__ = ["RepeatingTimerServices"]


class _Bag(TimerHeap):
    """Without deletion, for which it would need to be a set."""

    def __init__(self) -> None:
        super().__init__()
        self._bag: list[tuple[int, int, InternalTimer]] = []
        self._next = count().__next__

    def __len__(self) -> int:
        return len(self._bag)

    def __iter__(self) -> Iterator[InternalTimer]:
        return (timer for _, _, timer in sorted(self._bag, key=lambda entry: entry[1]))

    def add(self, timer: InternalTimer) -> bool:
        heappush(self._bag, (timer.timestamp, self._next(), timer))
        return True

    def peek(self) -> InternalTimer | None:
        return self._bag[0][2] if self._bag else None

    def pop_until(self, instant_ms: int) -> InternalTimer | None:
        timer = self.peek()
        return heappop(self._bag)[2] if timer is not None and timer.timestamp <= instant_ms else None


class _RepeatingService(InternalTimerService):
    heap_kind = _Bag


class RepeatingTimerServices(InternalTimerServices):
    """Services whose timers are no sets."""

    service_kind = _RepeatingService
