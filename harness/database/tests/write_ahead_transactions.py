"""The one-transaction sink behind a two-phase interface: rows wait in the checkpoint until it is complete.

Answers to Flink's `GenericWriteAheadSink`, and implements the protocol
`reference_impl.functions.sink::Transactions`. Invariant: a transaction's handle contains its rows, so
any attempt that restores the handle can commit it; rows and epoch row are written in one MySQL transaction, and the
epoch row makes a second commit do nothing (C43).

A plain transaction cannot be durable and invisible at once, so writing the checkpoint is its pre-commit. The price
against XA: the state contains all outputs of an epoch.
"""

from __future__ import annotations

from typing import TypedDict

from harness.database.epoch import Takeover, Visible
from harness.database.sink import EpochSink
from reference_impl.functions.sink import Transactions


class _Handle(TypedDict):
    epoch: int
    rows: list[tuple[int, int, object]]
    """(id, j, value) of each output."""


class WriteAheadTransactions(Transactions[_Handle]):
    """The transactions of one attempt. Mutable: counts its epochs."""

    def __init__(self, sink: EpochSink, *, attempt: Takeover) -> None:
        """`attempt`: the result of `take_over`."""
        self._sink = sink
        self._newest = attempt.saved.epoch if attempt.saved else 0

    def begin_transaction(self) -> _Handle:
        """Called after every restored transaction is committed, so no epoch number is used twice."""
        self._newest += 1
        return {"epoch": self._newest, "rows": []}

    def invoke(self, handle: _Handle, value: Visible) -> None:
        handle["rows"].append((value.id, value.j, value.value))

    def pre_commit(self, handle: _Handle) -> None:
        """Does nothing: the checkpoint makes the handle durable."""

    def commit(self, handle: _Handle) -> None:
        """Write rows and epoch row in one transaction. Raises `Fenced`, `SinkLost`."""
        self._newest = max(self._newest, handle["epoch"])
        self._sink.forget_rows()
        for id_, j, value in handle["rows"]:
            self._sink.add(Visible(id=id_, j=j, value=value))
        self._sink.commit(handle["epoch"], position=0, elements=[])

    def abort(self, handle: _Handle) -> None:
        """Does nothing: the rows exist only in the handle."""

    def recover_and_commit(self, handle: _Handle) -> None:
        """Like `commit`, which does nothing if the epoch row exists."""
        self.commit(handle)

    def recover_and_abort(self, handle: _Handle) -> None:
        """Does nothing: the rows exist only in the handle."""
