"""Checks a history of Parquet files on Spark's executors, where it lies: a task for each subtask, small summaries back.

Spark reads, partitions by subtask and sorts by `n`; the judging is that of `harness.checkers.shares`. Invariant: as
there, the judgement is that of one machine, which also decides what shares cannot. Memory of a task: that of the
screen, or, for a suspected subtask, its events.
"""

from __future__ import annotations

import pickle
import resource
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from harness.checkers.invariant import Invariant
from harness.checkers.judge import Malformed, judge_file, uncollected
from harness.checkers.shares.around import OF_SHARES, TOLD_TO_ALL, Around
from harness.checkers.shares.fold import judge_shares
from harness.checkers.shares.found import ShareFound, examine_share
from harness.checkers.shares.seen import ShareSeen, see_share
from harness.history.columnar import COLUMNS, all_columns, open_rows
from harness.history.event import Event
from harness.history.fast_columns import events_of_batch
from harness.history.fast_read import NotOrdinary, ordinary_header
from harness.history.header import Header
from harness.history.strict_json import integers_of_any_length
from harness.history.text import CutOff
from harness.verdict import Judgement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CHECKING", "Checked", "check_on_spark"]

CHECKING: Final[Mapping[str, str]] = {"spark.sql.execution.arrow.maxRecordsPerBatch": "16384"}
"""The settings of a session that checks."""
_SQL_TYPES: Final = {pa.int64(): "bigint", pa.bool_(): "boolean", pa.string(): "string"}
_ORDER_PIECES: Final = 4
"""Pieces for each slot into which the check of the order is cut."""


def _tags(kinds: Iterable[Any]) -> Iterator[str]:
    """The names of these kinds of event in a history."""
    for kind in kinds:
        inner = kind.__subclasses__()
        if inner:
            yield from _tags(inner)
        else:
            yield str(kind.__struct_config__.tag)


_OWN: Final = tuple(_tags(OF_SHARES))
_TOLD: Final = tuple(_tags(TOLD_TO_ALL))


class Checked(NamedTuple):
    """A judgement, and how it came about."""

    judged: Judgement | Malformed
    shares: int
    """How many subtasks were looked at by themselves; 0: none, the whole was read on this machine."""
    examined: int
    """How many of them went to the exact checkers."""
    largest_task_mb: int
    """The memory of the largest Python process of an executor."""
    whole: tuple[str, ...]
    """The invariants that this machine decided from the whole history."""

    def told(self, name: str) -> str:
        """How it came about, in a line."""
        if not self.shares:
            return f"spark   {name}: judged on this machine, because its rows cannot be shared out"
        whole = f", {', '.join(self.whole)} by the whole" if self.whole else ""
        return (
            f"spark   {name}: {self.shares} subtasks, {self.examined} of them examined exactly{whole}; "
            f"the largest task took {self.largest_task_mb} MB"
        )


def check_on_spark(
    session: SparkSession, path: Path, *, checkers: Sequence[Invariant], slots: int
) -> Checked:
    """Judge the history of the Parquet file, or of the folder of Parquet files, at `path`.

    The executors must be able to read it under the same path. Raises UsageError if it cannot be read here.
    """
    asked: list[str] = []

    def whole(wanted: Sequence[Invariant]) -> Judgement | Malformed:
        asked.extend(checker.name for checker in wanted)
        return judge_file(path, checkers=wanted)

    with integers_of_any_length():
        shares = _SparkShares(session, path, slots=slots)
        try:
            judged = judge_shares(shares, whole, checkers=checkers)
        except _Unfit:
            asked.clear()
            judged = whole(checkers)
    return Checked(
        judged=judged,
        shares=shares.seen,
        examined=shares.examined,
        largest_task_mb=shares.largest_kb >> 10,
        whole=tuple(asked),
    )


class _Unfit(Exception):
    """The history has a row that only an exact reader may judge."""


class _SparkShares:
    """The `Shares` of a history in Parquet files. Mutable: counts what was done."""

    def __init__(self, session: SparkSession, path: Path, *, slots: int) -> None:
        self._session = session
        self._path = path
        self._slots = slots
        self._subtasks: list[int] = []
        self.seen = self.examined = self.largest_kb = 0

    def around(self) -> Around | None:
        """See `Shares`."""
        try:
            header = ordinary_header(open_rows(self._path).header)
        except CutOff:
            return None
        if header is None:
            return None
        rows = self._rows()
        events = self._count_in_order(rows)
        if not events or not self._is_fit(rows):
            return None
        self._subtasks = sorted(row.s for row in rows.filter(_is_own()).select("s").distinct().collect())
        told = _events_of(rows.filter(_is_one_of(_TOLD)), header)
        (last,) = _events_of(rows.orderBy(rows.n.desc()).limit(1), header)
        return Around(header=header, told=told, last=last, events=events)

    def see(self, around: Around) -> Iterator[ShareSeen]:
        """See `Shares`."""
        for seen in self._each(self._subtasks, _See(around)):
            self.seen += 1
            yield seen

    def examine(
        self, around: Around, names: Mapping[int, Collection[str]], *, finished: bool
    ) -> Iterator[ShareFound]:
        """See `Shares`."""
        for found in self._each(sorted(names), _Examine(around, dict(names), finished)) if names else ():
            self.examined += 1
            yield found

    def _rows(self) -> DataFrame:
        """All rows, with all columns of a history."""
        from pyspark.sql.functions import col, lit  # noqa: PLC0415 - a large import, only when needed

        read = self._session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
        found = read.parquet(str(self._path.absolute()))
        return found.select(
            *(
                (col(f"`{name}`") if name in found.columns else lit(None)).cast(_SQL_TYPES[kind]).alias(name)
                for name, kind in COLUMNS.items()
            )
        )

    def _count_in_order(self, rows: DataFrame) -> int:
        """The number of events; 0 if `n` does not rise or `t` falls anywhere."""
        pieces = max(1, self._slots * _ORDER_PIECES)
        sorted_rows = rows.select("n", "t").repartitionByRange(pieces, "n").sortWithinPartitions("n")
        found = sorted_rows.mapInArrow(_order_of, _ORDER_FORM).collect()
        spans = sorted((_Span(**row.asDict()) for row in found), key=lambda span: span.first_n)
        together = all(a.last_n < b.first_n and a.last_t <= b.first_t for a, b in pairwise(spans))
        return sum(span.rows for span in spans) if together and all(span.rises for span in spans) else 0

    def _is_fit(self, rows: DataFrame) -> bool:
        """Whether each row is of a kind that shares take, and each that belongs to a subtask names it."""
        from pyspark.sql.functions import col, lit  # noqa: PLC0415

        known = col("k").isNotNull() & (_is_one_of(_TOLD) | (_is_own() & col("s").isNotNull()))
        unfit = col("line").isNotNull() | ~known
        return not rows.filter(unfit | lit(False)).select("k").limit(1).collect()

    def _each(self, subtasks: Sequence[int], work: _Work) -> Iterator[Any]:
        """What `work` makes of each of these subtasks, in order."""
        from pyspark.sql.functions import col  # noqa: PLC0415

        rows = self._rows().filter(_is_own())
        if list(subtasks) != self._subtasks:
            rows = rows.filter(col("s").isin(list(subtasks)))
        parts = rows.repartitionByRange(len(subtasks), "s").sortWithinPartitions("s", "n")
        made = parts.mapInArrow(work, _RESULT_FORM).collect()
        self.largest_kb = max([self.largest_kb, *(row.kb for row in made)])
        if any(row.packed is None for row in made):
            raise _Unfit
        for row in sorted(made, key=lambda row: row.s):
            yield pickle.loads(row.packed)  # noqa: S301 - our own executor wrote it


def _is_one_of(kinds: Sequence[str]) -> Any:
    from pyspark.sql.functions import col  # noqa: PLC0415

    return col("k").isin(list(kinds))


def _is_own() -> Any:
    return _is_one_of(_OWN)


def _events_of(rows: DataFrame, header: Header) -> list[Event]:
    """The events of a few rows, in order."""
    table = rows.toArrow().sort_by("n").combine_chunks()
    try:
        return [
            event for batch in table.to_batches() for event in events_of_batch(all_columns(batch), header)
        ]
    except NotOrdinary:
        raise _Unfit from None


# ---------------------------------------------------------------------------------------- on the executors


class _Span(NamedTuple):
    """A range of rows in order of `n`."""

    first_n: int
    last_n: int
    first_t: int
    last_t: int
    rows: int
    rises: bool
    """Whether `n` rises and `t` does not fall."""


_ORDER_FORM: Final = (
    "first_n bigint, last_n bigint, first_t bigint, last_t bigint, rows bigint, rises boolean"
)
_RESULT_FORM: Final = "s bigint, packed binary, kb bigint"


def _order_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The span of one partition, whose rows are sorted by `n`."""
    span: _Span | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        n, t = batch.column("n"), batch.column("t")
        if n.null_count or t.null_count:
            yield _row_of(_Span(0, 0, 0, 0, batch.num_rows, rises=False))
            return
        ns, ts = n.to_numpy(), t.to_numpy()
        rises = bool((ns[1:] > ns[:-1]).all() and (ts[1:] >= ts[:-1]).all())
        now = _Span(int(ns[0]), int(ns[-1]), int(ts[0]), int(ts[-1]), len(ns), rises)
        if span is not None:
            follows = span.last_n < now.first_n and span.last_t <= now.first_t
            now = _Span(
                span.first_n, now.last_n, span.first_t, now.last_t, span.rows + now.rows,
                span.rises and now.rises and follows,
            )  # fmt: skip
        span = now
    if span is not None:
        yield _row_of(span)


def _row_of(span: _Span) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([span._asdict()])


class _Work:
    """Work on the subtasks of one partition; picklable."""

    def __init__(self, around: Around) -> None:
        self.around = around

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each subtask; without a result if a row of it is not ordinary."""
        with uncollected(), integers_of_any_length():
            for s, group in groupby(_by_subtask(batches), key=itemgetter(0)):
                try:
                    packed = pickle.dumps(self.of_share(s, self._events(group)), pickle.HIGHEST_PROTOCOL)
                except NotOrdinary:
                    packed = None
                kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                yield pa.RecordBatch.from_arrays(
                    [pa.array([s], pa.int64()), pa.array([packed], pa.binary()), pa.array([kb], pa.int64())],
                    names=["s", "packed", "kb"],
                )

    def of_share(self, s: int, batches: Iterator[Sequence[Event]]) -> object:
        """The result for one subtask."""
        raise NotImplementedError

    def _events(self, group: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[list[Event]]:
        for _, batch in group:
            yield events_of_batch(all_columns(batch), self.around.header)


class _See(_Work):
    def of_share(self, s: int, batches: Iterator[Sequence[Event]]) -> ShareSeen:
        return see_share(s, self.around, batches)


class _Examine(_Work):
    def __init__(self, around: Around, names: Mapping[int, Collection[str]], finished: bool) -> None:  # noqa: FBT001
        super().__init__(around)
        self._names = names
        self._finished = finished

    def of_share(self, s: int, batches: Iterator[Sequence[Event]]) -> ShareFound:
        return examine_share(s, self.around, batches, names=self._names[s], finished=self._finished)


def _by_subtask(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches, cut where another subtask begins."""
    for batch in batches:
        if batch.num_rows:
            runs = pc.run_end_encode(batch.column("s"))
            start = 0
            for s, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                yield s, batch.slice(start, end - start)
                start = end
