"""The one-transaction sink as a store of transactions: rows wait in the checkpoint until that is complete.

Answers to Flink's `GenericWriteAheadSink`, and to the protocol
`reference_impl.functions.two_phase_commit_sink::Transactions`. Invariant: a transaction's handle holds its
rows, so whoever restores the handle can commit it; rows and epoch row are written in one MySQL transaction,
and by its epoch row a second commit knows that it has nothing to do (C43).

A plain transaction cannot be durable and invisible at once, so its pre-commit is the checkpoint's own
writing. What that costs against XA is a state as large as an epoch's outputs.
"""

from __future__ import annotations

from typing import TypedDict

from harness.database.epoch import Attempt, Visible
from harness.database.sink import EpochSink

__all__ = ["WriteAheadTransactions"]


class _Handle(TypedDict):
    epoch: int
    rows: list[tuple[int, int, object]]
    """(id, j, value) of each output."""


class WriteAheadTransactions:
    """Of one subtask's attempt. Mutable: counts its epochs, and fills the handle of the open one."""

    def __init__(self, sink: EpochSink, *, attempt: Attempt) -> None:
        """`attempt`: what taking over gave."""
        self._sink = sink
        self._newest = attempt.saved.epoch if attempt.saved else 0

    def begin_transaction(self) -> _Handle:
        """After all that was restored is committed, and so no number is given twice."""
        self._newest += 1
        return {"epoch": self._newest, "rows": []}

    def invoke(self, handle: _Handle, value: Visible) -> None:
        """Into the handle."""
        handle["rows"].append((value.id, value.j, value.value))

    def pre_commit(self, handle: _Handle) -> None:
        """The checkpoint that holds the handle makes it durable."""

    def commit(self, handle: _Handle) -> None:
        """Rows and epoch row in one transaction. Raises `Fenced`, `SinkLost`."""
        self._newest = max(self._newest, handle["epoch"])
        self._sink.forget_rows()
        for id_, j, value in handle["rows"]:
            self._sink.add(Visible(id=id_, j=j, value=value))
        self._sink.commit(handle["epoch"], position=0, elements=[])

    def abort(self, handle: _Handle) -> None:
        """Its rows are nowhere but in it."""

    def recover_and_commit(self, handle: _Handle) -> None:
        """As `commit`: of no effect if its epoch row is there."""
        self.commit(handle)

    def recover_and_abort(self, handle: _Handle) -> None:
        """Its rows are nowhere but in it."""
