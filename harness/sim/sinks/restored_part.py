"""Taking over in a coordinated job: the token comes from the database, what to restore from the coordinator.

Answers to `StateAssignmentOperation` of Flink's job master. Invariant: what is restored is the subtask's part of the
latest completed checkpoint, and the attempt is fenced off from all before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from harness.database.epoch import Attempt as TakenOver
from harness.database.epoch import SavedEpoch
from harness.sim.coordinator import Part
from harness.sim.sinks.statements import Statements

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from harness.sim.situated_run import SituatedRun

__all__ = ["take_over"]


def take_over(statements: Statements, attempt: Attempt) -> tuple[TakenOver, Part | None]:
    """The attempt's number and where to resume; and the part itself."""
    taken = statements.take_over()
    run = cast("SituatedRun", attempt.run)
    part = run.coordinator.restorable(attempt.subtask)
    saved = None if part is None else _saved(part)
    return TakenOver(number=taken.number, origin_ms=taken.origin_ms, saved=saved), part


def _saved(part: Part) -> SavedEpoch:
    checkpoint = part.checkpoint
    return SavedEpoch(epoch=checkpoint.number, position=checkpoint.position, elements=part.elements)
