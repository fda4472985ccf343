"""Twelve planted defects that teach, one a mechanism: from what a snapshot holds to a harness that injects nothing.

`building`, `OperatorOfSettlements` and `keeping` help to write a defect of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Unpack

from msgspec import structs

from harness.database.driver import Cursor
from harness.database.pool import MayAskAgain
from harness.database.sink import EpochSink, SubtaskWriter
from harness.sut.defects.defect import (
    NEVER,
    SIM_AND_LIVE,
    Defect,
    both,
    calls_are_lost,
    calls_fail,
    calls_once,
    can_be_superseded,
    commit_replies_are_lost,
    has_watermarks,
    is_disturbed,
    is_ordered,
    is_unordered,
    retries,
    sink_is,
)
from harness.sut.rescaling import Keeping, KeptState, KeyedParts
from harness.sut.variant import Kind, Variant, made_once
from reference_impl.elements import OperatorInput, QueueElement, Record, Watermark
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, Mode, Parts, operator_around, queue_for
from reference_impl.operator.functions import begin_call
from reference_impl.operator.queues import Emit, UnorderedQueue
from reference_impl.operator.result import Ending, Settlement
from reference_impl.operator.retry import Attempts, JudgedSettlement
from reference_impl.task.input_processor import Checkpoint


def building(kind: type[AsyncWaitOperator]) -> BuildOperator:
    """A `build_operator` like the reference's, for operators of class `kind`."""

    def build(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
        return operator_around(queue_for(mode, capacity, parts.get("key_of")), kind=kind, **parts)

    return build


class _SnapshotsOmitCompleted(AsyncWaitOperator):
    """Snapshots only the records whose calls run (A12, A58): the completed ones are lost after a restore."""

    def snapshot(self) -> tuple[QueueElement, ...]:
        entries = self.queue.entries()
        return tuple(
            e.element for e in entries if not (isinstance(e.element, Record) and e.results is not None)
        )


def resuming(*, late_by: int) -> Callable[[Kind], Kind]:
    """Maps a coordination to one whose checkpoints resume so many elements too late; less than 0: too early."""

    @made_once
    def shifted(coordination: Kind) -> Kind:
        class ShiftedCoordination(coordination):  # type: ignore[misc]  # a class made of a class
            def completes(self, checkpoint: Checkpoint) -> None:
                super().completes(replace(checkpoint, position=max(0, checkpoint.position + late_by)))

        return ShiftedCoordination

    return shifted


class OperatorOfSettlements(AsyncWaitOperator):
    """The reference operator, with another class for a record's settlement.

    Answers to Flink's `AsyncWaitOperator.processElement` without retry. With the honest `Settlement` it behaves as the
    reference; with retry it runs the reference's code, so such a defect shows only without retry.
    """

    settlement: ClassVar[type[Settlement]] = Settlement

    def process(self, element: OperatorInput) -> None:
        if type(element) is not Record or self._retries:
            super().process(element)
            return
        if self._copy_value is not None:
            copied: Any = self._copy_value(element.value)
            element = structs.replace(element, value=copied)
        entry = self.settlement(owner=self, element=element)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        self.announce(element, 1)
        if self.timeout_ms:
            self.timeouts.add(entry)
        begin_call(self.function, element.value, entry)


class _SettledTwice(Settlement):
    def action(self) -> None:
        super().action()
        self.post(self._settle_again, "settle the record again")

    def _settle_again(self) -> None:
        self.tell(Ending.OK, results=self.outcome)
        for value in self.outcome or ():
            self.owner.emit(Record(value=value, timestamp=self.element.timestamp))


class _SettlesTwice(OperatorOfSettlements):
    """Emits each record's results a second time, in either mode (A36)."""

    settlement = _SettledTwice


class _ForwardsWatermarks(AsyncWaitOperator):
    """Treats watermarks as Flink treats latency markers (A51, A52): downstream then takes earlier records for late."""

    def process(self, element: OperatorInput) -> None:
        if isinstance(element, Watermark):
            self.emit(element)
        else:
            super().process(element)


class _LeakingQueue(UnorderedQueue):
    """Looks for completed records past its first segment (A20).

    A watermark still leaves behind the records before it, so a check for watermarks that are too early finds nothing.
    An ordered queue has no segments: in that mode the defect is the reference.
    """

    def emit_completed(self, emit: Emit) -> bool:
        if not self._segments[0].completed:
            self._leak()
        return super().emit_completed(emit)

    def _leak(self) -> None:
        """Let the earliest completed record of a later segment leave with the first."""
        for segment in self._segments:
            if segment.completed and type(segment.completed[0].element) is Record:
                entry = segment.completed.popleft()
                del segment.members[entry]
                if not segment.members and segment is not self._segments[-1]:
                    self._segments.remove(segment)
                self._segments[0].members[entry] = None
                self._segments[0].completed.append(entry)
                return


def _build_leaking(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    queue = _LeakingQueue(capacity) if mode == "unordered" else queue_for(mode, capacity, parts.get("key_of"))
    return operator_around(queue, **parts)


def _build_unordered(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator that is unordered in either mode (A15); watermarks keep their place."""
    del mode
    return operator_around(queue_for("unordered", capacity), **parts)


class _KeepsRetrying(Attempts):
    def _cancel_backoff(self) -> None:
        """Leave the timer running."""

    def _retry(self) -> None:
        """Call again, even if the record has its outcome."""
        if not self.settlement.owner.closed:
            self.awaiting = False
            self.shared.last_calls.pop(self, None)
            self._call_again()


class _RetriesAfterTimeout(AsyncWaitOperator):
    """Has backoff timers that outlive the record's timeout (A80)."""

    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(owner=self, element=record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        _KeepsRetrying(self, entry, self.timers.now_ms()).begin()


@made_once
def unfenced(sink: Kind) -> Kind:
    """`sink`, which compares no token, neither in a transaction nor before it ends its successor's session."""
    assert issubclass(sink, SubtaskWriter)

    class UnfencedSink(sink):  # type: ignore[misc]  # a class made of a class
        def check_fence(self, cursor: Cursor) -> None:
            """Does nothing: the defect."""

        def _check_newest(self, cursor: Cursor) -> None:
            """Does nothing: the defect."""

    return UnfencedSink


@made_once
def committing_blindly(sink: Kind) -> Kind:
    """`sink`, which writes an epoch again whose COMMIT was not answered, without looking for its row."""
    if not issubclass(sink, EpochSink):
        return sink

    class BlindSink(sink):  # type: ignore[misc]
        def has_epoch(self, cursor: Cursor, epoch: int) -> bool:
            del cursor, epoch
            return False

        def write_epoch(self, cursor: Cursor, epoch: int, position: int, elements: str) -> None:
            """Replaces the row that may be there."""
            cursor.execute("DELETE FROM epoch WHERE subtask = %s AND epoch = %s", (self.subtask, epoch))
            super().write_epoch(cursor, epoch, position, elements)

    return BlindSink


@made_once
def losing_rows(pool: Kind) -> Kind:
    """`pool`, which answers with no rows when a connection is lost, or the server ends the statement."""

    class CarelessPool(pool):  # type: ignore[misc]
        async def fetch_all(self, sql: str, args: Sequence[object] = ()) -> list[tuple[object, ...]]:
            try:
                rows: list[tuple[object, ...]] = await super().fetch_all(sql, args)
            except MayAskAgain:
                return []
            return rows

    return CarelessPool


class _OmitsKeyedState(Keeping):
    """Saves timers and no values."""

    def text(self, finish: Callable[[], KeptState]) -> str:
        return super().text(lambda: structs.replace(finish(), keyed=None))


def keeping(kind: type[Keeping]) -> Variant:
    """A variant that saves and restores the state of a keyed task with `kind`."""
    return Variant(keyed=KeyedParts(keeping=kind))


SNAPSHOT_OMITS_COMPLETED = Defect(
    number=2,
    name="snapshot-omits-completed",
    about="the snapshot leaves out entries that are completed but not yet emitted",
    mirrors="state that is only what is still pending",
    convicted_by=("V10", "V8"),
    variant=Variant(build_operator=building(_SnapshotsOmitCompleted)),
    scenario="kill-between-snapshot-and-commit",
)

OFFSET_ONE_LATE = Defect(
    number=4,
    name="offset-one-late",
    about="a checkpoint stores the source position behind the one that comes next",
    mirrors="a barrier in the wrong place",
    convicted_by=("V10", "V8"),
    variant=Variant(coordination=resuming(late_by=1)),
    scenario="at-accept",
)

SETTLES_TWICE = Defect(
    number=7,
    name="settles-twice",
    about="a completion is delivered twice, and counts twice",
    mirrors="a handle without a guard",
    convicted_by=("V8", "V15"),
    variant=Variant(build_operator=building(_SettlesTwice)),
    where="calls are made once",
    applies=calls_once,
    scenario="latency-spike-ordered",
)

WATERMARKS_AT_ONCE = Defect(
    number=8,
    name="watermarks-at-once",
    about="watermarks are forwarded at once instead of queueing behind their records",
    mirrors="flink-agents#178",
    convicted_by=("V5",),
    variant=Variant(build_operator=building(_ForwardsWatermarks)),
    where="there are watermarks",
    applies=has_watermarks,
    scenario="latency-spike-unordered",
)

SEGMENT_LEAK = Defect(
    number=9,
    name="segment-leak",
    about="a completed record leaves although a watermark before it is still waiting",
    mirrors="a queue whose head is not looked at",
    convicted_by=("V2",),
    variant=Variant(build_operator=_build_leaking),
    where="unordered, with watermarks",
    applies=both(is_unordered, has_watermarks),
    scenario="latency-spike-unordered",
)

RETRIES_AFTER_TIMEOUT = Defect(
    number=10,
    name="retries-after-timeout",
    about="a record that has timed out is asked for again",
    mirrors="FLINK-30477, FLINK-38082",
    convicted_by=("V15",),
    variant=Variant(build_operator=building(_RetriesAfterTimeout)),
    where="calls are made again; one ends with an error",
    applies=both(retries, calls_fail),
    scenario="timeout-and-retry",
)

ZOMBIE_ACCEPTED = Defect(
    number=14,
    name="zombie-accepted",
    about="the sink takes what a superseded attempt commits, for it compares no token",
    mirrors="an attempt whose number is not checked",
    convicted_by=("V13", "V8"),
    variant=Variant(sink=unfenced),
    where="a superseded attempt goes on",
    applies=can_be_superseded,
    scenario="zombie",
    levels=SIM_AND_LIVE,
)

FAULTS_DO_NOTHING = Defect(
    number=30,
    name="faults-do-nothing",
    about="no fault is ever armed (a defect of the harness)",
    mirrors="a test that passes because nothing was done",
    convicted_by=("V23",),
    variant=Variant(arms_faults=False),
    where="something disturbs the run",
    applies=is_disturbed,
    scenario="latency-spike-ordered",
)

COMMITS_BLINDLY = Defect(
    name="commits-blindly",
    about="a transaction whose COMMIT was not answered is written again, and nobody asks for its epoch row",
    mirrors="a retry after a lost acknowledgement",
    convicted_by=("V9", "V8", "V12"),
    variant=Variant(sink=committing_blindly),
    where="an atomic sink; the answer to a commit is lost",
    applies=both(sink_is("atomic"), commit_replies_are_lost),
    scenario="lost-commit-reply",
)

LOSS_IS_NO_ROW = Defect(
    name="loss-is-no-row",
    about="a lost connection, or a statement that the server ended, is taken for an answer without rows",
    mirrors="an error that looks like nothing found",
    convicted_by=("V8",),
    variant=Variant(pool=losing_rows),
    where="queries end with an error, or are lost; what they should give is told",
    applies=calls_are_lost,
    scenario="connections-cut",
)

UNORDERED_EMISSION = Defect(
    name="unordered-emission",
    about="ordered mode emits in the order of completion",
    mirrors="a queue that emits any completed entry",
    convicted_by=("V1",),
    variant=Variant(build_operator=_build_unordered),
    where="ordered",
    applies=is_ordered,
    scenario="latency-spike-ordered",
)

SNAPSHOT_OMITS_KEYED_STATE = Defect(
    name="snapshot-omits-keyed-state",
    about="a snapshot holds timers and elements, but no keyed state",
    mirrors="an operator whose backend nobody asks",
    convicted_by=("V8",),
    variant=keeping(_OmitsKeyedState),
    where="`sessions-at-snapshot`",
    applies=NEVER,
    scenario="sessions-at-snapshot",
)

TWELVE = (
    SNAPSHOT_OMITS_COMPLETED,
    OFFSET_ONE_LATE,
    SETTLES_TWICE,
    WATERMARKS_AT_ONCE,
    SEGMENT_LEAK,
    RETRIES_AFTER_TIMEOUT,
    ZOMBIE_ACCEPTED,
    FAULTS_DO_NOTHING,
    COMMITS_BLINDLY,
    LOSS_IS_NO_ROW,
    UNORDERED_EMISSION,
    SNAPSHOT_OMITS_KEYED_STATE,
)
