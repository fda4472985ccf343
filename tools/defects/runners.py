"""Defects of the sinks of runners of level spark.

Answers to recipes for an idempotent `foreachBatch` that are right for deterministic queries only. Invariant: each is a
subclass of the runner's sink, and differs in the one thing that its name says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.database.batch_sink import PartOfEpoch, ReplacingSink
from harness.sut.defects.defect import Defect
from harness.sut.variant import Kind, Variant, made_once


@made_once
def dropping_what_was_seen(sink: Kind) -> Kind:
    """`sink`, which drops the output of a batch whose number it has seen, though Spark keeps the second try's state."""
    if not issubclass(sink, ReplacingSink):
        return sink

    class DroppingSink(sink):  # type: ignore[misc]  # a class made of a class
        def _write(self, cursor: Any, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
            if self.was_seen(cursor, epoch):
                cursor.connection.rollback()
                return
            self.write_batch(cursor, epoch, parts)
            self.reach("commit.pre")
            cursor.connection.commit()

    return DroppingSink


OF_RUNNERS = (
    Defect(
        name="drops-a-seen-batch",
        about="runs a batch again, and drops its output because the batch was seen",
        mirrors="the recipe for an idempotent `foreachBatch`, with an operator that is not deterministic",
        convicted_by=("V8",),
        variant=Variant(sink=dropping_what_was_seen),
        runner="stateful",
        levels=("spark",),
        scenario="kill-after-commit",
    ),
)
