"""Defects of clients of two servers: whom they ask, and what they do after a failover.

Answers to a driver that resolved the primary's name once, to reads that a load balancer sends to a replica, and to an
outbox that is sent again as a whole. Invariant: with one server each of them is the right part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from harness.database.epoch import SavedEpoch, Takeover, Visible
from harness.database.sink import CommitsGone, FailoverSink
from harness.database.transactions import STATEMENT_S
from harness.sut.defects.defect import NEVER, Defect
from harness.sut.variant import Kind, Variant, made_once
from harness.system.levels import Level

_REAL: tuple[Level, ...] = ("live", "spark")


@made_once
def restoring_from_replica(sink: Kind) -> Kind:
    """`sink`, which reads the epoch to go on from on the replica."""
    if not issubclass(sink, FailoverSink):
        return sink

    class LaggingRestore(sink):  # type: ignore[misc]  # a class made of a class
        def take_over(self, *, now_ms: int) -> Takeover:
            taken: Takeover = super().take_over(now_ms=now_ms)
            if self.replica is None:
                return taken
            with (
                closing(self.replica.connect(statement_s=STATEMENT_S)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(
                    "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1",
                    (self.subtask,),
                )
                row = cursor.fetchone()
            saved = row and SavedEpoch(epoch=row[0], position=row[1], elements=json.loads(row[2]))
            self._last = saved.epoch if saved else None
            return Takeover(number=taken.number, origin_ms=taken.origin_ms, saved=saved or None)

    return LaggingRestore


@made_once
def sending_all_again(sink: Kind) -> Kind:
    """`sink`, which writes all that this attempt has committed again when it finds that the last of it is gone."""
    if not issubclass(sink, FailoverSink):
        return sink

    class ResendingSink(sink):  # type: ignore[misc]
        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._sent: list[tuple[int, list[Visible], int, Sequence[dict[str, Any]]]] = []
            """Epoch, rows, position and elements of each commit of this attempt."""

        def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
            rows = list(self._rows)
            super().commit(epoch, position=position, elements=elements)
            self._sent.append((epoch, rows, position, elements))

        def check_fence(self, cursor: Any) -> None:
            try:
                super().check_fence(cursor)
            except CommitsGone:
                self._send_again(cursor)

        def _send_again(self, cursor: Any) -> None:
            """Writes in the transaction that goes on with the open epoch."""
            open_rows = list(self._rows)
            for epoch, rows, position, elements in self._sent:
                self._rows[:] = rows
                self.write_rows(cursor, epoch)
                if not self.has_epoch(cursor, epoch):
                    self.write_epoch(cursor, epoch, position, json.dumps(list(elements)))
            self._rows[:] = open_rows

    return ResendingSink


OF_FAILOVERS = (
    Defect(
        name="restores-from-replica",
        about="a new attempt reads the epoch to go on from on the replica, which is behind",
        mirrors="a read/write splitter that sends the read of an offset to a replica",
        convicted_by=("V12", "V8", "V9"),
        variant=Variant(sink=restoring_from_replica),
        where="`replica-lags`",
        applies=NEVER,
        scenario="replica-lags",
        levels=_REAL,
    ),
    Defect(
        name="sink-stays-on-old-primary",
        about="the sink connects to the server that was the primary at first, wherever the links lead",
        mirrors="a client that resolved the name of the primary once, at its start",
        convicted_by=("V8", "V9", "V12"),
        variant=Variant(sink_past_proxy=True),
        where="`failover`",
        applies=NEVER,
        scenario="failover",
        levels=_REAL,
    ),
    Defect(
        name="pool-stays-on-old-primary",
        about="the lookups' pool connects to the server that was the primary at first, which gets no changes any more",
        mirrors="a pool whose connections outlive a failover",
        convicted_by=("V8",),
        variant=Variant(bypasses_proxy=True),
        where="`failover-rows-change`",
        applies=NEVER,
        scenario="failover-rows-change",
        levels=_REAL,
    ),
    Defect(
        name="lookups-from-replica",
        about="lookups ask the replica although they need the newest rows",
        mirrors="a stale read from a replica behind a load balancer",
        convicted_by=("V8",),
        variant=Variant(lookups_from_replica=True),
        where="`rows-change-replica-lags`",
        applies=NEVER,
        scenario="rows-change-replica-lags",
        levels=_REAL,
    ),
    Defect(
        name="sends-all-again",
        about="after a failover the sink writes all again that its attempt has committed, and not only what is gone",
        mirrors="an outbox that is sent again from its beginning",
        convicted_by=("V8", "V9"),
        variant=Variant(sink=sending_all_again),
        where="`split`",
        applies=NEVER,
        scenario="split",
        levels=_REAL,
    ),
)
