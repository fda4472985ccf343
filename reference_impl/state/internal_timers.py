"""The timers of a keyed operator under one name, in event and processing time, with their heap and snapshot.

Answers to Flink's `InternalTimerServiceImpl`, `TimerHeapInternalTimer`, `HeapPriorityQueueSet` and
`InternalTimersSnapshot`. Invariant: a timer is the triple of its instant, key and namespace; two equal triples are one
timer (T10), and it fires once, with its key as the current one, unless it is deleted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol

from msgspec import Struct

from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timer, Timers, cancel
from reference_impl.state.key_groups import Identity, KeyGroupRange, identity_of, value_of

__all__ = [
    "MIN_WATERMARK",
    "InternalTimer",
    "InternalTimerService",
    "KeyContext",
    "KeyGroupTimers",
    "SavedTimer",
    "TimerHeap",
    "TimersHandle",
    "Triggerable",
]


class InternalTimer(Struct, frozen=True):
    """A timer of one key, and who is told that its time has come.

    At `timestamp` (ms), for `key`, in `namespace` (a window, for instance; None where there is none).

    Answers to Flink's `TimerHeapInternalTimer`, `Triggerable` and `KeyContext`. Invariant: a timer is the triple of its
    instant, key and namespace; two equal triples are one timer (T10).
    """

    timestamp: int
    key: Any
    namespace: Any = None


class Triggerable(Protocol):
    """The operator whose timers they are; the timer's key is the current one during each call."""

    def on_event_time(self, timer: InternalTimer) -> None:
        """The watermark has reached the timer."""

    def on_processing_time(self, timer: InternalTimer) -> None:
        """The clock has reached the timer."""


class KeyContext(Protocol):
    """Which key is the current one: the keyed state backend."""

    @property
    def current_key(self) -> Any:
        """The key whose record or timer is being processed; None before the first (S1)."""

    def set_current_key(self, key: Any) -> None:
        """From now on `key` is the current one."""


_SMALL = 64
"""A heap of so many entries is not searched for removed ones."""
_TimerIdentity = tuple[int, Identity, Identity | None]
_Entry = tuple[int, int, InternalTimer, _TimerIdentity]
"""Instant and number, by which entries are sorted; the timer, and what tells it from others."""


class TimerHeap:
    """Timers by their instant, each of them once.

    Mutable. A removed timer stays in the heap until it is the first, or until the removed are the most.

    Answers to Flink's `HeapPriorityQueueSet`. Invariant: a set (T10) whose first element is the earliest timer; timers
    of one instant come in the order in which they were added, where Flink promises none. Keys are told apart as in
    keyed state: by value and type, so that 1 and True have timers of their own.
    """

    def __init__(self) -> None:
        self._timers: dict[_TimerIdentity, InternalTimer] = {}
        """By what tells them apart; an entry of the heap whose timer is not here is a leftover."""
        self._heap: list[_Entry] = []
        self._number = count().__next__

    def __len__(self) -> int:
        """The timers, counted."""
        return len(self._timers)

    def __iter__(self) -> Iterator[InternalTimer]:
        """The timers, in the order in which they were added."""
        return iter(self._timers.values())

    def add(self, timer: InternalTimer) -> bool:
        """Whether it is new."""
        identity = _identity_of(timer)
        if identity in self._timers:
            return False
        self._timers[identity] = timer
        heappush(self._heap, (timer.timestamp, self._number(), timer, identity))
        return True

    def remove(self, timer: InternalTimer) -> bool:
        """Whether it was there."""
        if self._timers.pop(_identity_of(timer), None) is None:
            return False
        if len(self._heap) > 2 * len(self._timers) + _SMALL:
            self._purge()
        return True

    def peek(self) -> InternalTimer | None:
        """The earliest; None without any."""
        heap, timers = self._heap, self._timers
        while heap and timers.get(heap[0][3]) is not heap[0][2]:
            heappop(heap)
        return heap[0][2] if heap else None

    def pop_until(self, instant_ms: int) -> InternalTimer | None:
        """Take out the earliest, if it is due at `instant_ms`."""
        timer = self.peek()
        if timer is None or timer.timestamp > instant_ms:
            return None
        del self._timers[heappop(self._heap)[3]]
        return timer

    def _purge(self) -> None:
        """Drop the leftovers, and do not look again before there are as many anew: O(1) a timer."""
        timers = self._timers
        self._heap = [entry for entry in self._heap if timers.get(entry[3]) is entry[2]]
        heapify(self._heap)


def _identity_of(timer: InternalTimer) -> _TimerIdentity:
    namespace = timer.namespace
    return timer.timestamp, identity_of(timer.key), None if namespace is None else identity_of(namespace)


class SavedTimer(Struct, frozen=True, array_like=True):
    """A timer as a snapshot holds it; its key and namespace as their identities: an int, a str or bytes."""

    timestamp: int
    key: Any
    """Not declared as what it is: msgspec reads no union of str and bytes, and msgpack tells them apart without."""
    namespace: Any
    """None: there is none."""

    @classmethod
    def of(cls, timer: InternalTimer) -> SavedTimer:
        """What is saved of `timer`."""
        namespace = None if timer.namespace is None else identity_of(timer.namespace)
        return cls(timer.timestamp, identity_of(timer.key), namespace)

    def restored(self) -> InternalTimer:
        """The timer that was saved."""
        namespace = None if self.namespace is None else value_of(self.namespace)
        return InternalTimer(self.timestamp, value_of(self.key), namespace)


class KeyGroupTimers(Struct, frozen=True, kw_only=True):
    """Those of one service and one key group."""

    event_time: list[SavedTimer]
    processing_time: list[SavedTimer]


class TimersHandle(Struct, frozen=True, kw_only=True):
    """What a snapshot holds of an operator's timers: by service and by key group.

    Those of one subtask, which owned `key_group_range`.

    Answers to Flink's `InternalTimersSnapshot` and `InternalTimerServiceSerializationProxy`, which lie in the raw keyed
    state. Invariant: a value of plain data that can be split and joined by key group, so that at another parallelism
    each timer has exactly one owner (T15). Timers lie in it in the order in which they were registered.
    """

    key_group_range: KeyGroupRange
    services: dict[str, dict[int, KeyGroupTimers]]
    """By the service's name, then by key group; only what has a timer is there."""


MIN_WATERMARK = -(2**63)
"""Before the first watermark: behind every event time, as in Flink."""


class InternalTimerService:
    """The timers of a keyed operator under one name, in event time and in processing time.

    Mutable. Built without a `Triggerable` it only keeps what was restored, until `start`.

    Answers to Flink's `InternalTimerServiceImpl`. Invariant: a registered timer fires once, with its key as the current
    one, unless it is deleted first; two registrations of one key, namespace and instant are one timer (T10).

    Processing-time instants are those of the `Timers` handed in. Who restores elsewhere hands in timers whose instants
    mean the same there. A timer fires when its instant is reached, not one millisecond later (decision 13).

    Deviation: the late firing of a timer of the clock that was replaced by an earlier one (T3) does not count as the
    firing of its successor; in Flink it does, and two are armed for a while.
    """

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
