"""The timers of a keyed operator under one service name: event time, processing time, their heap and their snapshot.

Answers to Flink's `InternalTimerServiceImpl`, `TimerHeapInternalTimer`, `HeapPriorityQueueSet` and
`InternalTimersSnapshot`. Invariant: a timer is a triple of time, key and namespace; equal triples are one timer (T10),
which fires once, with its key selected, unless it is deleted before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol

from msgspec import Struct

from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timer, Timers, cancel
from reference_impl.state.key_groups import HashableKey, Identity, KeyGroupRange, identity_of, value_of


class InternalTimer(Struct, frozen=True):
    """A timer at `timestamp` (ms) for `key` in `namespace`, such as a window; None is the default namespace.

    Answers to Flink's `TimerHeapInternalTimer`. Invariant: equal triples are one timer (T10).
    """

    timestamp: int
    key: Any
    namespace: Any = None


class Triggerable(Protocol):
    """The operator whose timers fire; the timer's key is selected during each call."""

    def on_event_time(self, timer: InternalTimer) -> None:
        """The watermark has reached the timer."""

    def on_processing_time(self, timer: InternalTimer) -> None:
        """The clock has reached the timer."""


class KeyContext(Protocol):
    """Holds the current key; implemented by the keyed state backend."""

    @property
    def current_key(self) -> HashableKey:
        """The key of the record or timer being processed; None before the first (S1)."""

    def set_current_key(self, key: HashableKey) -> None: ...


_SMALL = 64
"""A heap of up to this many entries is not searched for removed timers."""
_TimerIdentity = tuple[int, Identity, Identity | None]
_Entry = tuple[int, int, InternalTimer, _TimerIdentity]
"""Time and number, by which entries are sorted, then the timer and its identity."""


class TimerHeap:
    """A set of timers, sorted by time. Mutable.

    A removed timer stays in the heap until it comes first, or until most entries are removed timers.

    Answers to Flink's `HeapPriorityQueueSet`. Invariant: a set (T10) whose first element is the earliest timer; timers
    with the same time come in the order in which they were added, which Flink does not promise. Keys differ by value
    and type, as in keyed state: 1 and True have separate timers.
    """

    def __init__(self) -> None:
        self._timers: dict[_TimerIdentity, InternalTimer] = {}
        """By identity; a heap entry whose timer is not in here is obsolete."""
        self._heap: list[_Entry] = []
        self._number = count().__next__

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[InternalTimer]:
        """The timers in the order in which they were added."""
        return iter(self._timers.values())

    def add(self, timer: InternalTimer) -> bool:
        """Return whether the timer is new."""
        identity = _identity_of(timer)
        if identity in self._timers:
            return False
        self._timers[identity] = timer
        heappush(self._heap, (timer.timestamp, self._number(), timer, identity))
        return True

    def remove(self, timer: InternalTimer) -> bool:
        """Return whether the timer existed."""
        if self._timers.pop(_identity_of(timer), None) is None:
            return False
        timers = self._timers
        if len(self._heap) > 2 * len(timers) + _SMALL:  # most are obsolete; so the cost per timer is constant
            self._heap = [entry for entry in self._heap if timers.get(entry[3]) is entry[2]]
            heapify(self._heap)
        return True

    def peek(self) -> InternalTimer | None:
        """The earliest timer, or None."""
        heap, timers = self._heap, self._timers
        while heap and timers.get(heap[0][3]) is not heap[0][2]:
            heappop(heap)
        return heap[0][2] if heap else None

    def pop_until(self, instant_ms: int) -> InternalTimer | None:
        """Remove and return the earliest timer if it is due at `instant_ms`."""
        timer = self.peek()
        if timer is None or timer.timestamp > instant_ms:
            return None
        del self._timers[heappop(self._heap)[3]]
        return timer


def _identity_of(timer: InternalTimer) -> _TimerIdentity:
    namespace = timer.namespace
    return timer.timestamp, identity_of(timer.key), None if namespace is None else identity_of(namespace)


class SavedTimer(Struct, frozen=True, array_like=True):
    """A timer as a snapshot holds it; key and namespace are stored as identities: int, str or bytes."""

    timestamp: int
    key: Any
    """Declared as Any, since msgspec accepts no union of str and bytes; msgpack itself distinguishes them."""
    namespace: Any
    """None is the default namespace."""

    @classmethod
    def of(cls, timer: InternalTimer) -> SavedTimer:
        namespace = None if timer.namespace is None else identity_of(timer.namespace)
        return cls(timer.timestamp, identity_of(timer.key), namespace)

    def restored(self) -> InternalTimer:
        namespace = None if self.namespace is None else value_of(self.namespace)
        return InternalTimer(self.timestamp, value_of(self.key), namespace)


class KeyGroupTimers(Struct, frozen=True, kw_only=True):
    """The timers of one service and one key group."""

    event_time: list[SavedTimer]
    processing_time: list[SavedTimer]


class TimersHandle(Struct, frozen=True, kw_only=True):
    """The timers of one operator in one subtask, which owned `key_group_range`, by service and key group.

    Answers to Flink's `InternalTimersSnapshot` and `InternalTimerServiceSerializationProxy`, which are stored as raw
    keyed state. Invariant: plain data that can be split and joined by key group, so each timer has exactly one owner
    at any parallelism (T15). Timers are in the order of their registration.
    """

    key_group_range: KeyGroupRange
    services: dict[str, dict[int, KeyGroupTimers]]
    """The timers by service name, then by key group, without empty ones."""


MIN_WATERMARK = -(2**63)
"""The watermark before the first one, below every event time, as in Flink."""


class InternalTimerService:
    """The timers of a keyed operator under one name, in event time and processing time. Mutable.

    Before `start` it only stores timers.

    Answers to Flink's `InternalTimerServiceImpl`. Invariant: a registered timer fires once, with its key selected,
    unless it is deleted before; registering the same key, namespace and time twice makes one timer (T10).

    Processing times are those of the given `Timers`; a restore must use timers whose clock is comparable. A timer
    fires when its time is reached, not one millisecond later (decision 13).

    Difference from Flink: when an earlier timer has replaced the armed one (T3), and the replaced one still fires,
    that does not count as the firing of its successor; in Flink it does, and two are armed for a while.
    """

    heap_kind = TimerHeap
    """Planted defects replace it."""

    def __init__(self, *, timers: Timers, key_context: KeyContext) -> None:
        self._timers = timers
        self._key_context = key_context
        self._target: Triggerable | None = None
        self._event_time = self.heap_kind()
        self._processing_time = self.heap_kind()
        self._armed: Timer | None = None
        """The armed timer of the task's `Timers`: for the earliest processing-time timer (T11)."""
        self._watermark = MIN_WATERMARK
        self._closed = False

    def start(self, target: Triggerable) -> None:
        """Let timers fire at `target` from now on; overdue processing-time timers fire at once (T15)."""
        if self._target is None:
            self._target = target
            self._arm()
        self._target = target

    def close(self) -> None:
        """Stop all timers, including those whose mail is waiting (T16)."""
        self._closed = True
        self._disarm()

    # ------------------------------------------------------------------------------------- what a function sees

    @property
    def current_processing_time(self) -> int:
        """The current time (ms)."""
        return self._timers.now_ms()

    @property
    def current_watermark(self) -> int:
        """The current watermark; `MIN_WATERMARK` before the first."""
        return self._watermark

    @property
    def num_event_time_timers(self) -> int:
        """Pending timers over all keys."""
        return len(self._event_time)

    @property
    def num_processing_time_timers(self) -> int:
        """Pending timers over all keys."""
        return len(self._processing_time)

    def register_event_time_timer(self, namespace: object, time: int) -> None:
        """Fire for the current key when the watermark reaches `time` (ms); if it has, at the next watermark."""
        self._event_time.add(self._timer_at(namespace, time))

    def delete_event_time_timer(self, namespace: object, time: int) -> None:
        """Without effect if there is no such timer."""
        self._event_time.remove(self._timer_at(namespace, time))

    def register_processing_time_timer(self, namespace: object, time: int) -> None:
        """Fire for the current key when the clock reaches `time` (ms); if it has, as mail at once."""
        timer = self._timer_at(namespace, time)
        before = self._processing_time.peek()
        if self._processing_time.add(timer) and (before is None or time < before.timestamp):
            self._disarm()
            self._arm()

    def delete_processing_time_timer(self, namespace: object, time: int) -> None:
        """Without effect if there is no such timer; the armed timer stays and will find nothing due."""
        self._processing_time.remove(self._timer_at(namespace, time))

    def for_each_event_time_timer(self, consume: Callable[[object, int], None]) -> None:
        """Call `consume` with namespace and time of each timer, with its key selected."""
        self._for_each(self._event_time, consume)

    def for_each_processing_time_timer(self, consume: Callable[[object, int], None]) -> None:
        """Call `consume` with namespace and time of each timer, with its key selected."""
        self._for_each(self._processing_time, consume)

    def _for_each(self, heap: TimerHeap, consume: Callable[[object, int], None]) -> None:
        """Call `consume` in order of registration; it may register and delete timers. The last key stays selected."""
        for timer in list(heap):
            self._key_context.set_current_key(timer.key)
            consume(timer.namespace, timer.timestamp)

    def _timer_at(self, namespace: object, time: int) -> InternalTimer:
        key = self._key_context.current_key
        if key is None:
            raise WrongState(
                f"no key is set for a timer at {time} ms; use timers while a record or timer is processed"
            )
        return InternalTimer(time, key, namespace)

    # ----------------------------------------------------------------------------------------------- event time

    @property
    def reached_watermark(self) -> int:
        """The highest watermark whose timers have all fired; below the current one while an advance is interrupted."""
        head = self._event_time.peek()
        return self._watermark if head is None else min(self._watermark, head.timestamp - 1)

    def advance_watermark(self, time: int) -> None:
        """Fire all timers up to `time` (ms), in order of time (T12)."""
        self.try_advance_watermark(time, lambda: False)

    def try_advance_watermark(self, time: int, should_stop: Callable[[], bool]) -> bool:
        """Fire timers until `should_stop`, but at least one, so that each call makes progress (T13).

        Return whether all have fired. Between two calls, a snapshot holds the timers that have not fired (T14).
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
        """Remove the next due timer and select its key, before the callback, which may register it again (T11)."""
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
        """Fire what is due at `time`, then arm the earliest remaining timer, unless a callback has (T11)."""
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
        return list(self._event_time)

    def processing_time_timers(self) -> list[InternalTimer]:
        return list(self._processing_time)

    def restore(self, *, event_time: list[InternalTimer], processing_time: list[InternalTimer]) -> None:
        """Add the timers of a snapshot; called before `start`."""
        for timer in event_time:
            self._event_time.add(timer)
        for timer in processing_time:
            self._processing_time.add(timer)
