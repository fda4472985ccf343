"""The two-phase sink: an epoch is prepared with its snapshot and committed when the checkpoint is complete.

Answers to Flink's `TwoPhaseCommitSinkFunction`. Invariant: a transaction is committed if and only if a completed
checkpoint holds it, once, by whoever hears of that first: the attempt that prepared it, or one that restores the
checkpoint; and only the attempt with the newest token commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from harness.database.epoch import Attempt as TakenOver
from harness.database.epoch import Fenced, Visible
from harness.sim.sinks.ledger import Transaction
from harness.sim.sinks.restored_part import take_over
from harness.sim.sinks.statements import Statements
from harness.sim.wire import branch

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from harness.sim.coordinated_run import CoordinatedRun

__all__ = ["TwoPhaseSink"]


class TwoPhaseSink:
    """One attempt's sink of one subtask. Mutable."""

    kind: ClassVar[Any] = "two-phase"
    shows_when_complete: ClassVar[bool] = True

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.token = 0
        self._ledger = cast("CoordinatedRun", attempt.run).ledgers[attempt.subtask]
        self._statements = Statements(attempt)
        self._rows: list[Visible] = []
        self._pending: list[Transaction] = []
        """Prepared and not yet known to be committed, in order."""

    def take_over(self) -> TakenOver:
        """Fence all earlier attempts, then commit what the checkpoint to restore holds, and roll back the rest."""
        taken, part = take_over(self._statements, self.attempt, floor=self._ledger.newest_visible)
        self.token = taken.number
        self._pending = list(part.state) if part else []
        self._statements.run(self._roll_back)
        for transaction in tuple(self._pending):
            self._commit(transaction)
        return taken

    def _roll_back(self) -> None:
        self._check_fence()
        self._ledger.forget_but(self._pending)

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch."""
        self._rows.append(row)

    def bury(self, *, id: int, error: str) -> None:
        """A dead letter: the history has it."""

    def prepare(self, epoch: int) -> tuple[Transaction, ...]:
        """Make the open epoch durable; what a restore of this checkpoint has to commit."""
        transaction, rows = Transaction(epoch=epoch, attempt=self.token), tuple(self._rows)
        self._statements.run(self._writing(transaction, rows), says=branch(len(rows)))
        self._rows.clear()
        self._pending.append(transaction)
        return tuple(self._pending)

    def _writing(self, transaction: Transaction, rows: Sequence[Visible]) -> Callable[[], None]:
        def write() -> None:
            self._check_fence()
            self._ledger.prepare(transaction, rows)

        return write

    def completed(self, number: int) -> None:
        """Checkpoint `number` is complete: commit what it holds, in order. Told again, there is nothing left."""
        for transaction in [one for one in self._pending if one.epoch <= number]:
            self.attempt.crashes.reach("commit.pre")
            self._commit(transaction)

    def _commit(self, transaction: Transaction) -> None:
        def commit() -> None:
            self._check_fence()
            if not self._is_committed(transaction):
                self._ledger.show(transaction)

        self._statements.run(commit)
        self._settle(transaction)

    def _check_fence(self) -> None:
        """In the statement's own transaction: nobody takes over in between."""
        holder = self._ledger.fence.token
        if holder != self.token:
            raise Fenced(
                f"attempt {self.token} of subtask {self.attempt.subtask} is fenced: attempt {holder} took over"
            )

    def _is_committed(self, transaction: Transaction) -> bool:
        """An earlier commit, whose answer was lost or whose attempt died, may have taken effect."""
        return self._ledger.is_visible(transaction)

    def _settle(self, transaction: Transaction) -> None:
        """It needs no commit any more."""
        self._pending.remove(transaction)

    def close(self) -> None:
        """Give the connection up; a statement on its way takes effect now or never."""
        self._statements.close()
