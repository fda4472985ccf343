"""Planted defects: the reference with one thing wrong, to show that the checkers bite.

Answers to mutation testing; the numbers M1, M2, ... are those of `docs/mutants.md`. Invariant: a defect is in the
reference, its sink, its client or the harness, never in a checker that it is to be convicted by; each names the
invariants that are meant for it. What each replaces at level sim: `harness.mutants.variants`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, Unpack

from harness.errors import UsageError
from harness.sut.inside.wall_clock import WallClock
from harness.sut.keyed_mutants import KEYED_MUTANTS
from harness.sut.mutant import HARNESS_CHECKS, Mutant
from harness.sut.registry import REFERENCE, REFERENCE_EMITTER
from reference_impl.async_wait_build import Mode, Parts, build_operator
from reference_impl.emitter.build import build_operator as build_emitter_operator
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mutants import BUILDERS
from reference_impl.mutants.wall_clock_timers import WallClockTimers
from reference_impl.task.async_link import AsyncOperator
from reference_impl.timers import Timers

__all__ = [
    "HARNESS_CHECKS",
    "MUTANTS",
    "BuildTaskOperator",
    "Mutant",
    "build_timers",
    "find_mutant",
    "operator_builder",
]


class BuildTaskOperator(Protocol):
    """Builds an operator that a task can drive, of whatever design."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncOperator:
        """An operator of that mode and capacity."""


_OF_CHECKPOINTS = (
    Mutant(
        number=1,
        name="snapshot-omits-blocked",
        about="the snapshot leaves out the element that waits for a slot in a full queue",
        mirrors="FLINK-7949",
        convicted_by=("V10", "V8"),
    ),
    Mutant(
        number=2,
        name="snapshot-omits-completed",
        about="the snapshot leaves out entries that are completed but not yet emitted",
        mirrors="state that is only what is still pending",
        convicted_by=("V10", "V8"),
        scenario="kill-between-snapshot-and-commit",
    ),
    Mutant(
        number=3,
        name="restores-reversed",
        about="a restored snapshot is replayed from its last element to its first",
        mirrors="state in a container without an order",
        convicted_by=("V1", "V2"),
        scenario="kill-between-snapshot-and-commit",
    ),
    Mutant(
        number=3,
        name="state-read-backwards",
        about="the elements of a snapshot are read back in reverse, and replayed as they were read",
        mirrors="state in a container without an order",
        convicted_by=("V11",),
    ),
    Mutant(
        number=4,
        name="offset-one-early",
        about="a checkpoint stores the source position before the one that comes next",
        mirrors="a barrier in the wrong place",
        convicted_by=("V10", "V8"),
    ),
    Mutant(
        number=4,
        name="offset-one-late",
        about="a checkpoint stores the source position behind the one that comes next",
        mirrors="a barrier in the wrong place",
        convicted_by=("V10", "V8"),
    ),
    Mutant(
        number=27,
        name="snapshot-awaits-empty-queue",
        about="a snapshot is taken only once the queue is empty",
        mirrors="checkpoints that starve behind slow calls",
        convicted_by=("V18",),
    ),
)

_OF_THE_SINK = (
    Mutant(
        number=5,
        name="output-not-rolled-back",
        about="what was emitted after the restored snapshot stays visible",
        mirrors="a sink without transactions",
        convicted_by=("V8",),
    ),
    Mutant(
        number=14,
        name="zombie-accepted",
        about="the sink takes what a superseded attempt commits, for it compares no token",
        mirrors="an attempt whose number is not checked",
        convicted_by=("V13", "V8"),
    ),
    Mutant(
        number=15,
        name="fence-checked-before",
        about="the fencing token is compared before the transaction begins, not inside it",
        mirrors="check, then act",
        convicted_by=("V13",),
    ),
    Mutant(
        number=17,
        name="commits-at-snapshot",
        about="an epoch becomes visible with its snapshot, before its checkpoint is complete",
        mirrors="early visibility",
        convicted_by=("V12",),
    ),
    Mutant(
        number=18,
        name="commits-again",
        about="a repeated notification commits the epoch a second time",
        mirrors="a notification that is not idempotent",
        convicted_by=("V12", "V9"),
    ),
    Mutant(
        number=None,
        name="commits-blindly",
        about="a transaction whose COMMIT was not answered is written again, and nobody asks for its epoch row",
        mirrors="a retry after a lost acknowledgement",
        convicted_by=("V9", "V8", "V12"),
        scenario="lost-commit-reply",
    ),
    Mutant(
        number=None,
        name="assumes-committed",
        about="a commit that ended with an error is taken for one that was made",
        mirrors="an error that is logged and forgotten",
        convicted_by=("V9", "V8", "V12"),
        scenario="lost-commit",
    ),
    Mutant(
        number=None,
        name="sink-outside-transaction",
        about="the sink writes each output at once, outside the epoch's transaction",
        mirrors="output and state that do not commit together",
        convicted_by=("V9",),
        scenario="kill-between-snapshot-and-commit",
        writes_at_once=True,
    ),
)

_OF_CALLS = (
    Mutant(
        number=6,
        name="loses-completions",
        about="of a thousand calls that go well, three are never heard of again",
        mirrors="FLINK-40456",
        convicted_by=("V16",),
    ),
    Mutant(
        number=7,
        name="settles-twice",
        about="a completion is delivered twice, and counts twice",
        mirrors="a handle without a guard",
        convicted_by=("V8", "V15"),
        scenario="latency-spike-ordered",
    ),
    Mutant(
        number=10,
        name="retries-after-timeout",
        about="a record that has timed out is asked for again",
        mirrors="FLINK-30477, FLINK-38082",
        convicted_by=("V15",),
    ),
    Mutant(
        number=11,
        name="late-results",
        about="a result that comes after the record's timeout leaves too",
        mirrors="a timeout that shuts no door",
        convicted_by=("V8", "V15"),
        scenario="loop-stall",
    ),
    Mutant(
        number=None,
        name="loss-is-no-row",
        about="a lost connection, or a statement that the server ended, is taken for an answer without rows",
        mirrors="an error that looks like nothing found",
        convicted_by=("V8",),
        scenario="connections-cut",
    ),
    Mutant(
        number=16,
        name="insert-without-key",
        about="a write that is made again after a lost answer has no key by which the first would be known",
        mirrors="a retry after a lost acknowledgement",
        convicted_by=("V9",),
    ),
    Mutant(
        number=19,
        name="cancelled-connection-reused",
        about="a connection whose request was cancelled goes back to the pool, with the answer still to come",
        mirrors="asyncmy#103",
        convicted_by=("V19",),
    ),
    Mutant(
        number=20,
        name="swallows-errors",
        about="a call's error is swallowed, and a default value leaves",
        mirrors="a bare except",
        convicted_by=("V20", "V8"),
    ),
    Mutant(
        number=21,
        name="wall-clock-timers",
        about="timers count on the wall clock, which may be set",
        mirrors="System.currentTimeMillis where a monotonic clock belongs",
        convicted_by=("V15",),
        scenario="clock-jump",
    ),
    Mutant(
        number=29,
        name="dead-letter-and-failure",
        about="a record goes to the dead letters, and fails its task as well",
        mirrors="double routing",
        convicted_by=("V20",),
    ),
)

_OF_THE_OPERATOR = (
    Mutant(
        number=8,
        name="watermarks-at-once",
        about="watermarks are forwarded at once instead of queueing behind their records",
        mirrors="flink-agents#178",
        convicted_by=("V5",),
        scenario="latency-spike-unordered",
    ),
    Mutant(
        number=9,
        name="segment-leak",
        about="a completed record leaves although a watermark before it is still waiting",
        mirrors="a queue whose head is not looked at",
        convicted_by=("V2",),
        scenario="latency-spike-unordered",
    ),
    Mutant(
        number=12,
        name="restores-beyond-capacity",
        about="a restored snapshot is called all at once, on top of the capacity",
        mirrors="a thundering herd",
        convicted_by=("V14",),
        scenario="restore-full-queue",
    ),
    Mutant(
        number=13,
        name="frees-slot-on-call",
        about="a slot is free again as soon as the call has begun",
        mirrors="a permit given back too early",
        convicted_by=("V14",),
    ),
    Mutant(
        number=22,
        name="shares-records",
        about="a record is queued as it came, although the source uses the object again",
        mirrors="FLINK-12351",
        convicted_by=("V8", "V10"),
    ),
    Mutant(
        number=23,
        name="emits-from-callback",
        about="a completion emits in the client's callback instead of as mail",
        mirrors="an operator without a mailbox",
        convicted_by=("V21",),
    ),
    Mutant(
        number=24,
        name="emits-after-close",
        about="a result that comes after the close leaves all the same",
        mirrors="FLINK-13063, FLINK-35810",
        convicted_by=("V21",),
    ),
    Mutant(
        number=25,
        name="end-at-once",
        about="the final watermark leaves before the drain has ended",
        mirrors="a race at the end of input",
        convicted_by=("V7", "V5"),
    ),
    Mutant(
        number=None,
        name="drops-equal-watermarks",
        about="a watermark equal to the one before it is dropped",
        mirrors="thrift where each one counts",
        convicted_by=("V6",),
        scenario="wild-watermarks",
    ),
    Mutant(
        number=None,
        name="unordered-emission",
        about="ordered mode emits in the order of completion",
        mirrors="a queue that emits any completed entry",
        convicted_by=("V1",),
        scenario="latency-spike-ordered",
    ),
)

_OF_THE_HARNESS = (
    Mutant(
        number=30,
        name="proxy-bypassed",
        about="the lookups go past the proxy, so network faults act on nobody (a defect of the harness)",
        mirrors="etcd#17775",
        convicted_by=("V23",),
        scenario="latency-spike-ordered",
        bypasses_proxy=True,
    ),
    Mutant(
        number=30,
        name="faults-do-nothing",
        about="no fault is ever armed (a defect of the harness)",
        mirrors="a test that passes because nothing was done",
        convicted_by=("V23",),
        scenario="latency-spike-ordered",
        arms_nothing=True,
    ),
    Mutant(
        number=30,
        name="recorder-drops",
        about="the recorder loses one event in a thousand (a defect of the harness)",
        mirrors="a history with holes in it, which looks whole",
        convicted_by=("recording",),
    ),
    Mutant(
        number=30,
        name="judge-skips-last-attempt",
        about="the judge does not look at each subtask's last attempt (a defect of the harness)",
        mirrors="a check that stops too early",
        convicted_by=("canary",),
    ),
)

_ALL = sorted(
    (*_OF_CHECKPOINTS, *_OF_THE_SINK, *_OF_CALLS, *_OF_THE_OPERATOR, *KEYED_MUTANTS, *_OF_THE_HARNESS),
    key=lambda mutant: mutant.number or 100,
)

MUTANTS = {mutant.name: mutant for mutant in _ALL}
"""By name, in the order of their numbers."""


def find_mutant(name: str) -> Mutant:
    """The mutant `name`. Raises UsageError with what there is."""
    if name not in MUTANTS:
        message = f"there is no mutant called {name!r}"
        raise UsageError(message, fix=f"one of: {', '.join(MUTANTS)}")
    return MUTANTS[name]


def operator_builder(name: str | None, *, sut: str = REFERENCE) -> BuildTaskOperator:
    """What builds the operator of the system under test, or of the reference's mutant `name`."""
    if sut == REFERENCE_EMITTER:
        return build_emitter_operator
    return BUILDERS.get(name, build_operator) if name else build_operator


def build_timers(
    name: str | None, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, clock: WallClock
) -> Timers:
    """The timers of the task; by the clock on the wall, where that is the planted defect."""
    if name == "wall-clock-timers":
        return WallClockTimers(loop, executor, wall_ns=clock.now_ns)
    return Timers(loop, executor)
