"""Taking over in a coordinated job: the token comes from the database, what to restore from the coordinator.

Answers to `StateAssignmentOperation` of Flink's job master. Invariant: what is restored is the subtask's part of the
latest completed checkpoint that can be read, and the attempt is fenced off from all before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from harness.database.epoch import Attempt as TakenOver
from harness.database.epoch import SavedEpoch
from harness.sim.coordinator import Part
from harness.sim.sinks.statements import Statements

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from harness.sim.coordinated_run import CoordinatedRun

__all__ = ["take_over"]


def take_over(
    statements: Statements, attempt: Attempt, *, floor: Callable[[], int] = lambda: 0
) -> tuple[TakenOver, Part | None]:
    """The attempt's number and where to resume; and the part itself. `floor`: the newest epoch that is visible.

    Raises `StoreLost` if nothing can be restored that would not show it again.
    """
    taken = statements.take_over()
    run = cast("CoordinatedRun", attempt.run)
    part = run.store.newest(run.coordinator.restorable(attempt.subtask), floor=floor())
    saved = None if part is None else _saved(part)
    return TakenOver(number=taken.number, origin_ms=taken.origin_ms, saved=saved), part


def _saved(part: Part) -> SavedEpoch:
    checkpoint = part.checkpoint
    return SavedEpoch(epoch=checkpoint.number, position=checkpoint.position, elements=part.elements)
