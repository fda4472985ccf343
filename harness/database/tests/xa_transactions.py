"""The XA sink behind the interface of `TwoPhaseCommitSinkFunction`.

Answers to Flink's `JdbcXaSinkFunction` and its `XaFacade`, and implements the protocol
`reference_impl.functions.sink::Transactions`. Invariant: a transaction is an XA branch from its
pre-commit to its commit; the epoch row makes a second commit do nothing (C43).

Branches that no restored checkpoint contains were prepared for checkpoints that were lost. They are rolled back after
the restored transactions are settled and before this attempt's first transaction begins, since they would keep its
rows locked. So a subtask must be restored at the same parallelism, as with Flink's sink.
"""

from __future__ import annotations

from harness.database.coordinated_sink import TwoPhaseSink
from harness.database.epoch import CheckpointPart, Visible
from reference_impl.functions.sink import Transactions

_Handle = tuple[int, int]
"""The epoch, and the token of the attempt that prepares it."""


class XaTransactions(Transactions[_Handle]):
    """The transactions of one attempt, whose sink has taken over. Mutable: counts its epochs."""

    def __init__(self, sink: TwoPhaseSink) -> None:
        self._sink = sink
        self._newest: int | None = None

    def begin_transaction(self) -> _Handle:
        """Nothing is sent to the server before the pre-commit, except the roll-back of left-over branches."""
        if self._newest is None:
            for leftover in self._sink.prepared():
                self._sink.roll_back(leftover)
            self._newest = self._sink.retry_until_settled(self._sink.floor, "read which epoch is the newest")
        self._newest += 1
        return self._newest, self._sink.token

    def invoke(self, handle: _Handle, value: Visible) -> None:
        """Add a row to the open epoch; there is only one at a time."""
        del handle
        self._sink.add(value)

    def pre_commit(self, handle: _Handle) -> None:
        """XA PREPARE. Raises `Fenced`, `SinkLost`."""
        self._sink.prepare(handle[0])

    def commit(self, handle: _Handle) -> None:
        """XA COMMIT. Raises `Fenced`, `BranchLost`, `SinkLost`."""
        self._sink.show(_part(handle))

    def abort(self, handle: _Handle) -> None:
        """Drop a transaction that was not pre-committed; its rows exist only in memory."""
        del handle
        self._sink.forget_rows()

    def recover_and_commit(self, handle: _Handle) -> None:
        """Commit the branch, unless it was committed before the restore."""
        self.commit(handle)

    def recover_and_abort(self, handle: _Handle) -> None:
        """XA ROLLBACK, if an earlier attempt prepared the branch."""
        self._sink.roll_back(_part(handle))


def _part(handle: _Handle) -> CheckpointPart:
    epoch, token = handle
    return CheckpointPart(epoch=epoch, token=token, file="")
