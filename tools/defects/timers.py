"""Defects of timers: the clock they count on, which ones fire, with which key, and which ones a restore brings back.

Answers to `System.currentTimeMillis` where a monotonic clock belongs, and to bugs of `InternalTimerServiceImpl` and
`MailboxWatermarkProcessor`. Invariant: each entry replaces the timers, or what saves them, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from msgspec.structs import replace

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect, both
from harness.sut.defects.twelve import keeping
from harness.sut.rescaling import Keeping, KeptState, KeyedParts
from harness.sut.variant import BuildTimers, Variant
from reference_impl.elements import Watermark
from reference_impl.mailbox.loops import clock_of
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timeouts, Timer, Timers
from reference_impl.state.internal_timer_services import (
    AdvancingTimers,
    InternalTimerServices,
    MailboxWatermarkProcessor,
)
from reference_impl.state.internal_timers import (
    InternalTimer,
    InternalTimerService,
    KeyContext,
    TimerHeap,
    TimersHandle,
)
from tools.defects.keyed_state import OneCheckpointOld
from tools.defects.kinds import PropertyDefect, Stranger
from tools.defects.where import clock_jumps, has_timeout


class _WallClockTimers(Timers):
    """Timers on the clock `wall_ns`: set forward, it ends calls early; set back, it lets them wait (T1).

    The loop, which wakes the timers, keeps its own clock.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
    ) -> None:
        super().__init__(loop, executor)
        self._loop_ns = clock_of(loop)
        self.now_ns = wall_ns

    def wake_at(self, instant_ns: int) -> None:
        """Wakes when the loop's clock has advanced by as much as the wall clock lacks now."""
        super().wake_at(self._loop_ns() + instant_ns - self.now_ns())


class _LateClockTimers(Timers):
    """Timers whose clock is a little behind the one that wakes them, so what wakes them is never due."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
    ) -> None:
        del wall_ns
        super().__init__(loop, executor)
        self.now_ns = lambda: clock_of(loop)() - 1


def _other_timeouts(by_ms: int) -> BuildTimers:
    """Timers whose timeouts come so much too late, or too early if less than 0."""

    class OtherTimeouts(Timers):
        def __init__(
            self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
        ) -> None:
            del wall_ns
            super().__init__(loop, executor)

        def timeouts(self, delay_ms: int) -> Timeouts:
            return super().timeouts(max(0, delay_ms + by_ms))

    return OtherTimeouts


class _EagerTimers(Timers):
    """Timers whose callbacks register themselves again, without a delay."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
    ) -> None:
        del wall_ns
        super().__init__(loop, executor)

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        def again() -> None:
            callback()
            super(_EagerTimers, self).register(0, again)

        return super().register(delay_ms, again)


class _LosesTimers(Keeping):
    """Restores values and no timers."""

    def state(self, text: str) -> KeptState:
        return replace(super().state(text), timers=None)


class _LosesProcessingTimers(Keeping):
    """Restores values and event-time timers, and no processing-time timers."""

    def state(self, text: str) -> KeptState:
        kept = super().state(text)
        if kept.timers is None:
            return kept
        services = {
            name: {number: replace(group, processing_time=[]) for number, group in groups.items()}
            for name, groups in kept.timers.services.items()
        }
        return replace(kept, timers=replace(kept.timers, services=services))


class _TimersOneCheckpointOld(OneCheckpointOld):
    """Saves present values with the timers of the checkpoint before: those that have fired since fire again."""

    def mixed(self, present: KeptState, before: KeptState) -> KeptState:
        return replace(present, timers=before.timers)


class _UndeletedTimers(InternalTimerService):
    """Keeps a deleted timer in the next snapshot. Mutable."""

    def __init__(self, *, timers: Timers, key_context: KeyContext) -> None:
        super().__init__(timers=timers, key_context=key_context)
        self._key_context = key_context
        self._deleted: dict[InternalTimer, None] = {}

    def delete_event_time_timer(self, namespace: Any, time: int) -> None:
        self._deleted[InternalTimer(time, self._key_context.current_key, namespace)] = None
        super().delete_event_time_timer(namespace, time)

    def event_time_timers(self) -> list[InternalTimer]:
        deleted, self._deleted = (
            [timer for timer in self._deleted if timer.timestamp > self.current_watermark],
            {},
        )
        return [*super().event_time_timers(), *deleted]


class _UndeletedTimerServices(InternalTimerServices):
    def _service(self, name: str) -> InternalTimerService:
        service = self._services.get(name)
        if service is None:
            service = _UndeletedTimers(timers=self._timers, key_context=self._key_context)
            self._services[name] = service
        return service


class _RecordsOnlyKeyContext:
    """A key context that a timer cannot set: the timer fires with the key of the last record."""

    def __init__(self, honest: KeyContext) -> None:
        self._honest = honest

    @property
    def current_key(self) -> Any:
        return self._honest.current_key

    def set_current_key(self, key: Any) -> None:
        """Nothing."""


class _TimerBag(TimerHeap):
    """A heap that keeps equal timers apart. It cannot delete, for which it would have to be a set. Mutable."""

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


class _RepeatingTimers(InternalTimerService):
    heap_kind = _TimerBag


class _RepeatingTimerServices(InternalTimerServices):
    """Fires a timer as often as it was registered; where none is registered again, the defect is the reference."""

    service_kind = _RepeatingTimers


class _RememberingHeap(TimerHeap):
    """A heap that lists what has fired in `fired`. Mutable."""

    def __init__(self) -> None:
        super().__init__()
        self.fired: list[InternalTimer] = []

    def pop_until(self, instant_ms: int) -> InternalTimer | None:
        timer = super().pop_until(instant_ms)
        if timer is not None:
            self.fired.append(timer)
        return timer


class _RememberingTimers(InternalTimerService):
    heap_kind = _RememberingHeap

    def event_time_timers(self) -> list[InternalTimer]:
        return self._fired_too(self._event_time)

    def processing_time_timers(self) -> list[InternalTimer]:
        return self._fired_too(self._processing_time)

    def _fired_too(self, heap: TimerHeap) -> list[InternalTimer]:
        assert isinstance(heap, _RememberingHeap)
        return [*heap.fired, *heap]


class _RememberingTimerServices(InternalTimerServices):
    """Snapshots what was registered, not what is left; without a restore the defect is the reference."""

    service_kind = _RememberingTimers


class _OldHandleTimerServices(InternalTimerServices):
    """Takes its subtask's old handle and no other, so timers of key groups that moved never fire.

    At the same parallelism as before the defect is the reference.
    """

    def _is_ours(self, key_group: int, handle: TimersHandle) -> bool:
        return super()._is_ours(key_group, handle) and (
            handle.key_group_range.start == self._key_group_range.start
        )


class _EveryGroupTimerServices(InternalTimerServices):
    """Does not look at key groups; with one subtask before and one after, the defect is the reference."""

    def _is_ours(self, key_group: int, handle: TimersHandle) -> bool:
        del key_group, handle
        return True


class _EmitsWhenInterrupted(MailboxWatermarkProcessor):
    """Emits a watermark though mail has interrupted the advance: what its later timers emit counts as late.

    Where no mail interrupts, the defect is the reference.
    """

    def _advance(self, watermark: Watermark) -> None:
        super()._advance(watermark)
        if self.is_pending and self._emitted < watermark.timestamp:
            self._pass_on(watermark)


class _ContinuesAsOrdinaryMail(MailboxWatermarkProcessor):
    """Lets an operator that yields for room downstream run the continuation of an advance.

    It finds mail, fires one timer and puts itself back, so timers emit in the middle of another emission. Where no
    operator yields, the defect is the reference.
    """

    def __init__(
        self, *, timers: AdvancingTimers, executor: MailboxExecutor, emit: Callable[[Watermark], None]
    ) -> None:
        super().__init__(timers=timers, executor=executor, emit=emit)
        self._continuations = executor


_SERVICES = "InternalTimerServices"
_PROCESSOR = "MailboxWatermarkProcessor"

OF_TIMERS = (
    Defect(
        number=21,
        name="wall-clock-timers",
        about="timers count on the wall clock, which may be set",
        mirrors="System.currentTimeMillis where a monotonic clock belongs",
        convicted_by=("V15",),
        variant=Variant(timers=_WallClockTimers),
        where="a timeout; the clock jumps",
        applies=both(clock_jumps, has_timeout),
        scenario="clock-jump",
    ),
    Defect(
        name="timers-lost-on-restore",
        about="timers are saved and not restored",
        mirrors="a session that never ends",
        convicted_by=("V8",),
        variant=keeping(_LosesTimers),
        where="`sessions-at-timer`",
        applies=NEVER,
        scenario="sessions-at-timer",
    ),
    Defect(
        name="processing-timers-lost-on-restore",
        about="of the timers that are saved, those in processing time are not restored",
        mirrors="a restore that reads one of two heaps",
        convicted_by=("V8",),
        variant=keeping(_LosesProcessingTimers),
        where="`sessions-by-clock`",
        applies=NEVER,
        scenario="sessions-by-clock",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="timers-one-checkpoint-old",
        about="a checkpoint holds the timers of the one before it: those that have fired since fire again",
        mirrors="a timer that fires twice after a restore",
        convicted_by=("V8",),
        variant=keeping(_TimersOneCheckpointOld),
        where="`sessions-full-queue`",
        applies=NEVER,
        scenario="sessions-full-queue",
    ),
    Defect(
        name="snapshot-keeps-deleted-timers",
        about="a timer that was deleted is in the next snapshot, and fires once that is restored",
        mirrors="a deletion that only the heap hears of",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(timer_services=_UndeletedTimerServices)),
        where="`sessions-in-restore`",
        applies=NEVER,
        scenario="sessions-in-restore",
    ),
    Defect(
        name="timer-of-another-key",
        about="a timer fires while the key of the last record is still the current one",
        mirrors="a key context that is set for records only",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(timers_key_context=_RecordsOnlyKeyContext)),
        where="`sessions-calm`",
        applies=NEVER,
        scenario="sessions-calm",
    ),
    PropertyDefect(
        name="timers-not-deduplicated",
        about="a timer that is registered twice fires twice",
        mirrors="a heap of timers that is no set",
        replaces=_SERVICES,
        statements=("T10",),
        wrong=_RepeatingTimerServices,
    ),
    PropertyDefect(
        name="timers-fired-after-restore",
        about="a timer that fired before a snapshot is in it, and fires again after a restore",
        mirrors="a snapshot of what was registered, not of what is left",
        replaces=_SERVICES,
        statements=("T14", "T15"),
        wrong=_RememberingTimerServices,
    ),
    PropertyDefect(
        name="timers-lost-on-rescale",
        about="a subtask restores only the timers of a predecessor whose key groups begin where its own do",
        mirrors="a restore that takes the subtask's old handle and no other",
        replaces=_SERVICES,
        statements=("T15",),
        wrong=_OldHandleTimerServices,
    ),
    PropertyDefect(
        name="timers-of-other-subtasks",
        about="a subtask restores every timer of the handles that it gets, so two subtasks fire it",
        mirrors="a restore that does not look at key groups",
        replaces=_SERVICES,
        statements=("T15",),
        wrong=_EveryGroupTimerServices,
    ),
    PropertyDefect(
        name="watermark-before-timers",
        about="a watermark is forwarded as it comes, before its timers have fired",
        mirrors="an advance that emits the watermark although mail interrupted it",
        replaces=_PROCESSOR,
        statements=("T13",),
        wrong=_EmitsWhenInterrupted,
    ),
    PropertyDefect(
        name="continuation-not-deferrable",
        about="the rest of an interrupted advance is ordinary mail, which every yield of the operator runs",
        mirrors="FLINK-35528",
        replaces=_PROCESSOR,
        statements=("M8",),
        wrong=_ContinuesAsOrdinaryMail,
    ),
    Stranger(
        name="clock-behind-its-alarm",
        about="the clock of the timers is a nanosecond behind the one that wakes them",
        component="timers",
        breaks="a timer fires when its time has come",
        variant=Variant(timers=_LateClockTimers),
        levels=("sim",),
        convicted_by=("V16",),
    ),
    Stranger(
        name="timeout-a-millisecond-early",
        about="a record times out a millisecond before its time",
        component="timers",
        breaks="a timeout comes when its time has passed",
        variant=Variant(timers=_other_timeouts(-1)),
        where="calls time out",
        applies=has_timeout,
        levels=("sim",),
        convicted_by=("V15",),
    ),
    Stranger(
        name="timeout-a-second-late",
        about="a record times out a second after its time",
        component="timers",
        breaks="a timeout comes when its time has passed",
        variant=Variant(timers=_other_timeouts(1_000)),
        where="calls time out",
        applies=has_timeout,
        levels=("sim",),
        scenario="blackhole-with-default",
        convicted_by=("V15",),
    ),
    Stranger(
        name="timers-without-end",
        about="each timer that has fired registers itself again at once",
        component="timers",
        breaks="a timer fires once",
        variant=Variant(timers=_EagerTimers),
        levels=("sim",),
        convicted_by=("V16",),
    ),
)
