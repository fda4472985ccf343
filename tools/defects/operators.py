"""Defects of the operator: its queue, its slots, its watermarks, its close.

Answers to what went wrong in `AsyncWaitOperator` and its queues. Invariant: each entry replaces the operator, and at
most the pool and the close of its attempt, so it is the same at every level. `building` and `OperatorOfSettlements` are
shared with the defects of calls and of checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from sys import maxsize
from typing import Any, Unpack

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, SIM_ONLY, Defect, calls_once
from harness.sut.defects.twelve import (
    SEGMENT_LEAK,
    UNORDERED_EMISSION,
    WATERMARKS_AT_ONCE,
    OperatorOfSettlements,
    building,
)
from harness.sut.variant import Variant
from reference_impl.elements import LatencyMarker, OperatorInput, QueueElement, Record, Watermark
from reference_impl.mailbox.mailbox import MIN_PRIORITY, MailboxExecutor
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import (
    Mode,
    Parts,
    build_operator,
    operator_around,
    queue_for,
)
from reference_impl.operator.queues import (
    Emit,
    Entry,
    GatedQueue,
    KeyedSegment,
    OrderedQueue,
    UnorderedQueue,
    checked_capacity,
)
from reference_impl.operator.result import Settlement, checked_results
from tools.defects.pools import cancelling_nothing
from tools.defects.where import has_final_watermark, is_restored, reuses_objects, watermarks_repeat

FINAL_WATERMARK = 2**63 - 1
"""The timestamp of the watermark that ends event time: Flink's `Watermark.MAX_WATERMARK`."""

_LINGER_MS = 100
"""Long enough for calls that were made before the close to be answered."""


class _GrowingOrderedQueue(OrderedQueue):
    def grow(self, slots: int) -> None:
        self._capacity += slots


class _GrowingUnorderedQueue(UnorderedQueue):
    def grow(self, slots: int) -> None:
        self._capacity += slots


class _RestoresWithoutSlots(AsyncWaitOperator):
    """Replays without asking for slots (A62): after a crash the database gets restored and new calls at once."""

    slots: _GrowingOrderedQueue | _GrowingUnorderedQueue

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        elements = tuple(restored)
        self.slots.grow(len(elements))
        super().open(elements)


def _build_without_slots(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    key_of = parts.get("key_of")
    segment = None if key_of is None else partial(KeyedSegment, key_of)
    slots = (
        _GrowingOrderedQueue(capacity)
        if mode == "ordered"
        else _GrowingUnorderedQueue(capacity, segment=segment)
    )
    operator = operator_around(slots, kind=_RestoresWithoutSlots, **parts)
    assert isinstance(operator, _RestoresWithoutSlots), "it is built of that kind"
    operator.slots = slots
    return operator


def _build_without_limit(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that always has a free slot, so that as many calls run as there are records (A9, A11)."""
    checked_capacity(capacity)
    return operator_around(queue_for(mode, maxsize, parts.get("key_of")), **parts)


def _build_without_copies(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that queues the source's own object, which turns into a later record (A29)."""
    parts["copy_value"] = None
    return build_operator(mode=mode, capacity=capacity, **parts)


class _SettlesInCaller(Settlement):
    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is None:
            self.outcome = checked_results(results)
            self.action()


class _EmitsInCaller(OperatorOfSettlements):
    """Lets the client's callback change the queue and write the output, on the client's thread (A37)."""

    settlement = _SettlesInCaller


class _SettlesAfterClose(Settlement):
    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is None and self.owner.closed:  # a closed mailbox refuses mail
            self.outcome = checked_results(results)
            self.action()
        else:
            super().complete(results)


class _EmitsAfterClose(OperatorOfSettlements):
    """Emits when its task is over (A68), though the next attempt replays the same record."""

    settlement = _SettlesAfterClose

    def close(self) -> None:
        probe, emit = self.probe, self.emit
        super().close()
        self.probe, self.emit = probe, emit


class _ForwardsFinalWatermark(AsyncWaitOperator):
    """Lets windows downstream close before the last records come (A66)."""

    def process(self, element: OperatorInput) -> None:
        if type(element) is Watermark and element.timestamp == FINAL_WATERMARK:
            self.emit(element)
        else:
            super().process(element)


class _DropsEqualWatermarks(AsyncWaitOperator):
    """Passes on no watermark twice (A51): a reader that waits for the one behind the last record waits for ever."""

    last: int | None = None
    """The timestamp of the latest watermark."""

    def process(self, element: OperatorInput) -> None:
        if type(element) is Watermark:
            if element.timestamp == self.last:
                return
            self.last = element.timestamp
        super().process(element)


class _QueuesLatencyMarkers(AsyncWaitOperator):
    """Treats latency markers as watermarks, so they measure the lookups of others (A54)."""

    def process(self, element: OperatorInput) -> None:
        if isinstance(element, LatencyMarker):
            entry = Entry(element, ())  # type: ignore[arg-type]  # which the reference refuses
            if not self.queue.try_put(entry):
                self._wait_for_slot(entry)
            self.emit_completed()
        else:
            super().process(element)


class _HearsDownstreamOnce(AsyncWaitOperator):
    """Once downstream has had no room, what waits leaves when it has; later nobody looks again."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        if isinstance(self.queue, GatedQueue):
            self.queue._let_go = self.queue._resume  # type: ignore[method-assign]  # noqa: SLF001 - it stays held


class _EmitsOneByOne(UnorderedQueue):
    """Lets a record's results leave one at a time, so that those of another come between."""

    def emit_completed(self, emit: Emit) -> bool:
        completed = self._segments[0].completed
        entry = completed[0] if completed else None
        if entry is None or type(entry.element) is not Record or len(entry.results or ()) <= 1:
            return super().emit_completed(emit)
        assert entry.results is not None, "it is complete"
        first, *entry.results = entry.results
        emit(Record(value=first, timestamp=entry.element.timestamp))
        completed.rotate(-1)
        return True


def _build_one_by_one(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    if mode != "unordered":
        return build_operator(mode=mode, capacity=capacity, **parts)
    return operator_around(_EmitsOneByOne(capacity), kind=AsyncWaitOperator, **parts)


class _TimesFromArrival(AsyncWaitOperator):
    """Begins a record's timeout when it comes, not when it has its slot (A28)."""

    def _wait_for_slot(self, entry: Entry) -> None:
        if isinstance(entry, Settlement) and self.timeout_ms:
            self.timeouts.add(entry)
        super()._wait_for_slot(entry)


class _YieldsToAll(AsyncWaitOperator):
    """Runs mail of any operator while it waits for a slot, also of those upstream, which then emit into its wait."""

    def __init__(self, *, executor: MailboxExecutor, **parts: Any) -> None:
        mailbox = executor._mailbox  # noqa: SLF001 - a defect may look inside
        super().__init__(executor=MailboxExecutor(mailbox, MIN_PRIORITY), **parts)


OF_OPERATORS = (
    WATERMARKS_AT_ONCE,
    SEGMENT_LEAK,
    Defect(
        number=12,
        name="restores-beyond-capacity",
        about="a restored snapshot is called all at once, on top of the capacity",
        mirrors="a thundering herd",
        convicted_by=("V14",),
        variant=Variant(build_operator=_build_without_slots),
        where="an attempt is killed, or superseded",
        applies=is_restored,
        scenario="restore-full-queue",
    ),
    Defect(
        number=13,
        name="frees-slot-on-call",
        about="a slot is free again as soon as the call has begun",
        mirrors="a permit given back too early",
        convicted_by=("V14",),
        variant=Variant(build_operator=_build_without_limit),
        scenario="head-of-line-ordered",
    ),
    Defect(
        number=22,
        name="shares-records",
        about="a record is queued as it came, although the source uses the object again",
        mirrors="FLINK-12351",
        convicted_by=("V8", "V10"),
        variant=Variant(build_operator=_build_without_copies),
        where="the source reads each record into one object",
        applies=reuses_objects,
        levels=SIM_ONLY,
    ),
    Defect(
        number=23,
        name="emits-from-callback",
        about="a completion emits in the client's callback instead of as mail",
        mirrors="an operator without a mailbox",
        convicted_by=("V21",),
        variant=Variant(build_operator=building(_EmitsInCaller)),
        where="calls are made once",
        applies=calls_once,
        levels=SIM_ONLY,
    ),
    Defect(
        number=24,
        name="emits-after-close",
        about="a result that comes after the close leaves all the same",
        mirrors="FLINK-13063, FLINK-35810",
        convicted_by=("V21",),
        variant=Variant(
            build_operator=building(_EmitsAfterClose),
            pool=cancelling_nothing,
            linger_ms=_LINGER_MS,
        ),
        where="calls are made once",
        applies=calls_once,
        levels=SIM_ONLY,
    ),
    Defect(
        number=25,
        name="end-at-once",
        about="the final watermark leaves before the drain has ended",
        mirrors="a race at the end of input",
        convicted_by=("V7", "V5"),
        variant=Variant(build_operator=building(_ForwardsFinalWatermark)),
        where="there is a final watermark",
        applies=has_final_watermark,
        levels=SIM_ONLY,
    ),
    Defect(
        name="drops-equal-watermarks",
        about="a watermark equal to the one before it is dropped",
        mirrors="thrift where each one counts",
        convicted_by=("V6",),
        variant=Variant(build_operator=building(_DropsEqualWatermarks)),
        where="watermarks repeat",
        applies=watermarks_repeat,
        scenario="wild-watermarks",
    ),
    UNORDERED_EMISSION,
    Defect(
        name="latency-markers-wait",
        about="a latency marker waits in the queue behind the records before it, as a watermark does",
        mirrors="a queue that takes every element that is no record",
        convicted_by=("V24",),
        variant=Variant(build_operator=building(_QueuesLatencyMarkers)),
        where="`latency-markers`",
        applies=NEVER,
        scenario="latency-markers",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="yields-to-upstream",
        about="while the operator waits for a slot, mail of the operator upstream runs, which feeds it once more",
        mirrors="a yield without the priority of its operator",
        convicted_by=("V1", "V14"),
        variant=Variant(build_operator=building(_YieldsToAll)),
        where="`chained-operators`",
        applies=NEVER,
        scenario="chained-operators",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="downstream-heard-once",
        about="after downstream has had no room for the first time, nobody waits for its room any more",
        mirrors="a flag that is set before a listener is added, and never cleared",
        convicted_by=("V16",),
        variant=Variant(build_operator=building(_HearsDownstreamOnce)),
        where="`downstream-shut`",
        applies=NEVER,
        scenario="downstream-shut",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="results-one-by-one",
        about="in unordered mode the results of a record leave one at a time, and others come between",
        mirrors="a mail for each result",
        convicted_by=("V21",),
        variant=Variant(build_operator=_build_one_by_one),
        where="`several-results-unordered`",
        applies=NEVER,
        scenario="several-results-unordered",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="timeout-from-arrival",
        about="a record's timeout includes its wait for a slot",
        mirrors="a timer that is registered before the record is queued",
        convicted_by=("V15",),
        variant=Variant(build_operator=building(_TimesFromArrival)),
        where="`timeouts-before-slots`",
        applies=NEVER,
        scenario="timeouts-before-slots",
        levels=SIM_AND_LIVE,
    ),
)
