"""Checks a history of Parquet files on Spark's executors, where it lies: a task for each subtask, small summaries back.

Spark reads, partitions by subtask and sorts by `n`; the judging is that of `harness.judge.checkers.shares`.
Invariant: as there, the judgement is that of one machine, which also decides what shares cannot. Memory of a task:
that of the screen, or, for a suspected subtask, its events.
"""

from __future__ import annotations

import pickle
import resource
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from harness.history.columnar import COLUMNS, all_columns, open_rows, text_of_rows
from harness.history.event import Event
from harness.history.header import Header
from harness.history.read import HistoryReader, NeedsExactReader
from harness.history.strict_json import integers_of_any_length
from harness.history.text import CutOff, Line, header_line, parts_of
from harness.history.verdict import Judgement
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.judge import Malformed, judge_file, uncollected
from harness.judge.checkers.shares.fold import ShareFound, examine_share, judge_shares
from harness.judge.checkers.shares.seen import OF_SHARES, TOLD_TO_ALL, SharedEvents, ShareSeen, see_share

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_Found = TypeVar("_Found")

CHECKING: Final[Mapping[str, str]] = {"spark.sql.execution.arrow.maxRecordsPerBatch": "16384"}
"""The settings of a session that checks."""
_SQL_TYPES: Final = {pa.int64(): "bigint", pa.bool_(): "boolean", pa.string(): "string"}
_SMALL: Final = 200_000
"""Rows below which a history is not spread over executors: moving them would cost more than judging."""
_WAVES: Final = 2
"""Pieces for each slot into which the check of the order is cut."""


def _tags(kinds: Iterable[type[Struct]]) -> Iterator[str]:
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
        self._pieces = 1
        self.seen = self.examined = self.largest_kb = 0

    def around(self) -> SharedEvents | None:
        """See `Shares`."""
        from pyspark.sql.functions import col  # noqa: PLC0415 - a large import, only when needed

        try:
            opened = open_rows(self._path)
        except CutOff:
            return None
        reader = HistoryReader([Line(opened.header)])
        header = reader.header
        if header is None or reader.breaches:
            return None
        self._pieces = 1 if opened.total < _SMALL else self._slots * _WAVES
        rows = self._rows().select("n", "t", "k", "s", "line")
        spans = [
            _Span(**row.asDict())
            for row in self._parted(rows, self._pieces, "n").mapInArrow(_span_of, _SPAN_FORM).collect()
        ]
        if not spans:
            return None
        whole = reduce(_Span.then, sorted(spans, key=lambda span: span.first_n))
        if not whole.fit:
            return None
        self._subtasks = sorted(whole.subtasks)
        few = _events_of(self._rows().filter(_is_one_of(_TOLD) | (col("n") == whole.last_n)), header)
        return SharedEvents(
            header=header,
            told=[event for event in few if isinstance(event, TOLD_TO_ALL)],
            last=few[-1],
            events=whole.rows,
        )

    def see(self, around: SharedEvents) -> Iterator[ShareSeen]:
        """See `Shares`."""
        for seen in self._each(self._subtasks, _See(around)):
            self.seen += 1
            yield seen

    def examine(
        self, around: SharedEvents, names: Mapping[int, Collection[str]], *, finished: bool
    ) -> Iterator[ShareFound]:
        """See `Shares`."""
        for found in (
            self._each(sorted(names), _Examine(around, dict(names), finished=finished)) if names else ()
        ):
            self.examined += 1
            yield found

    def _rows(self) -> DataFrame:
        """All rows, with all columns of a history."""
        from pyspark.sql.functions import col, lit  # noqa: PLC0415 - a large import, only when needed

        read = self._session.read.option("recursiveFileLookup", "true")
        form = _plain_form(self._path)
        read = read.schema(form) if form else read.option("mergeSchema", "true")
        found = read.parquet(str(self._path.absolute()))
        return found.select(
            *(
                (col(f"`{name}`") if name in found.columns else lit(None)).cast(_SQL_TYPES[kind]).alias(name)
                for name, kind in COLUMNS.items()
            )
        )

    def _parted(self, rows: DataFrame, pieces: int, *order: str) -> DataFrame:
        """Rows in pieces of neighbours, each sorted; a small history in one, whose rows move nowhere."""
        parts = rows.coalesce(1) if self._pieces == 1 else rows.repartitionByRange(pieces, order[0])
        return parts.sortWithinPartitions(*order)

    def _each(self, subtasks: Sequence[int], work: _Work[_Found]) -> Iterator[_Found]:
        """What `work` makes of each of these subtasks, in order."""
        from pyspark.sql.functions import col  # noqa: PLC0415

        rows = self._rows().filter(_is_one_of(_OWN))
        if list(subtasks) != self._subtasks:
            rows = rows.filter(col("s").isin(list(subtasks)))
        made = self._parted(rows, len(subtasks), "s", "n").mapInArrow(work, _RESULT_FORM).collect()
        self.largest_kb = max([self.largest_kb, *(row.kb for row in made)])
        if any(row.packed is None for row in made):
            raise _Unfit
        for row in sorted(made, key=lambda row: row.s):
            yield pickle.loads(row.packed)  # noqa: S301 - our own executor wrote it


def _plain_form(path: Path) -> str:
    """The columns of the parts in words of SQL, if all are of the usual types; else empty: Spark has to find out."""
    found: dict[str, Any] = {}
    for part in parts_of(path) if path.is_dir() else [path]:
        for field in pq.read_schema(part):
            if found.setdefault(field.name, field.type) != field.type or field.type not in _SQL_TYPES:
                return ""
    return ", ".join(f"`{name}` {_SQL_TYPES[kind]}" for name, kind in found.items() if name in COLUMNS)


def _is_one_of(kinds: Sequence[str]) -> Column:
    from pyspark.sql.functions import col  # noqa: PLC0415

    return col("k").isin(list(kinds))


def _events_of(rows: DataFrame, header: Header) -> list[Event]:
    """The events of a few rows, in order."""
    table = rows.toArrow().sort_by("n").combine_chunks()
    try:
        return [event for batch in table.to_batches() for event in _events_of_batch(batch, header)]
    except NeedsExactReader:
        raise _Unfit from None


def _events_of_batch(batch: pa.RecordBatch, header: Header) -> list[Event]:
    """The events of a batch, wherever its rows were; raises `NeedsExactReader` if one breaks the format."""
    rows = text_of_rows(all_columns(batch))
    return list(chain.from_iterable(HistoryReader([Line(header_line(header).strip()), *rows]).batches()))


# ---------------------------------------------------------------------------------------- on the executors


class _Span(NamedTuple):
    """A range of rows in order of `n`."""

    first_n: int
    last_n: int
    first_t: int
    last_t: int
    rows: int
    fit: bool
    """Whether `n` rises, `t` does not fall, and each row is one that shares take."""
    subtasks: list[int]
    """The subtasks that have rows of their own."""

    def then(self, later: _Span) -> _Span:
        """Both together, the later one directly behind this one."""
        follows = self.last_n < later.first_n and self.last_t <= later.first_t
        return _Span(
            first_n=self.first_n,
            last_n=later.last_n,
            first_t=self.first_t,
            last_t=later.last_t,
            rows=self.rows + later.rows,
            fit=self.fit and later.fit and follows,
            subtasks=sorted({*self.subtasks, *later.subtasks}),
        )


_SPAN_FORM: Final = (
    "first_n bigint, last_n bigint, first_t bigint, last_t bigint, rows bigint, fit boolean, "
    "subtasks array<bigint>"
)
_RESULT_FORM: Final = "s bigint, packed binary, kb bigint"
_NO_SPAN: Final = _Span(0, 0, 0, 0, 1, fit=False, subtasks=[])


def _span_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The span of one partition, whose rows are sorted by `n`."""
    spans = [_span(batch) for batch in batches if batch.num_rows]
    if spans:
        schema = pa.schema(
            [
                *((name, pa.int64()) for name in _Span._fields[:5]),
                ("fit", pa.bool_()),
                ("subtasks", pa.list_(pa.int64())),
            ]
        )
        yield pa.RecordBatch.from_pylist([reduce(_Span.then, spans)._asdict()], schema=schema)


def _span(batch: pa.RecordBatch) -> _Span:
    n, t, k, s = map(batch.column, ("n", "t", "k", "s"))
    if n.null_count or t.null_count or k.null_count or batch.column("line").null_count < batch.num_rows:
        return _NO_SPAN
    own = pc.is_in(k, pa.array(_OWN))
    known = pc.all(pc.or_(own, pc.is_in(k, pa.array(_TOLD)))).as_py()
    subtasks = pc.unique(s.filter(own)).to_pylist()
    ns, ts = n.to_numpy(), t.to_numpy()
    rises = bool((ns[1:] > ns[:-1]).all() and (ts[1:] >= ts[:-1]).all())
    named = None not in subtasks
    return _Span(
        int(ns[0]), int(ns[-1]), int(ts[0]), int(ts[-1]), len(ns), fit=known and rises and named,
        subtasks=subtasks if named else [],
    )  # fmt: skip


class _Work(Generic[_Found]):
    """Work on the subtasks of one partition; picklable."""

    def __init__(self, around: SharedEvents) -> None:
        self.around = around

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each subtask; without a result if a row of it is not ordinary."""
        with uncollected(), integers_of_any_length():
            for s, group in groupby(_by_subtask(batches), key=itemgetter(0)):
                events = (_events_of_batch(batch, self.around.header) for _, batch in group)
                try:
                    packed = pickle.dumps(self.of_share(s, events), pickle.HIGHEST_PROTOCOL)
                except NeedsExactReader:
                    packed = None
                kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                yield pa.RecordBatch.from_arrays(
                    [pa.array([s], pa.int64()), pa.array([packed], pa.binary()), pa.array([kb], pa.int64())],
                    names=["s", "packed", "kb"],
                )

    def of_share(self, s: int, batches: Iterator[Sequence[Event]]) -> _Found:
        """The result for one subtask."""
        raise NotImplementedError


class _See(_Work[ShareSeen]):
    def of_share(self, s: int, batches: Iterator[Sequence[Event]]) -> ShareSeen:
        return see_share(s, self.around, batches)


class _Examine(_Work[ShareFound]):
    def __init__(self, around: SharedEvents, names: Mapping[int, Collection[str]], *, finished: bool) -> None:
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
