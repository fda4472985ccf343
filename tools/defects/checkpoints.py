"""Defects of checkpoints: what a snapshot holds, from where the source resumes, in which order state is replayed.

Answers to FLINK-7949, and to a barrier in the wrong place. Invariant: apart from that, task, operator and sink are the
reference's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness.database.epoch import Takeover
from harness.sut.defects.defect import NEVER, SIM_ONLY, Defect
from harness.sut.defects.twelve import OFFSET_ONE_LATE, SNAPSHOT_OMITS_COMPLETED, building, resuming
from harness.sut.variant import Kind, Variant, made_once
from reference_impl.elements import QueueElement
from reference_impl.operator.async_wait import AsyncWaitOperator
from tools.defects.where import claims_checkpoint_gap, has_hard_back_pressure, is_restored


@made_once
def omitting_blocked(task: Kind) -> Kind:
    """`task`, whose snapshots hold what is in the queue, but not what waits for a slot."""

    class ForgetfulTask(task):  # type: ignore[misc]  # a class made of a class
        def _blocked(self, entering: tuple[Any, ...]) -> tuple[Any, ...]:
            del entering
            return ()

    return ForgetfulTask


@made_once
def timing_first_attempts(task: Kind) -> Kind:
    """`task`, which begins no checkpoint by time once it has been restored."""

    class RestoredTask(task):  # type: ignore[misc]
        _is_restored = False

        def run(self, checkpoint: Any = None) -> None:
            self._is_restored = checkpoint is not None
            super().run(checkpoint)

        def _await_checkpoint(self) -> None:
            if not self._is_restored:
                super()._await_checkpoint()

    return RestoredTask


class _ReplaysBackwards(AsyncWaitOperator):
    """Reads its state from the wrong end (A12, A61).

    What stood behind a watermark then comes before it, and in ordered mode results leave in the wrong order.
    """

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        super().open(reversed(tuple(restored)))


class _SnapshotsEmptyQueues(AsyncWaitOperator):
    """Waits for the running calls before a snapshot (A57): with a slow database no checkpoint completes."""

    def snapshot(self) -> tuple[QueueElement, ...]:
        while len(self.queue):
            self._executor.yield_()
        return super().snapshot()


@made_once
def reading_backwards(sink: Kind) -> Kind:
    """`sink`, which reads the elements of a snapshot back in reverse."""

    class BackwardSink(sink):  # type: ignore[misc]
        def take_over(self, **how: Any) -> Takeover:
            taken: Takeover = super().take_over(**how)
            if taken.saved is None:
                return taken
            saved = replace(taken.saved, elements=taken.saved.elements[::-1])
            return replace(taken, saved=saved)

    return BackwardSink


_RESTORED = "an attempt is killed, or superseded"

OF_CHECKPOINTS = (
    Defect(
        number=1,
        name="snapshot-omits-blocked",
        about="the snapshot leaves out the element that waits for a slot in a full queue",
        mirrors="FLINK-7949",
        convicted_by=("V10", "V8"),
        variant=Variant(task=omitting_blocked),
        where="hard back pressure, checkpoints by mail",
        applies=has_hard_back_pressure,
        levels=SIM_ONLY,
    ),
    SNAPSHOT_OMITS_COMPLETED,
    Defect(
        number=3,
        name="restores-reversed",
        about="a restored snapshot is replayed from its last element to its first",
        mirrors="state in a container without an order",
        convicted_by=("V1", "V2"),
        variant=Variant(build_operator=building(_ReplaysBackwards)),
        where=_RESTORED,
        applies=is_restored,
        scenario="kill-between-snapshot-and-commit",
    ),
    Defect(
        number=3,
        name="state-read-backwards",
        about="the elements of a snapshot are read back in reverse, and replayed as they were read",
        mirrors="state in a container without an order",
        convicted_by=("V11",),
        variant=Variant(sink=reading_backwards),
        where=_RESTORED,
        applies=is_restored,
        scenario="newest-missing",
    ),
    Defect(
        number=4,
        name="offset-one-early",
        about="a checkpoint stores the source position before the one that comes next",
        mirrors="a barrier in the wrong place",
        convicted_by=("V10", "V8"),
        variant=Variant(coordination=resuming(late_by=-1)),
        scenario="kill-after-commit",
    ),
    OFFSET_ONE_LATE,
    Defect(
        number=27,
        name="snapshot-awaits-empty-queue",
        about="a snapshot is taken only once the queue is empty",
        mirrors="checkpoints that starve behind slow calls",
        convicted_by=("V18",),
        variant=Variant(build_operator=building(_SnapshotsEmptyQueues)),
        where="a bound on the time between checkpoints is claimed",
        applies=claims_checkpoint_gap,
        levels=SIM_ONLY,
    ),
    Defect(
        name="no-timed-checkpoints-after-restart",
        about="an attempt that was restored begins no checkpoint by time",
        mirrors="a timer that is armed where a job is new",
        convicted_by=("V18",),
        variant=Variant(task=timing_first_attempts),
        where="`by-time-after-restart`",
        applies=NEVER,
        scenario="by-time-after-restart",
        levels=SIM_ONLY,
    ),
)
