"""The timer services of one keyed operator, by name: they advance, are saved and are restored together.

Answers to Flink's `InternalTimeServiceManagerImpl`. Invariant: a timer belongs to the subtask that owns its key's key
group, so a restore takes what lies in its own range and nothing else, whatever it is handed (T15).

What is restored for a service that nobody has asked for yet is kept, and is in the next snapshot: its timers fire
once somebody has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from reference_impl.internal_timers.internal_timer import InternalTimer, KeyContext, Triggerable
from reference_impl.internal_timers.internal_timer_service import MIN_WATERMARK, InternalTimerService
from reference_impl.internal_timers.timers_handle import KeyGroupTimers, SavedTimer, TimersHandle
from reference_impl.state.key_groups import KeyGroupRange, assign_to_key_group
from reference_impl.state.snapshot_future import SnapshotFuture
from reference_impl.timers import Timers

__all__ = ["InternalTimerServices"]

_SLICE = 64
"""So many timers are sorted between two looks at the mailbox: some tens of microseconds."""
_Copies = dict[str, tuple[list[InternalTimer], list[InternalTimer]]]
"""By the service's name: the timers of event time, and those of processing time."""


class InternalTimerServices:
    """Of one operator of one subtask. Mutable."""

    service_kind = InternalTimerService
    """A planted defect has another."""

    def __init__(
        self,
        *,
        timers: Timers,
        key_context: KeyContext,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
    ) -> None:
        self._timers = timers
        self._key_context = key_context
        self._key_group_range = key_group_range
        self._max_parallelism = max_parallelism
        self._services: dict[str, InternalTimerService] = {}

    def get_internal_timer_service(self, name: str, triggerable: Triggerable) -> InternalTimerService:
        """The one called `name`; from now on its timers fire at `triggerable`."""
        service = self._service(name)
        service.start(triggerable)
        return service

    def close(self) -> None:
        """No timer of the operator fires any more (T16)."""
        for service in self._services.values():
            service.close()

    @property
    def reached_watermark(self) -> int:
        """The highest watermark whose timers have all fired, in every service."""
        return min((service.reached_watermark for service in self._services.values()), default=MIN_WATERMARK)

    def advance_watermark(self, timestamp: int) -> None:
        """Fire every event-time timer up to `timestamp`, one service after the other (T12)."""
        for service in self._services.values():
            service.advance_watermark(timestamp)

    def try_advance_watermark(self, timestamp: int, should_stop: Callable[[], bool]) -> bool:
        """The same until `should_stop`, but one timer at least; whether it came to the end (T13)."""
        return all(
            service.try_advance_watermark(timestamp, should_stop) for service in self._services.values()
        )

    def snapshot(self) -> SnapshotFuture[TimersHandle | None]:
        """The timers as they are now; sorted by key group in the asynchronous part. None without any (C10)."""
        copies = {
            name: (service.event_time_timers(), service.processing_time_timers())
            for name, service in self._services.items()
        }
        return SnapshotFuture(self._sort(copies))

    def restore(self, handles: Iterable[TimersHandle]) -> None:
        """Take over what of `handles` is this subtask's; before the services are asked for."""
        for handle in handles:
            for name, groups in handle.services.items():
                for key_group, timers in groups.items():
                    if self._is_ours(key_group, handle):
                        _restore(self._service(name), timers)

    def _is_ours(self, key_group: int, handle: TimersHandle) -> bool:
        """Whichever subtask had it: only the key group counts."""
        del handle
        return key_group in self._key_group_range

    def _service(self, name: str) -> InternalTimerService:
        service = self._services.get(name)
        if service is None:
            service = self.service_kind(timers=self._timers, key_context=self._key_context)
            self._services[name] = service
        return service

    def _sort(self, copies: _Copies) -> Generator[None, None, TimersHandle | None]:
        """In slices: sorting takes far longer than copying did."""
        services = dict[str, dict[int, KeyGroupTimers]]()
        for name, (event_time, processing_time) in copies.items():
            groups = dict[int, KeyGroupTimers]()
            for number, timer in enumerate(event_time):
                self._group_of(timer, groups).event_time.append(SavedTimer.of(timer))
                if number % _SLICE == 0:
                    yield
            for number, timer in enumerate(processing_time):
                self._group_of(timer, groups).processing_time.append(SavedTimer.of(timer))
                if number % _SLICE == 0:
                    yield
            if groups:
                services[name] = groups
        return TimersHandle(key_group_range=self._key_group_range, services=services) if services else None

    def _group_of(self, timer: InternalTimer, groups: dict[int, KeyGroupTimers]) -> KeyGroupTimers:
        key_group = assign_to_key_group(timer.key, self._max_parallelism)
        return groups.setdefault(key_group, KeyGroupTimers(event_time=[], processing_time=[]))


def _restore(service: InternalTimerService, timers: KeyGroupTimers) -> None:
    service.restore(
        event_time=[saved.restored() for saved in timers.event_time],
        processing_time=[saved.restored() for saved in timers.processing_time],
    )
