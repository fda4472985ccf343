"""Defects between subtasks and attempts: whose rows a commit locks, and whose acknowledgement counts.

Answers to table locks, and to acknowledgements that are not compared with an attempt. Invariant: each defect is a
subclass of the sink or the coordinator of the run, with the one thing wrong that its name says.
"""

from __future__ import annotations

from typing import Any

from harness.database.sink import SubtaskWriter
from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect
from harness.sut.variant import Kind, Variant, made_once


@made_once
def locking_all_fences(sink: Kind) -> Kind:
    """`sink`, whose transactions lock the fences of all subtasks, not only their own."""
    assert issubclass(sink, SubtaskWriter)

    class GreedySink(sink):  # type: ignore[misc]  # a class made of a class
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
        convicted_by=("V10",),
        variant=Variant(coordinator=counting_any_attempt),
        where="`old-acknowledgement`",
        applies=NEVER,
        scenario="old-acknowledgement",
        levels=SIM_AND_LIVE,
    ),
)
