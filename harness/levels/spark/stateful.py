"""Runner `stateful`: the operator in `transformWithState`; its snapshots are Spark's state, its sink replaces by batch.

Answers to a job that keeps what is in flight in the state of the query. Spark runs a batch again whose commit it did
not log, with the state of the batch before, and the second try's state wins: so its rows must win too. Invariants:
the rows of a batch are those of its last try; an attempt's number rises with the generation of the query, the epoch
and the try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from harness.database.batch_sink import PartOfEpoch, ReplacingSink
from harness.database.driver import MySqlDriver
from harness.database.epoch import SavedEpoch
from harness.engine.level import ATTEMPTS_MAX
from harness.levels.spark.batch_attempt import ShareOfBatch, run_batch
from harness.levels.spark.batch_journal import BatchJournal
from harness.levels.spark.driver import RunOfDriver
from harness.levels.spark.micro_batch import RESULT, Batches
from harness.levels.spark.positions_source import Ranges
from harness.scenario.plan import RunPlan
from harness.sut.defects import variant_of
from harness.sut.user_code import take_path
from harness.system.process_identity import ProcessIdentity, this_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def perform_stateful(run: RunOfDriver) -> None:
    """Runs the query to the end of its sources. Raises what ended it."""
    take_path(run.plan.path)
    kind = variant_of(run.plan.mutant).sink(ReplacingSink)
    with BatchJournal(run.plan, start=run.start) as journal:
        sink: ReplacingSink = kind(MySqlDriver(run.plan.sink), seed=run.plan.seed)
        with closing(sink):
            StatefulBatches(run, sink=sink, journal=journal).go()
        if not run.cancelled.is_set():
            ranges = Ranges(run.plan)
            journal.complete(ranges.last_epoch, ranges.subtasks_of(ranges.last_epoch))


class OrdersOfState(msgspec.Struct, frozen=True, kw_only=True):
    """What the processor knows before it sees a row."""

    plan: RunPlan
    generation: int
    last_epoch: int
    lengths: list[int]
    """The lengths of the subtasks' sources."""
    origins: list[int]
    driver: ProcessIdentity


class SubtaskState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one subtask: the snapshot of its newest epoch, and the query that made it."""

    saved: SavedEpoch
    generation: int


class StatefulBatches(Batches):
    """The batches of a query whose operator runs before `foreachBatch`. Mutable, as its base."""

    def transformed(self, stream: DataFrame) -> DataFrame:
        """The operator by subtask; each subtask's key belongs to a partition of its own."""
        session, ranges = self.run.session, self.ranges
        subtasks = self.run.subtasks
        for key, value in (*_STATE.items(), ("spark.sql.shuffle.partitions", str(subtasks))):
            session.conf.set(key, value)
        orders = OrdersOfState(
            plan=self.run.plan,
            generation=self.sink.generation,
            last_epoch=ranges.last_epoch,
            lengths=[len(source) for source in ranges.sources],
            origins=self.sink.origins(),
            driver=this_process(),
        )
        # A key for each subtask, no two of which are in one partition.
        candidates = session.range(64 * subtasks).selectExpr(
            "CAST(id AS INT) AS key", f"pmod(hash(CAST(id AS INT)), {subtasks}) AS place"
        )
        first = {row.place: row.key for row in sorted(candidates.collect(), reverse=True)}
        cases = " ".join(f"WHEN {number} THEN {first[number]}" for number in range(subtasks))
        keyed = stream.selectExpr("*", f"CAST(CASE subtask {cases} END AS INT) AS seat")
        return keyed.groupBy("seat").transformWithState(
            OperatorInState(msgspec.json.encode(orders)), RESULT, "Append", "None"
        )

    def epoch(self, frame: DataFrame, epoch: int) -> None:
        """Runs the operator, again if Spark asks again, and replaces what an earlier try has written."""
        self.journal.complete(epoch - 1, self.ranges.subtasks_of(epoch - 1))
        self.journal.begins(epoch, self.ranges.subtasks_of(epoch))
        self.commit(epoch, frame.collect(), self.ranges.of(epoch))

    def committed(self, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        """Does nothing: the epoch is complete when Spark has logged it, which the next batch shows."""


class OperatorInState(StatefulProcessor):
    """The operator on the rows of one subtask in one batch, from the state of the batch before."""

    def __init__(self, orders: bytes) -> None:
        self._orders = orders
        self._state: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Also called in a worker of the driver, where there are no rows."""
        self._state = handle.getValueState("snapshot", "text string")

    def handleInputRows(self, key: object, rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803
        """Spark passes its arguments by these names."""
        del key, timerValues
        orders = msgspec.json.decode(self._orders, type=OrdersOfState)
        take_path(orders.plan.path)
        elements: dict[int, str] = {}
        subtask = epoch = 0
        for row in rows:
            subtask, epoch = row.subtask, row.epoch
            elements[row.position] = row.element
        kept = msgspec.json.decode(self._state.get()[0], type=SubtaskState) if self._state.exists() else None
        share = _share_of(orders, kept, subtask=subtask, epoch=epoch, positions=elements)
        task = TaskContext.get()
        part = run_batch(
            orders.plan,
            share,
            elements,
            tries=0 if task is None else task.attemptNumber(),
            variant=variant_of(orders.plan.mutant),
        )
        saved = SavedEpoch(epoch=epoch, position=part.position, elements=part.elements)
        state = SubtaskState(saved=saved, generation=orders.generation)
        self._state.update((msgspec.json.encode(state).decode(),))
        yield Row(subtask=subtask, part=msgspec.json.encode(part))

    def close(self) -> None:
        """Does nothing: no connection is held between batches."""


def _share_of(
    orders: OrdersOfState, kept: SubtaskState | None, *, subtask: int, epoch: int, positions: dict[int, str]
) -> ShareOfBatch:
    batch = (orders.generation - 1) * orders.last_epoch + epoch - 1
    return ShareOfBatch(
        subtask=subtask,
        epoch=epoch,
        begin=min(positions),
        end=max(positions) + 1,
        length=orders.lengths[subtask],
        number=batch * ATTEMPTS_MAX + 1,
        origin_ms=orders.origins[subtask],
        saved=None if kept is None else kept.saved,
        by="planted" if kept is not None and kept.generation == orders.generation else None,
        driver=orders.driver,
    )
