"""Runner `micro-batch`: the operator as a Structured Streaming query, whose driver commits each batch as one epoch.

    source in Python -> foreachBatch -> mapInArrow: the operator from the snapshot of epoch N-1 -> one transaction

Answers to a streaming job with Spark's offset log as its coordinator. Invariants: a batch whose epoch is visible is
skipped before its operator runs; outputs, snapshots and epoch rows of all subtasks are one transaction, fenced by the
driver's generation; a driver that died is followed by one that needs only the folder and the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from harness.database.batch_sink import BatchSink, Begun, PartOfEpoch
from harness.database.driver import MySqlDriver
from harness.database.epoch import Fenced, SinkLost
from harness.faults.kill_worker import InjectedFailure
from harness.levels.live.place import RealPlace
from harness.levels.spark.batch_attempt import ShareOfBatch, run_batch
from harness.levels.spark.batch_journal import BatchJournal
from harness.levels.spark.driver import RunOfDriver
from harness.levels.spark.positions_source import FORMAT, PositionsSource, Range, Ranges, source_option
from harness.scenario.plan import decode_plan, encode_plan
from harness.sut.defects import variant_of
from harness.sut.user_code import take_path
from harness.sut.variant import HONEST
from harness.system.process_identity import this_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_QUERIES_MAX = 4
"""So often a query is started in one driver; a commit that fails ends it."""
RESULT = "subtask int, part binary"


def perform_micro_batches(run: RunOfDriver) -> None:
    """Runs the query to the end of its sources. Raises what ended it."""
    take_path(run.plan.path)
    with BatchJournal(run.plan, start=run.start) as journal:
        sink = BatchSink(MySqlDriver(run.plan.sink), seed=run.plan.seed)
        with closing(sink):
            Batches(run, sink=sink, journal=journal).go()


class Batches:
    """The batches of one run in one driver. Mutable: keeps why a batch failed."""

    def __init__(self, run: RunOfDriver, *, sink: BatchSink, journal: BatchJournal) -> None:
        sink.transactions.on_loss, sink.transactions.on_error = journal.lost, journal.trouble
        self.run = run
        self.ranges = Ranges(run.plan)
        self.sink = sink
        self.journal = journal
        self._failures: list[Exception] = []
        """What the present query's batches have raised."""
        self._cause_of = RealPlace(run.plan, self.ranges.scenario, 0, HONEST).cause_of

    def go(self) -> None:
        """Runs the query, and again after a commit that failed."""
        for left in reversed(range(_QUERIES_MAX)):
            self._failures.clear()
            self.sink.take_over()
            try:
                self._query()
            except Exception:
                if left and any(isinstance(error, InjectedFailure | SinkLost) for error in self._failures):
                    continue
                if self._failures:
                    raise self._failures[0] from None
                raise
            return

    def _query(self) -> None:
        run = self.run
        run.session.dataSource.register(PositionsSource)
        stream = run.session.readStream.format(FORMAT).option("plan", source_option(run.plan)).load()
        query = (
            self.transformed(stream)
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(Path(run.plan.folder) / "spark-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        while not query.awaitTermination(1):
            if run.cancelled.is_set():
                query.stop()

    def transformed(self, stream: DataFrame) -> DataFrame:
        """What Spark does with the rows of the source before a batch is handed over."""
        return stream

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Called by Spark with batch `number`, from 0; called again with the same rows after a crash."""
        epoch = number + 1
        try:
            self.epoch(frame, epoch)
        except (InjectedFailure, SinkLost, Fenced) as error:
            self._failures.append(error)
            raise

    def epoch(self, frame: DataFrame, epoch: int) -> None:
        """Runs the operator on the batch of `epoch` and commits it, unless it is visible."""
        ranges, subtasks = self.ranges.of(epoch), self.ranges.subtasks_of(epoch)
        if self.sink.has_epoch(epoch):
            self.journal.skips(epoch, subtasks)
            # A driver that died behind a last commit has not recorded that the subtask has ended.
            last = [one.subtask for one in ranges if one.is_last]
            for ended in self.sink.begin(last) if last else ():
                if not self.journal.is_closed(ended.subtask, ended.token):
                    self.journal.ends_again(ended)
            return
        is_new = self.journal.begins(epoch, subtasks)
        begun = self.sink.begin(subtasks)
        shares = [self._share(epoch, *pair, is_new=is_new) for pair in zip(ranges, begun, strict=True)]
        body = partial(run_shares, encode_plan(self.run.plan), msgspec.json.encode(shares))
        self.commit(epoch, frame.mapInArrow(body, RESULT).collect(), ranges)

    def _share(self, epoch: int, one: Range, begun: Begun, *, is_new: bool) -> ShareOfBatch:
        follows = is_new and self.journal.is_closed(one.subtask, begun.token)
        return ShareOfBatch(
            subtask=one.subtask,
            epoch=epoch,
            begin=one.begin,
            end=one.end,
            length=len(self.ranges.sources[one.subtask]),
            number=begun.number,
            origin_ms=begun.origin_ms,
            saved=begun.saved,
            by="planted" if follows else None,
            driver=this_process(),
        )

    def commit(self, epoch: int, rows: Sequence[Row], ranges: Sequence[Range]) -> None:
        """Commits what the tasks have handed over, and says that their attempts are over."""
        journal = self.journal
        parts = sorted(
            (msgspec.json.decode(row.part, type=PartOfEpoch) for row in rows), key=lambda part: part.subtask
        )
        assert [part.subtask for part in parts] == [one.subtask for one in ranges], "a part for each subtask"
        journal.takes(parts)
        journal.committing(epoch, parts)

        def reach(phase: str) -> None:
            for part in parts:
                journal.reach(part, phase)

        self.sink.reach = reach
        try:
            self.sink.commit(epoch, parts)
            reach("commit.post")
            self.committed(epoch, parts)
            for part, one in zip(parts, ranges, strict=True):
                journal.over(part, is_last=one.is_last)
        except (InjectedFailure, SinkLost, Fenced) as error:
            journal.failed(parts, error, by=self._cause_of(error))
            raise

    def committed(self, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        """The transaction of `epoch` is over."""
        self.journal.committed(epoch, parts)


def run_shares(plan: bytes, shares: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The body of a task: the operator on the rows of one subtask's range."""
    from pyspark import TaskContext  # noqa: PLC0415 - in a worker only

    orders = decode_plan(plan)
    take_path(orders.path)
    rows: dict[int, str] = {}
    subtask = None
    for batch in batches:
        columns: dict[str, list[Any]] = batch.to_pydict()
        rows |= zip(columns["position"], columns["element"], strict=True)
        subtask = columns["subtask"][0] if columns["subtask"] else subtask
    if subtask is None:
        return
    share = next(
        one for one in msgspec.json.decode(shares, type=list[ShareOfBatch]) if one.subtask == subtask
    )
    task = TaskContext.get()
    part = run_batch(
        orders,
        share,
        rows,
        tries=0 if task is None else task.attemptNumber(),
        variant=variant_of(orders.mutant),
    )
    yield pa.RecordBatch.from_arrays(
        [pa.array([subtask], pa.int32()), pa.array([msgspec.json.encode(part)], pa.binary())],
        names=["subtask", "part"],
    )
