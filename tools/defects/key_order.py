"""Defects of an operator that keeps the order of each key (mode `keyed`): its lines of records, their turns, restores.

Answers to what went wrong in operators that keep order by key (FLIP-519, FLINK-40552). Invariant: in the other modes
each entry is the reference, so it applies to `keyed` only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Unpack
from zlib import crc32

from harness.sut.defects.defect import (
    NEVER,
    SIM_AND_LIVE,
    Defect,
    both,
    calls_fail,
    has_watermarks,
    retries,
)
from harness.sut.variant import Variant
from reference_impl.elements import QueueElement, Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, Mode, Parts, operator_around, queue_for
from reference_impl.operator.queues import Emit, Entry, KeyedSegment, KeyOf, Segment, UnorderedQueue
from reference_impl.operator.retry import Attempts, JudgedSettlement
from tools.defects.where import is_keyed, is_restored, substitutes

MakeSegments = Callable[[KeyOf], Callable[[], Segment]]
"""From the key of a value to what makes a queue's segments."""


def _building(
    segments: MakeSegments,
    *,
    queue: type[UnorderedQueue] = UnorderedQueue,
    kind: type[AsyncWaitOperator] = AsyncWaitOperator,
) -> BuildOperator:
    """A `build_operator` whose queue in mode `keyed` is of class `queue`, with these segments."""

    def build(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
        key_of = parts.get("key_of")
        if mode != "keyed" or key_of is None:
            return operator_around(queue_for(mode, capacity, key_of), kind=AsyncWaitOperator, **parts)
        return operator_around(queue(capacity, segment=segments(key_of)), kind=kind, **parts)

    return build


def _segments(kind: type[KeyedSegment]) -> MakeSegments:
    return lambda key_of: partial(kind, key_of)


class _LetsOneOvertake(KeyedSegment):
    """Lets the first completion that is not its key's next one leave at once."""

    def __init__(self, key_of: KeyOf, slips: Iterator[bool]) -> None:
        super().__init__(key_of)
        self._slips = slips

    def _completed(self, key: Hashable, entry: Entry) -> None:
        line = self._lines[key]
        if line[0] is not entry and next(self._slips, False):
            line.remove(entry)
            self.completed.append(entry)
        else:
            super()._completed(key, entry)


def _letting_one_overtake(key_of: KeyOf) -> Callable[[], Segment]:
    slips = iter([True])
    return lambda: _LetsOneOvertake(key_of, slips)


class _StuckAfterTimeout(KeyedSegment):
    """A timeout lets its own record leave, and nobody looks at those that wait behind it."""

    def _completed(self, key: Hashable, entry: Entry) -> None:
        line = self._lines[key]
        if getattr(entry, "timed_out", False) and line[0] is entry:
            self.completed.append(line.popleft())
            if not line:
                del self._lines[key]
        else:
            super()._completed(key, entry)


class _HeldByEmptyAnswer(KeyedSegment):
    """Takes an empty answer for none."""

    def _completed(self, key: Hashable, entry: Entry) -> None:
        del entry
        line = self._lines[key]
        while line and line[0].results:
            self.completed.append(line.popleft())
        if not line:
            del self._lines[key]


_BUCKETS, _BUCKETS_BEFORE = 7, 5
"""The number of hash buckets, and that of the attempt which wrote the restored state."""


class _LinesByBucket(KeyedSegment):
    """Has a line for each hash bucket; a restored record stands in a line of the old number of buckets."""

    def __init__(self, key_of: KeyOf, is_replay: Callable[[], bool]) -> None:
        super().__init__(partial(self._bucket, key_of, is_replay))

    @staticmethod
    def _bucket(key_of: KeyOf, is_replay: Callable[[], bool], value: Any) -> tuple[int, int]:
        buckets = _BUCKETS_BEFORE if is_replay() else _BUCKETS
        return buckets, crc32(repr(key_of(value)).encode()) % buckets


class _KnowsItsReplay(AsyncWaitOperator):
    """Tells its segments whether an element is a restored one."""

    replays: list[bool]

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        self.replays[0] = True
        super().open(restored)
        self.replays[0] = False


def _build_by_bucket(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    replays = [False]

    def segments(key_of: KeyOf) -> Callable[[], Segment]:
        return lambda: _LinesByBucket(key_of, lambda: replays[0])

    operator = _building(segments, kind=_KnowsItsReplay)(mode=mode, capacity=capacity, **parts)
    if isinstance(operator, _KnowsItsReplay):
        operator.replays = replays
    return operator


class _ReplaysSegmentsBackwards(AsyncWaitOperator):
    """Replays the records between two watermarks in reverse, as a set without an order might list them."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        part: list[QueueElement] = []
        replayed: list[QueueElement] = []
        for element in restored:
            if isinstance(element, Record):
                part.append(element)
            else:
                replayed += [*reversed(part), element]
                part = []
        super().open([*replayed, *reversed(part)])


class _NotesFollowers(KeyedSegment):
    """Knows which records came while one of their key was in flight."""

    __slots__ = ("followers",)

    def __init__(self, key_of: KeyOf) -> None:
        super().__init__(key_of)
        self.followers: dict[Entry, None] = {}

    def add(self, entry: Entry) -> None:
        if type(entry.element) is Record and self._key_of(entry.element.value) in self._lines:
            self.followers[entry] = None
        super().add(entry)


class _WatermarksPassFollowers(UnorderedQueue):
    """Holds a watermark back only for the first record of each key (A20)."""

    def emit_completed(self, emit: Emit) -> bool:
        return super().emit_completed(emit) or self._let_watermark_pass()

    def _let_watermark_pass(self) -> bool:
        segments = self._segments
        first = segments[0]
        if len(segments) == 1 or first.completed or not isinstance(first, _NotesFollowers):
            return False
        if not first.members or any(entry not in first.followers for entry in first.members):
            return False
        if not all(type(entry.element) is not Record for entry in segments[1].members):
            return False
        segments[0], segments[1] = segments[1], segments[0]
        return True


class _LosesItsTurn(Attempts):
    """Puts a record behind the others of its key when it is called again."""

    def _call_again(self) -> None:
        queue = self.settlement.owner.queue
        segments = getattr(queue, "_segments", None) or queue._queue._segments  # type: ignore[attr-defined]  # noqa: SLF001
        for segment in segments:
            if self.settlement in segment.members:
                segment.let_wait(self.settlement)
        super()._call_again()


class _RequeuedAtTail(KeyedSegment):
    def let_wait(self, entry: Entry) -> None:
        """Let `entry` leave after all of its key that are there."""
        key = self._key_of(entry.element.value)  # type: ignore[union-attr]  # only records are called
        line = self._lines[key]
        line.remove(entry)
        line.append(entry)
        while line[0].results is not None:
            self.completed.append(line.popleft())


class _RetriesLast(AsyncWaitOperator):
    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(owner=self, element=record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        _LosesItsTurn(self, entry, self.timers.now_ms()).begin()


OF_KEY_ORDER = (
    Defect(
        name="one-overtakes-its-key",
        about="one completion that comes before that of an earlier record of its key leaves at once",
        mirrors="a queue that looks at its head, but not always",
        convicted_by=("V3",),
        variant=Variant(build_operator=_building(_letting_one_overtake)),
        where="order by key",
        applies=is_keyed,
        scenario="head-of-line-keyed",
    ),
    Defect(
        name="empty-answer-holds-key",
        about="a record with an empty answer holds back what its key has behind it",
        mirrors="a list that is asked for its truth, not for being there",
        convicted_by=("V16",),
        variant=Variant(build_operator=_building(_segments(_HeldByEmptyAnswer))),
        where="`several-results-keyed`",
        applies=NEVER,
        scenario="several-results-keyed",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="key-stuck-after-timeout",
        about="after a timeout the records that wait behind it for their turn are not looked at",
        mirrors="FLINK-37976: a key's next record is not triggered",
        convicted_by=("V16",),
        variant=Variant(build_operator=_building(_segments(_StuckAfterTimeout))),
        where="order by key; a timeout is answered",
        applies=both(is_keyed, substitutes),
        scenario="timeouts-keyed",
    ),
    Defect(
        number=28,
        name="lines-by-bucket",
        about="records wait in a line for each hash bucket, and restored ones in those of another number of buckets",
        mirrors="a lock for each bucket, after a restore with other buckets",
        convicted_by=("V3",),
        variant=Variant(build_operator=_build_by_bucket),
        where="order by key; an attempt is killed, or superseded",
        applies=both(is_keyed, is_restored),
        scenario="restore-keyed",
    ),
    Defect(
        name="restores-keys-backwards",
        about="restored records between two watermarks are replayed from the last to the first",
        mirrors="a segment that is a hash set",
        convicted_by=("V3",),
        variant=Variant(build_operator=_building(_segments(KeyedSegment), kind=_ReplaysSegmentsBackwards)),
        where="order by key; an attempt is killed, or superseded",
        applies=both(is_keyed, is_restored),
        scenario="restore-keyed",
    ),
    Defect(
        name="watermark-passes-key",
        about="a watermark waits for the first record of each key before it, and not for those behind that one",
        mirrors="FLINK-36859: an epoch that ends too early",
        convicted_by=("V5",),
        variant=Variant(build_operator=_building(_segments(_NotesFollowers), queue=_WatermarksPassFollowers)),
        where="order by key, with watermarks",
        applies=both(is_keyed, has_watermarks),
        scenario="head-of-line-keyed",
    ),
    Defect(
        name="retry-loses-its-turn",
        about="a record that is called again leaves after the others of its key that came behind it",
        mirrors="a retry that is put at the tail of the queue",
        convicted_by=("V3",),
        variant=Variant(build_operator=_building(_segments(_RequeuedAtTail), kind=_RetriesLast)),
        where="order by key; calls are made again; one ends with an error",
        applies=both(is_keyed, retries, calls_fail),
        scenario="retries-keyed",
    ),
)
