"""The open sinks: whatever is emitted is visible at once, and a restart takes it back, or does not.

Answers to a Flink job whose output is a part of its own state (`rollback`), or an append-only log (`append`).
Invariant: it holds no rows, so all that there is to say of it is in the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.database.epoch import Attempt as TakenOver
from harness.database.epoch import Visible
from harness.sim.sinks.restored_part import take_over
from harness.sim.sinks.statements import Statements

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt

__all__ = ["AppendSink", "RollbackSink"]


class RollbackSink:
    """Has no tables but the fence, which the lookups' own writes may need; the shape of `TwoPhaseSink`."""

    kind: ClassVar[Any] = "rollback"
    shows_when_complete: ClassVar[bool] = True
    """Whether what belongs to a checkpoint becomes visible when that is complete."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.token = 0
        self._statements = Statements(attempt)

    def take_over(self) -> TakenOver:
        """Fence all earlier attempts."""
        taken, _ = take_over(self._statements, self.attempt)
        self.token = taken.number
        return taken

    def add(self, row: Visible) -> None:
        """It was visible when it was emitted."""

    def bury(self, *, id: int, error: str) -> None:
        """A dead letter: the history has it."""

    def prepare(self, epoch: int) -> tuple[()]:
        """Nothing is to be made durable."""
        del epoch
        return ()

    def completed(self, number: int) -> None:
        """Nothing waits for it."""

    def close(self) -> None:
        """Give the connection up."""
        self._statements.close()


class AppendSink(RollbackSink):
    """What it got it keeps, also after a restart."""

    kind: ClassVar[Any] = "append"
