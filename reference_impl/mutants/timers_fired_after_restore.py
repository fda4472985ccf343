"""Planted defect: what fired before a snapshot is in it, and fires a second time after a restore.

Answers to a snapshot that is made from what was registered, and not from what is left (T14, T15): the heap
forgets what fired, the list for the snapshot does not. Without a restore the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import InternalTimer, InternalTimerService, TimerHeap

__all__ = ["RememberingTimerServices"]


class _Remembering(TimerHeap):
    def __init__(self) -> None:
        super().__init__()
        self.fired: list[InternalTimer] = []

    def pop_until(self, instant_ms: int) -> InternalTimer | None:
        timer = super().pop_until(instant_ms)
        if timer is not None:
            self.fired.append(timer)
        return timer


class _RememberingService(InternalTimerService):
    heap_kind = _Remembering

    def event_time_timers(self) -> list[InternalTimer]:
        return self._fired_too(self._event_time)

    def processing_time_timers(self) -> list[InternalTimer]:
        return self._fired_too(self._processing_time)

    def _fired_too(self, heap: TimerHeap) -> list[InternalTimer]:
        assert isinstance(heap, _Remembering)
        return [*heap.fired, *heap]


class RememberingTimerServices(InternalTimerServices):
    """Services whose snapshots hold what has fired."""

    service_kind = _RememberingService
