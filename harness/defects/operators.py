"""Defects of the operator: its queue, its slots, its watermarks, its close.

Answers to what went wrong in `AsyncWaitOperator` and its queues; how each is built stands in `reference_impl.mutants`.
Invariant: each replaces the operator, and at most what it calls or closes with, so it is the same at every level.
"""

from __future__ import annotations

from harness.defects.defect import EVERY_LEVEL, Defect
from harness.defects.pools import cancelling_nothing
from harness.defects.where import (
    both,
    calls_once,
    has_final_watermark,
    has_watermarks,
    is_ordered,
    is_restored,
    is_unordered,
    reuses_objects,
    watermarks_repeat,
)
from harness.sut.variant import Variant
from reference_impl.mutants import BUILDERS

__all__ = ["OF_OPERATORS"]

_LINGER_MS = 100
"""By then what was asked before the close has been answered."""

OF_OPERATORS = (
    Defect(
        number=8,
        name="watermarks-at-once",
        about="watermarks are forwarded at once instead of queueing behind their records",
        mirrors="flink-agents#178",
        convicted_by=("V5",),
        variant=Variant(build_operator=BUILDERS["watermarks-at-once"]),
        where="there are watermarks",
        applies=has_watermarks,
        scenario="latency-spike-unordered",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=9,
        name="segment-leak",
        about="a completed record leaves although a watermark before it is still waiting",
        mirrors="a queue whose head is not looked at",
        convicted_by=("V2",),
        variant=Variant(build_operator=BUILDERS["segment-leak"]),
        where="unordered, with watermarks",
        applies=both(is_unordered, has_watermarks),
        scenario="latency-spike-unordered",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=12,
        name="restores-beyond-capacity",
        about="a restored snapshot is called all at once, on top of the capacity",
        mirrors="a thundering herd",
        convicted_by=("V14",),
        variant=Variant(build_operator=BUILDERS["restores-beyond-capacity"]),
        where="an attempt is killed, or superseded",
        applies=is_restored,
        scenario="restore-full-queue",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=13,
        name="frees-slot-on-call",
        about="a slot is free again as soon as the call has begun",
        mirrors="a permit given back too early",
        convicted_by=("V14",),
        variant=Variant(build_operator=BUILDERS["frees-slot-on-call"]),
        scenario="head-of-line-ordered",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=22,
        name="shares-records",
        about="a record is queued as it came, although the source uses the object again",
        mirrors="FLINK-12351",
        convicted_by=("V8", "V10"),
        variant=Variant(build_operator=BUILDERS["shares-records"]),
        where="the source reads each record into one object",
        applies=reuses_objects,
    ),
    Defect(
        number=23,
        name="emits-from-callback",
        about="a completion emits in the client's callback instead of as mail",
        mirrors="an operator without a mailbox",
        convicted_by=("V21",),
        variant=Variant(build_operator=BUILDERS["emits-from-callback"]),
        where="calls are made once",
        applies=calls_once,
    ),
    Defect(
        number=24,
        name="emits-after-close",
        about="a result that comes after the close leaves all the same",
        mirrors="FLINK-13063, FLINK-35810",
        convicted_by=("V21",),
        variant=Variant(
            build_operator=BUILDERS["emits-after-close"],
            pool=cancelling_nothing,
            linger_ms=_LINGER_MS,
        ),
        where="calls are made once",
        applies=calls_once,
    ),
    Defect(
        number=25,
        name="end-at-once",
        about="the final watermark leaves before the drain has ended",
        mirrors="a race at the end of input",
        convicted_by=("V7", "V5"),
        variant=Variant(build_operator=BUILDERS["end-at-once"]),
        where="there is a final watermark",
        applies=has_final_watermark,
    ),
    Defect(
        number=None,
        name="drops-equal-watermarks",
        about="a watermark equal to the one before it is dropped",
        mirrors="thrift where each one counts",
        convicted_by=("V6",),
        variant=Variant(build_operator=BUILDERS["drops-equal-watermarks"]),
        where="watermarks repeat",
        applies=watermarks_repeat,
        scenario="wild-watermarks",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="unordered-emission",
        about="ordered mode emits in the order of completion",
        mirrors="a queue that emits any completed entry",
        convicted_by=("V1",),
        variant=Variant(build_operator=BUILDERS["unordered-emission"]),
        where="ordered",
        applies=is_ordered,
        scenario="latency-spike-ordered",
        levels=EVERY_LEVEL,
    ),
)
