"""The two-phase sink as a store of transactions: the other half of `TwoPhaseCommitSinkFunction`, over XA.

Answers to Flink's `JdbcXaSinkFunction` and its `XaFacade`, and to the protocol
`reference_impl.functions.two_phase_commit_sink::Transactions`. Invariant: a transaction is an
XA branch from its pre-commit to its commit; by its epoch row a second commit knows that it comes too late to
do anything (C43).

Branches that no restored checkpoint knows were prepared for checkpoints that were lost. They are rolled back once all
that the restored one holds is settled, before the first transaction of this attempt begins: they would keep its rows
locked. So a subtask is restored at the parallelism that it had, as with Flink's sink.
"""

from __future__ import annotations

from harness.database.epoch import Part, Visible
from harness.database.two_phase_sink import TwoPhaseSink

__all__ = ["XaTransactions"]

_Handle = tuple[int, int]
"""The epoch, and the attempt that prepares it."""


class XaTransactions:
    """Of one subtask's attempt, whose sink has taken over. Mutable: counts its epochs."""

    def __init__(self, sink: TwoPhaseSink) -> None:
        self._sink = sink
        self._newest: int | None = None

    def begin_transaction(self) -> _Handle:
        """Nothing is open in the server yet; that begins with the pre-commit."""
        if self._newest is None:
            for leftover in self._sink.prepared():
                self._sink.roll_back(leftover)
            self._newest = self._sink.insist(self._sink.floor, "read which epoch is the newest")
        self._newest += 1
        return self._newest, self._sink.token

    def invoke(self, handle: _Handle, value: Visible) -> None:
        """Into the open epoch; there is never more than one."""
        del handle
        self._sink.add(value)

    def pre_commit(self, handle: _Handle) -> None:
        """XA PREPARE. Raises `Fenced`, `SinkLost`."""
        self._sink.prepare(handle[0])

    def commit(self, handle: _Handle) -> None:
        """XA COMMIT. Raises `Fenced`, `BranchLost`, `SinkLost`."""
        self._sink.show(_part(handle))

    def abort(self, handle: _Handle) -> None:
        """Of one that was not pre-committed: its rows were only ever ours."""
        del handle
        self._sink.forget_rows()

    def recover_and_commit(self, handle: _Handle) -> None:
        """The branch is in the server, or was committed before the restore."""
        self.commit(handle)

    def recover_and_abort(self, handle: _Handle) -> None:
        """XA ROLLBACK, if an earlier attempt came so far as to prepare it."""
        self._sink.roll_back(_part(handle))


def _part(handle: _Handle) -> Part:
    epoch, token = handle
    return Part(epoch=epoch, token=token, file="")
