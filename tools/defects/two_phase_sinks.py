"""Defects of Flink's two-phase sink: when it commits, what it keeps pending, and what it refuses.

Answers to bugs of `TwoPhaseCommitSinkFunction` and of sinks over it; those of the harness's own sinks are in `sinks`.
Invariant: each wrong class is the reference's sink, or what one writes through, with one method changed.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.state_handler import FunctionSnapshotContext
from reference_impl.functions.sink import Transactions, TwoPhaseCommitSinkFunction
from tools.defects.kinds import PropertyDefect


class _DropsPendingOnAbort(TwoPhaseCommitSinkFunction[int]):
    """Aborts the transaction of an aborted checkpoint, whose data belong to the next one that completes.

    Where no checkpoint is aborted, the defect is the reference.
    """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        dropped = self._pending.pop(checkpoint_id, None)
        if dropped is not None:
            self._transactions.abort(dropped.handle)


class _OnePhaseSink(TwoPhaseCommitSinkFunction[int]):
    """Writes again what it has shown, if the checkpoint is lost.

    Where nothing dies, the same rows are visible in the end, only earlier.
    """

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        super().snapshot_state(context)
        self.notify_checkpoint_complete(context.checkpoint_id)


class _KeepsNewestPending(TwoPhaseCommitSinkFunction[int]):
    """Never commits the data of a checkpoint whose notification is lost, or which is aborted.

    Where each checkpoint is notified before the next, the defect is the reference.
    """

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._pending.clear()
        super().snapshot_state(context)


class _BeginsAfterFinish(TwoPhaseCommitSinkFunction[int]):
    """Leaves a transaction open for good, with its locks; before the end of the input it is the reference."""

    def finish(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class _RefusesUnknown(TwoPhaseCommitSinkFunction[int]):
    """Ends sound jobs: a notification may be late, repeated, or meant for an earlier run.

    Where each checkpoint is notified once and at once, the defect is the reference.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        assert checkpoint_id in self.pending, f"checkpoint {checkpoint_id} completed, but is not pending"
        super().notify_checkpoint_complete(checkpoint_id)


class _ShowsEachCommit(Transactions[int]):
    """Copies a transaction's values to a new one at every commit, and commits that.

    Where nothing is restored, the defect is the reference.
    """

    def __init__(self, store: Transactions[int]) -> None:
        self._store = store
        self._values: dict[Any, list[Any]] = {}

    def begin_transaction(self) -> Any:
        handle = self._store.begin_transaction()
        self._values[handle] = []
        return handle

    def invoke(self, handle: Any, value: Any) -> None:
        self._store.invoke(handle, value)
        self._values[handle].append(value)

    def pre_commit(self, handle: Any) -> None:
        self._store.pre_commit(handle)

    def commit(self, handle: Any) -> None:
        again = self._store.begin_transaction()
        for value in self._values[handle]:
            self._store.invoke(again, value)
        self._store.pre_commit(again)
        self._store.commit(again)

    def abort(self, handle: Any) -> None:
        self._store.abort(handle)


_SINK = "TwoPhaseCommitSinkFunction"

OF_TWO_PHASE_SINKS = (
    PropertyDefect(
        name="drops-pending-on-abort",
        about="the abort of a checkpoint aborts the transaction that was pre-committed for it",
        mirrors="an abort that is taken for the end of its data",
        replaces=_SINK,
        statements=("C39",),
        wrong=_DropsPendingOnAbort,
    ),
    PropertyDefect(
        name="commits-at-pre-commit",
        about="the sink commits in the snapshot, without waiting for the checkpoint to complete",
        mirrors="a sink with one phase",
        replaces=_SINK,
        statements=("C40",),
        wrong=_OnePhaseSink,
    ),
    PropertyDefect(
        name="keeps-newest-pending",
        about="the sink keeps the newest pre-committed transaction and forgets the earlier ones",
        mirrors="room for a single pending transaction",
        replaces=_SINK,
        statements=("C38", "C40"),
        wrong=_KeepsNewestPending,
    ),
    PropertyDefect(
        name="begins-after-finish",
        about="the snapshot after the end of input begins a transaction, which is never ended",
        mirrors="FLINK-23473",
        replaces=_SINK,
        statements=("C40",),
        wrong=_BeginsAfterFinish,
    ),
    PropertyDefect(
        name="refuses-unknown-notifications",
        about="a notification for which no transaction is pending is an error",
        mirrors="FLINK-10377, FLINK-14979",
        replaces=_SINK,
        statements=("C38",),
        wrong=_RefusesUnknown,
    ),
    PropertyDefect(
        name="second-commit-shows-again",
        about="a commit that is repeated after a restore shows its rows a second time",
        mirrors="a store, or a sink's use of it, that is not idempotent",
        replaces="Transactions",
        statements=("C43",),
        wrong=_ShowsEachCommit,
    ),
)
