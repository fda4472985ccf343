"""Defects of fences and acknowledgements: transactions and checkpoints that an earlier attempt can still decide.

Answers to a check that one statement makes and another relies on. Invariant: each defect is a subclass of the sink or
the coordinator of the run, and every check before the one that its name says is still made.
"""

from __future__ import annotations

from typing import Any

from harness.database.sink import EpochSink
from harness.database.subtask_writer import SubtaskWriter
from harness.defects.defect import SIM_AND_LIVE, Defect
from harness.defects.where import NEVER
from harness.sut.variant import Kind, Variant, made_once

__all__ = ["OF_ACKNOWLEDGEMENTS", "checking_once", "counting_any_attempt", "locking_all_fences"]


@made_once
def checking_once(sink: Kind) -> Kind:
    """`sink`, which checks the token once for each epoch: a transaction that it makes again is not checked again."""
    if not issubclass(sink, EpochSink):
        return sink

    class TrustingSink(sink):  # type: ignore[misc]  # a class made of a class
        _is_checked = False

        def check_fence(self, cursor: Any) -> None:
            if not self._is_checked:
                super().check_fence(cursor)
                self._is_checked = True

        def _check_newest(self, cursor: Any) -> None:
            if not self._is_checked:
                super()._check_newest(cursor)

        def forget_rows(self) -> None:
            super().forget_rows()
            self._is_checked = False

    return TrustingSink


@made_once
def locking_all_fences(sink: Kind) -> Kind:
    """`sink`, whose transactions lock the fences of all subtasks, not only their own."""
    assert issubclass(sink, SubtaskWriter)

    class GreedySink(sink):  # type: ignore[misc]
        def check_fence(self, cursor: Any) -> None:
            cursor.execute("SELECT subtask FROM fence FOR UPDATE")
            cursor.fetchall()
            super().check_fence(cursor)

    return GreedySink


@made_once
def counting_any_attempt(coordinator: Kind) -> Kind:
    """`coordinator`, which takes an acknowledgement of any attempt of a subtask for one of its newest."""

    class CredulousCoordinator(coordinator):  # type: ignore[misc]
        def _parts(self, cursor: Any) -> dict[int, dict[int, int]]:
            parts = super()._parts(cursor)
            cursor.execute("SELECT subtask, token, ended FROM fence ORDER BY subtask")
            newest = {subtask: token for subtask, token, _ in cursor.fetchall()}
            return {epoch: {subtask: newest[subtask] for subtask in of} for epoch, of in parts.items()}

    return CredulousCoordinator


OF_ACKNOWLEDGEMENTS = (
    Defect(
        name="fence-checked-once",
        about="a transaction that is made again after a lost session is not compared with the fencing token again",
        mirrors="a retry behind the check",
        convicted_by=("V13",),
        variant=Variant(sink=checking_once),
        where="`zombie-between-fence-and-commit`",
        applies=NEVER,
        scenario="zombie-between-fence-and-commit",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="locks-all-fences",
        about="each commit locks the fences of all subtasks, so one that stands still inside it stops the others",
        mirrors="a table lock where a row lock is meant",
        convicted_by=("V24",),
        variant=Variant(sink=locking_all_fences),
        where="`commits-overlap`",
        applies=NEVER,
        scenario="commits-overlap",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="counts-any-attempt",
        about="an acknowledgement of a superseded attempt counts for its successor, which has not acknowledged",
        mirrors="FLINK-5821, an acknowledgement that is not compared with the attempt",
        convicted_by=("V10", "V11"),
        variant=Variant(coordinator=counting_any_attempt),
        where="`old-acknowledgement`",
        applies=NEVER,
        scenario="old-acknowledgement",
        levels=SIM_AND_LIVE,
    ),
)
