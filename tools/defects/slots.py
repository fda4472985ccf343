"""Strangers in the operator's queue, its timers and its mailbox: rare losses, and what a restore forgets.

Answers to waits that are given up, to containers with a maximum, and to timers that are kept by their due time.
Invariant: each differs from the reference's part in one method, and does as the reference while its queue is short,
its timers are apart and nothing is restored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from harness.scenario.model import Scenario
from harness.sut.defects.defect import both, calls_once, has_watermarks
from harness.sut.defects.twelve import OperatorOfSettlements, building
from harness.sut.variant import Variant
from reference_impl.elements import OperatorInput, QueueElement, Record, Watermark
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timeouts, Timer, Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.queues import CheckedEntry, Emit, Entry
from reference_impl.operator.result import Settlement
from tools.defects.kinds import Stranger
from tools.defects.where import has_several_results, has_timeout, is_restored

_MAIL_MAX: Final = 6
_SNAPSHOT_MAX: Final = 4
_YIELDS_MAX: Final = 12
_GRAIN_MS: Final = 10


class _GivesUpWaiting(AsyncWaitOperator):
    """Waits for a slot through twelve mails, and then goes on without its record."""

    def _wait_for_slot(self, entry: Entry) -> None:
        for _ in range(_YIELDS_MAX):
            self._executor.yield_()
            if self.queue.try_put(entry):
                return
        if not isinstance(entry.element, Record):
            super()._wait_for_slot(entry)


class _DropsWatermarkWhenFull(AsyncWaitOperator):
    """Lets a watermark fall that finds the queue full: the next one will do."""

    def process(self, element: OperatorInput) -> None:
        if isinstance(element, Watermark):
            entry = CheckedEntry(element)
            if self.queue.try_put(entry):
                self.emit_completed()
        else:
            super().process(element)


class _TimedOnce(Settlement):
    def emit_to(self, emit: Emit) -> None:
        results = self.results
        assert results is not None, "it is complete"
        for place, value in enumerate(results):
            emit(Record(value=value, timestamp=None if place else self.element.timestamp))


class _LosesTimestamp(OperatorOfSettlements):
    """Gives the event time to the first result of a record only."""

    settlement = _TimedOnce


class _SnapshotsFour(AsyncWaitOperator):
    """Saves at most four elements: its state has room for one page."""

    def snapshot(self) -> tuple[QueueElement, ...]:
        return super().snapshot()[:_SNAPSHOT_MAX]


class _RestoresWithoutTimeout(AsyncWaitOperator):
    """Sets no timer for records that are replayed from a snapshot."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        timeout_ms, self.timeout_ms = self.timeout_ms, 0
        super().open(restored)
        self.timeout_ms = timeout_ms


class _RestoredKeepsFirstOnly(AsyncWaitOperator):
    """Replays an element that stands in a snapshot only if it has no equal before it."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        seen: dict[Any, QueueElement] = {}
        for element in restored:
            key = element.value.key if isinstance(element, Record) else element
            seen.setdefault(key, element)
        super().open(seen.values())


class _BoundedMailbox(Mailbox):
    """Keeps the newest six mails: its queue has a maximum, from which a deque drops the oldest."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._queue = deque(maxlen=_MAIL_MAX)


class _LastOfInstant(Timeouts):
    def add(self, expiring: Any) -> None:
        if self._waiting and self._waiting[-1][0] == self._now_ns() + self._delay_ns:
            self._waiting.pop()
        super().add(expiring)


class _OneAnInstant(Timers):
    """Keeps timers by their due time: of several that are due at once the last one fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor) -> None:
        super().__init__(loop, executor)
        self._by_instant: dict[int, Timer] = {}

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        timer = super().register(delay_ms, callback)
        before = self._by_instant.get(timer[0])
        if before is not None:
            before[2] = None
        self._by_instant[timer[0]] = timer
        return timer

    def timeouts(self, delay_ms: int) -> Timeouts:
        timeouts = _LastOfInstant(self, delay_ms)
        self._timeouts.append(timeouts)
        return timeouts


class _InTens(Timers):
    """Counts in ticks of ten milliseconds, rounded down."""

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return super().register(delay_ms - delay_ms % _GRAIN_MS, callback)

    def timeouts(self, delay_ms: int) -> Timeouts:
        return super().timeouts(max(1, delay_ms - delay_ms % _GRAIN_MS))


def _timers(kind: type[Timers]) -> Any:
    def build(
        loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
    ) -> Timers:
        del wall_ns
        return kind(loop, executor)

    return build


def _has_room(scenario: Scenario) -> bool:
    return scenario.operator.capacity > _SNAPSHOT_MAX


_KEPT = "each record that was taken leaves with its results"

OF_SLOTS = (
    Stranger(
        name="gives-up-waiting-for-slot",
        about="a record that has waited for a slot through twelve mails is dropped",
        component="queue",
        breaks=_KEPT,
        variant=Variant(build_operator=building(_GivesUpWaiting)),
        scenario="head-of-line-hard",
        convicted_by=("V8", "V9", "V10", "V14"),
    ),
    Stranger(
        name="full-queue-drops-watermark",
        about="a watermark that finds the queue full is dropped",
        component="queue",
        breaks="each watermark leaves behind its records",
        variant=Variant(build_operator=building(_DropsWatermarkWhenFull)),
        where="there are watermarks",
        applies=has_watermarks,
        convicted_by=("V6", "V10", "V14"),
    ),
    Stranger(
        name="second-result-without-time",
        about="of several results of a record only the first has its event time",
        component="operator",
        breaks="each result has its record's event time",
        variant=Variant(build_operator=building(_LosesTimestamp)),
        where="records have several results; calls are made once",
        applies=both(has_several_results, calls_once),
        convicted_by=("V8",),
    ),
    Stranger(
        name="snapshot-of-four",
        about="a snapshot holds the first four elements of the queue",
        component="operator",
        breaks="a snapshot holds each element in flight",
        variant=Variant(build_operator=building(_SnapshotsFour)),
        where="a capacity of more than four",
        applies=_has_room,
        convicted_by=("V10",),
    ),
    Stranger(
        name="restored-without-timeout",
        about="records that are replayed from a snapshot have no timeout",
        component="operator",
        breaks="each record has its timeout",
        variant=Variant(build_operator=building(_RestoresWithoutTimeout)),
        where="calls are made once, with a timeout; an attempt is killed, or superseded",
        applies=both(calls_once, has_timeout, is_restored),
        scenario="silent-after-restart",
        convicted_by=("V16",),
    ),
    Stranger(
        name="restores-keys-once",
        about="of the records of a snapshot with one key only the first is replayed",
        component="operator",
        breaks="a restore replays each element of its snapshot",
        variant=Variant(build_operator=building(_RestoredKeepsFirstOnly)),
        where="an attempt is killed, or superseded",
        applies=is_restored,
        convicted_by=("V5", "V8", "V9", "V10"),
    ),
    Stranger(
        name="mailbox-keeps-six",
        about="with more than six mails waiting the oldest is lost",
        component="mailbox",
        breaks=_KEPT,
        variant=Variant(build_mailbox=_BoundedMailbox),
        scenario="loop-stall",
        convicted_by=("V16",),
    ),
    Stranger(
        name="one-timer-an-instant",
        about="of several timers that are due at the same instant only the last fires",
        component="timers",
        breaks="each timer fires",
        variant=Variant(timers=_timers(_OneAnInstant)),
        convicted_by=("V16",),
    ),
    Stranger(
        name="timers-in-tens",
        about="delays are rounded down to tens of milliseconds",
        component="timers",
        breaks="no timer fires early",
        variant=Variant(timers=_timers(_InTens)),
        where="calls time out",
        applies=has_timeout,
        convicted_by=("V15",),
    ),
)
