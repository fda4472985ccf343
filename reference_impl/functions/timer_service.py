"""Timers as a user's function sees them: of the current key, without a namespace.

Answers to Flink's `SimpleTimerService` and `TimeDomain`. Invariant: what is registered here fires at the function's
`on_timer`, once, with the key that was current when it was registered (T10).
"""

from __future__ import annotations

from enum import Enum

from reference_impl.internal_timers.internal_timer_service import InternalTimerService

__all__ = ["TimeDomain", "TimerService"]


class TimeDomain(Enum):
    """By which time a timer fired."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class TimerService:
    """A function's view of a service."""

    __slots__ = ("_service",)

    def __init__(self, service: InternalTimerService) -> None:
        self._service = service

    @property
    def current_processing_time(self) -> int:
        """The present instant (ms)."""
        return self._service.current_processing_time

    @property
    def current_watermark(self) -> int:
        """The newest; in `on_timer` already the one that released the timer (T12)."""
        return self._service.current_watermark

    def register_event_time_timer(self, time: int) -> None:
        """Once the watermark has reached `time` (ms)."""
        self._service.register_event_time_timer(None, time)

    def delete_event_time_timer(self, time: int) -> None:
        """Of no effect if there is none."""
        self._service.delete_event_time_timer(None, time)

    def register_processing_time_timer(self, time: int) -> None:
        """Once the clock has reached `time` (ms)."""
        self._service.register_processing_time_timer(None, time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Of no effect if there is none."""
        self._service.delete_processing_time_timer(None, time)
