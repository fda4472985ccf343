"""The timer services of one keyed operator, by name, and the processing of a watermark with many timers.

Answers to Flink's `InternalTimeServiceManagerImpl`, `MailboxWatermarkProcessor`, and to the two variants of
`processWatermark` in `AbstractStreamOperator`. Invariant: a watermark is emitted after its timers have fired (T12,
T13); a timer belongs to the subtask that owns the key group of its key (T15).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Protocol

from reference_impl.elements import Watermark
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timers import (
    MIN_WATERMARK,
    InternalTimer,
    InternalTimerService,
    KeyContext,
    KeyGroupTimers,
    SavedTimer,
    TimersHandle,
    Triggerable,
)
from reference_impl.state.key_groups import KeyGroupRange, assign_to_key_group
from reference_impl.state.snapshots import SnapshotFuture

PassWatermark = Callable[[Watermark], None]


def watermark_emission(
    timer_services: InternalTimerServices, *, interrupted_by: MailboxExecutor | None, emit: PassWatermark
) -> PassWatermark:
    """The function that processes a watermark: fires its timers, then emits it.

    With `interrupted_by`, that executor's mail can run between two timers.

    Answers to the two variants of `processWatermark` in Flink's `AbstractStreamOperator`.
    """
    if interrupted_by is not None:
        processor = MailboxWatermarkProcessor(timers=timer_services, executor=interrupted_by, emit=emit)
        return processor.emit_watermark_inside_mailbox

    def emit_watermark_directly(watermark: Watermark) -> None:
        timer_services.advance_watermark(watermark.timestamp)
        emit(watermark)

    return emit_watermark_directly


class AdvancingTimers(Protocol):
    """All event-time timers of one operator."""

    @property
    def reached_watermark(self) -> int:
        """The highest watermark whose timers have all fired; `MIN_WATERMARK` before the first."""

    def try_advance_watermark(self, timestamp: int, should_stop: Callable[[], bool]) -> bool:
        """Fire timers up to `timestamp` until `should_stop`; return whether all have fired (T13)."""


class MailboxWatermarkProcessor:
    """Emits a watermark after its timers have fired, and lets mail run between two timers. Mutable.

    Answers to Flink's `MailboxWatermarkProcessor`. Invariant: a watermark is emitted only after every timer up to it
    has fired, so what a timer emits never comes after it; at most one continuation is in the mailbox (T13). So a
    watermark with thousands of timers does not delay a barrier (FLINK-20217).

    The continuation is deferrable mail: an operator that yields while it waits for room downstream must not run it, or
    it would enqueue itself again for ever (FLINK-35528). `finish` runs deferrable mail too and loses no timer
    (FLINK-39481).

    Difference from Flink: a watermark that was emitted before its continuation ran is not emitted again.
    """

    def __init__(
        self,
        *,
        timers: AdvancingTimers,
        executor: MailboxExecutor,
        emit: Callable[[Watermark], None],
        intermediate_watermarks: bool = False,
    ) -> None:
        """With `intermediate_watermarks`, an interrupted advance emits how far it has come (FLINK-40101)."""
        self._timers = timers
        self._executor = executor
        self._continuations = executor.deferring()
        self._emit = emit
        self._intermediate = intermediate_watermarks
        self._pending: Watermark | None = None
        self._highest: Watermark | None = None
        self._continuation_waits = False
        self._emitted = MIN_WATERMARK

    @property
    def is_pending(self) -> bool:
        """Whether a watermark waits for its timers."""
        return self._pending is not None

    def emit_watermark_inside_mailbox(self, watermark: Watermark) -> None:
        """Fire its timers as far as mail allows, now and in continuations, then emit it.

        A newer watermark replaces one that is still waiting. A lower one counts as the highest so far, as in Flink.
        """
        if self._highest is None or watermark.timestamp >= self._highest.timestamp:
            self._highest = watermark
        self._pending = self._highest
        self._advance(self._pending)

    def _advance(self, watermark: Watermark) -> None:
        if self._timers.try_advance_watermark(watermark.timestamp, self._executor.should_interrupt):
            self._pending = None
            self._pass_on(watermark)
            return
        reached = self._timers.reached_watermark
        if self._intermediate and reached > self._emitted:
            self._pass_on(Watermark(timestamp=reached))
        if not self._continuation_waits:
            self._continuation_waits = True
            self._continuations.execute(self._continue, "fire the timers that are left of a watermark")

    def _continue(self) -> None:
        self._continuation_waits = False
        if self._pending is not None:
            self._advance(self._pending)

    def _pass_on(self, watermark: Watermark) -> None:
        self._emitted = watermark.timestamp
        self._emit(watermark)


_SLICE = 64
"""This many timers are sorted between two chances for mail, which takes some tens of microseconds."""
_Copies = dict[str, tuple[list[InternalTimer], list[InternalTimer]]]
"""The event-time timers and the processing-time timers, by service name."""


class InternalTimerServices:
    """The timer services of one operator of one subtask, by name; advanced, saved and restored together. Mutable.

    Answers to Flink's `InternalTimeServiceManagerImpl`. Invariant: a timer belongs to the subtask that owns the key
    group of its key; a restore takes the timers of its own key groups from all handles (T15).

    Timers restored for a service that was not requested yet are kept and saved again; they fire after the request.
    """

    service_kind = InternalTimerService
    """Planted defects replace it."""

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
        """The service with that name; its timers call `triggerable` from now on."""
        service = self._service(name)
        service.start(triggerable)
        return service

    def close(self) -> None:
        """Stop all timers of the operator (T16)."""
        for service in self._services.values():
            service.close()

    @property
    def reached_watermark(self) -> int:
        """The highest watermark whose timers have fired in every service."""
        return min((service.reached_watermark for service in self._services.values()), default=MIN_WATERMARK)

    def advance_watermark(self, timestamp: int) -> None:
        """Fire all event-time timers up to `timestamp`, one service after the other (T12)."""
        for service in self._services.values():
            service.advance_watermark(timestamp)

    def try_advance_watermark(self, timestamp: int, should_stop: Callable[[], bool]) -> bool:
        """Fire timers until `should_stop`, but at least one; return whether all have fired (T13)."""
        return all(
            service.try_advance_watermark(timestamp, should_stop) for service in self._services.values()
        )

    def snapshot(self) -> SnapshotFuture[TimersHandle | None]:
        """Copy the timers now; the asynchronous part sorts them by key group.

        The result is None without timers (C10).
        """
        copies = {
            name: (service.event_time_timers(), service.processing_time_timers())
            for name, service in self._services.items()
        }
        return SnapshotFuture(self._sort(copies))

    def restore(self, handles: Iterable[TimersHandle]) -> None:
        """Take the timers of this subtask from `handles`; called before services are requested."""
        for handle in handles:
            for name, groups in handle.services.items():
                for key_group, timers in groups.items():
                    if self._is_ours(key_group, handle):
                        self._service(name).restore(
                            event_time=[saved.restored() for saved in timers.event_time],
                            processing_time=[saved.restored() for saved in timers.processing_time],
                        )

    def _is_ours(self, key_group: int, handle: TimersHandle) -> bool:
        """Only the key group decides, not the subtask that had it."""
        del handle
        return key_group in self._key_group_range

    def _service(self, name: str) -> InternalTimerService:
        service = self._services.get(name)
        if service is None:
            service = self.service_kind(timers=self._timers, key_context=self._key_context)
            self._services[name] = service
        return service

    def _sort(self, copies: _Copies) -> Generator[None, None, TimersHandle | None]:
        """Sort in slices, since sorting takes much longer than copying."""
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
