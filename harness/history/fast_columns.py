"""Reads the columnar form of a history in batches of events, as `fast_read` reads the text form.

Invariant: a row is accepted if and only if its text form is (`columnar.line_of_row`), and yields an equal event.
The most frequent kinds of event are built column by column; all other kinds, and any kind with an unusual cell in
the batch, are read through their text form. Memory: one record batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from harness.history.columnar import Rows, line_of_row, open_rows
from harness.history.event import Call, Event, In, Out, Owm, Res, Wm
from harness.history.event_fields import Claims, claims_of
from harness.history.fast_read import (
    NotOrdinary,
    Stretch,
    exact_event,
    may_be_too_much,
    ordinary_event,
    ordinary_header,
)
from harness.history.header import Header
from harness.history.text import CutOff

__all__ = ["FastColumns", "events_of_batch"]

_FEW = 1 << 9
"""Events made at a time, which stay in the processor's cache while they are followed."""
_SORTED_BY = frozenset({"k", "s"})
_STRETCH = 16384
"""Rows of which some are passed over at a time."""
_LEAST = {"t": 0, "s": 0, "a": 1, "j": 0, "try": 1, "ver": 0}
_REPEATED = frozenset({"a", "s", "try", "j", "r", "final"})
"""Columns that often hold one value in many rows."""
_RESULTS = frozenset({"ok", "fail", "timeout", "unknown"})

_values = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class _Odd(Exception):
    """These rows hold an unusual cell and must be read through their text form."""


class FastColumns:
    """A `FastHistory` of the columnar form; `warnings` stays empty. Mutable."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self.done = 0
        self.header: Header | None = None
        self._rows = self._opened(path)

    def _opened(self, path: Path) -> Rows | None:
        try:
            rows = open_rows(path)
        except CutOff:
            return None
        self.header = ordinary_header(rows.header)
        return rows

    def batches(self) -> Iterator[list[Event]]:
        if self._rows is None or self.header is None:
            raise NotOrdinary(1)
        number = 2
        claims = claims_of(self.header)
        try:
            for batch in self._rows.batches:
                number += batch.num_rows
                self.done = self._rows.size * (number - 2) // self._rows.total
                events = _events(number - batch.num_rows, batch, claims)
                while few := list(islice(events, _FEW)):
                    yield few
        except CutOff:
            raise NotOrdinary(number) from None

    def stretches(self, passed_over: Collection[int]) -> Iterator[Stretch]:
        """See `FastHistory`."""
        if self._rows is None or self.header is None:
            raise NotOrdinary(1)
        claims = claims_of(self.header)
        number = 2
        try:
            for whole in map(_filled, self._rows.batches):
                for start in range(0, whole.num_rows, _STRETCH):
                    batch = whole.slice(start, _STRETCH)
                    away = pc.is_in(batch.column("s"), pa.array(list(passed_over), pa.int64()))
                    near = pc.invert(away)
                    events = list(_events(number, batch.filter(near), claims))
                    yield Stretch(batch.num_rows, pc.indices_nonzero(near).to_pylist(), events)
                    number += batch.num_rows
                    self.done = self._rows.size * (number - 2) // self._rows.total
        except CutOff:
            raise NotOrdinary(number) from None


def _events(first: int, batch: pa.RecordBatch, claims: Claims) -> Iterator[Event]:
    """The events of a batch whose first row is line `first`."""
    rows = _filled(batch)
    kinds = batch.column("k").dictionary_encode(null_encoding="encode")
    which = kinds.indices
    made = [
        _of_kind(kind, first, rows, pc.equal(which, at), claims)
        for at, kind in enumerate(kinds.dictionary.to_pylist())
    ]
    return map(next, map(made.__getitem__, which.to_pylist()))


def events_of_batch(batch: pa.RecordBatch, header: Header) -> list[Event]:
    """The events of a batch with all of `COLUMNS`, wherever its rows were; raises `NotOrdinary` as `batches` does."""
    return list(_events(2, batch, claims_of(header)))


def _filled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that have any value, and those that a history is sorted by."""
    return batch.select(
        [
            name
            for name in batch.schema.names
            if name in _SORTED_BY or batch.column(name).null_count < batch.num_rows
        ]
    )


def _of_kind(
    kind: str | None, first: int, batch: pa.RecordBatch, chosen: pa.BooleanArray, claims: Claims
) -> Iterator[Event]:
    rows = batch.filter(chosen)
    if kind in _MAKERS:
        with suppress(_Odd):
            return _MAKERS[kind](_Cells(rows, claims))
    places: list[int] = pc.indices_nonzero(chosen).to_pylist()
    return map(_by_line, (first + place for place in places), rows.to_pylist(), repeat(claims))


def _by_line(number: int, row: Mapping[str, Any], claims: Claims) -> Event:
    line = line_of_row(number, row)
    if line.odd:
        raise NotOrdinary(number)
    return ordinary_event(line.raw, claims) or exact_event(number, line.raw, claims)


class _Cells:
    """The cells of rows of one kind, column by column; each method raises `_Odd` at an unusual cell.

    Mutable: it remembers which columns were read; `no_others` must be called last.
    """

    def __init__(self, rows: pa.RecordBatch, claims: Claims) -> None:
        self.claims = claims
        self._unasked = {name: rows.column(at) for at, name in enumerate(rows.schema.names) if name != "k"}
        self._nulls = pa.nulls(rows.num_rows)

    def _column(self, name: str) -> pa.Array:
        """The column, or nulls if the batch has no value in it."""
        return self._unasked.pop(name, self._nulls)

    def each(self, name: str) -> Iterable[Any]:
        """A column without nulls."""
        return _full(name, self._column(name))

    def maybe(self, name: str) -> Iterable[Any]:
        """A column that may have nulls, which become UNSET."""
        column = self._column(name)
        if column.null_count == len(column):
            return repeat(UNSET)
        if name in _LEAST and pc.min(column).as_py() < _LEAST[name]:
            raise _Odd
        if not column.null_count:
            return _same(column) or column.to_pylist()
        return [UNSET if cell is None else cell for cell in column.to_pylist()]

    def ids(self) -> Iterable[Any]:
        """The ids, from the integer and the text column."""
        numbers, texts = self._column("id"), self._column("id_text")
        if texts.null_count == len(texts):
            return _full("id", numbers)
        pairs = list(zip(numbers.to_pylist(), texts.to_pylist(), strict=True))
        if any((number is None) == (text is None) for number, text in pairs):
            raise _Odd
        return [text if number is None else number for number, text in pairs]

    def results(self) -> Iterable[Any]:
        """The column `r`."""
        column = self._column("r")
        if not _RESULTS.issuperset(pc.unique(column).to_pylist()):
            raise _Odd
        return _full("r", column)

    def aside(self, name: str, flag: str, *, meant: Any, absent: Any) -> Iterable[Any]:
        """A column of integers; where the flag column is true, the value is `meant` instead."""
        numbers, flags = self._column(name), self._column(flag)
        if flags.null_count == len(flags):
            if not numbers.null_count:
                return _full(name, numbers)
            if numbers.null_count == len(numbers) and absent is UNSET:
                return repeat(UNSET)
        pairs = list(zip(numbers.to_pylist(), flags.to_pylist(), strict=True))
        cells = [(meant if flag else absent) if number is None else number for number, flag in pairs]
        if any(flag and number is not None for number, flag in pairs) or _Odd in cells:
            raise _Odd
        return cells

    def json(self, name: str) -> list[Any]:
        """A column of JSON without nulls."""
        column = self._column(name)
        if column.null_count:
            raise _Odd
        return _decoded(column)

    def maybe_json(self, name: str) -> Iterable[Any]:
        """A column of JSON that may have nulls, which become UNSET."""
        column = self._column(name)
        if column.null_count == len(column):
            return repeat(UNSET)
        values = iter(_decoded(column.drop_null()))
        return [next(values) if given else UNSET for given in column.is_valid().to_pylist()]

    def no_others(self) -> None:
        """Raise `_Odd` if a column that was not read has any value."""
        if any(column.null_count != len(column) for column in self._unasked.values()):
            raise _Odd

    def of_attempt(self) -> tuple[Iterable[Any], ...]:
        """The columns `n`, `t`, `s`, `a`, `thread` and `mail`."""
        own = (self.each("n"), self.each("t"), self.each("s"), self.each("a"))
        return (*own, self.maybe("thread"), self.maybe("mail"))


def _full(name: str, column: pa.Array) -> Iterable[Any]:
    if column.null_count:
        raise _Odd
    if name in _LEAST and pc.min(column).as_py() < _LEAST[name]:
        raise _Odd
    if name in _REPEATED and (same := _same(column)) is not None:
        return same
    cells: list[Any] = column.to_pylist()
    return cells


def _same(column: pa.Array) -> Iterable[Any] | None:
    """The one value of a column without nulls, as often as asked for; None if it has several."""
    values = pc.unique(column)
    return repeat(values[0].as_py()) if len(values) == 1 else None


def _decoded(column: pa.Array) -> list[Any]:
    """The values of JSON texts; `_Odd` unless each is exactly what the encoder writes, so no duplicate key is lost."""
    try:
        lists = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column)
        joined = pc.binary_join(lists, "\n")[0].as_buffer().to_pybytes() + b"\n"
        if may_be_too_much(joined):
            raise _Odd
        values = _values.decode_lines(joined)
        if _encoder.encode_lines(values) != joined:
            raise _Odd
    except (pa.ArrowException, msgspec.MsgspecError, ValueError, RecursionError):
        raise _Odd from None
    return values


def _lists(values: Iterable[Any]) -> Iterable[Any]:
    if isinstance(values, list) and not {list, UnsetType}.issuperset(map(type, values)):
        raise _Odd
    return values


def _ins(cells: _Cells) -> Iterator[Event]:
    rows = zip(
        *cells.of_attempt(), cells.each("pos"), cells.ids(), cells.maybe_json("key"),
        cells.aside("ts", "ts_null", meant=None, absent=UNSET), _lists(cells.maybe_json("expect")),
        strict=False,
    )  # fmt: skip
    cells.no_others()
    return (
        In(
            n=n, t=t, s=s, a=a, thread=thread, mail=mail, pos=pos, id=id_, key=key, ts=ts, expect=expect
        )
        for n, t, s, a, thread, mail, pos, id_, key, ts, expect in rows
    )  # fmt: skip


def _wms(cells: _Cells) -> Iterator[Event]:
    rows = zip(
        *cells.of_attempt(),
        cells.each("pos"),
        cells.aside("w", "w_end", meant="end", absent=_Odd),
        strict=False,
    )
    cells.no_others()
    return (
        Wm(n=n, t=t, s=s, a=a, thread=thread, mail=mail, pos=pos, w=w)
        for n, t, s, a, thread, mail, pos, w in rows
    )


def _owms(cells: _Cells) -> Iterator[Event]:
    rows = zip(*cells.of_attempt(), cells.aside("w", "w_end", meant="end", absent=_Odd), strict=False)
    cells.no_others()
    return (Owm(n=n, t=t, s=s, a=a, thread=thread, mail=mail, w=w) for n, t, s, a, thread, mail, w in rows)


def _calls(cells: _Cells) -> Iterator[Event]:
    rows = zip(*cells.of_attempt(), cells.ids(), cells.each("try"), cells.maybe_json("nonce"), strict=False)
    cells.no_others()
    return (
        Call(n=n, t=t, s=s, a=a, thread=thread, mail=mail, id=id_, try_=number, nonce=nonce)
        for n, t, s, a, thread, mail, id_, number, nonce in rows
    )


def _outcomes(cells: _Cells) -> Iterator[Event]:
    rows = zip(
        *cells.of_attempt(), cells.ids(), cells.each("try"), cells.results(), cells.each("final"),
        _lists(cells.maybe_json("v")), cells.maybe_json("nonce"), cells.maybe_json("error"),
        # Unless the header makes the claim, the column stays unread, and any value in it is unusual.
        cells.maybe("by") if "explained" in cells.claims else repeat(UNSET),
        cells.maybe("retry") if "retry" in cells.claims else repeat(UNSET),
        cells.maybe("ver") if "versions" in cells.claims else repeat(UNSET),
        strict=False,
    )  # fmt: skip
    cells.no_others()
    return (
        Res(
            n=n, t=t, s=s, a=a, thread=thread, mail=mail, id=id_, try_=number, r=r, final=final, v=v,
            nonce=nonce, error=error, by=by, retry=retry, ver=ver,
        )
        for n, t, s, a, thread, mail, id_, number, r, final, v, nonce, error, by, retry, ver in rows
    )  # fmt: skip


def _outs(cells: _Cells) -> Iterator[Event]:
    ts = cells.aside("ts", "ts_null", meant=None, absent=UNSET)
    rows = zip(*cells.of_attempt(), cells.ids(), cells.each("j"), cells.json("v"), ts, strict=False)
    cells.no_others()
    return (
        Out(n=n, t=t, s=s, a=a, thread=thread, mail=mail, id=id_, j=j, v=v, ts=ts)
        for n, t, s, a, thread, mail, id_, j, v, ts in rows
    )


_MAKERS: Mapping[str | None, Callable[[_Cells], Iterator[Event]]] = {
    "in": _ins, "wm": _wms, "call": _calls, "res": _outcomes, "out": _outs, "owm": _owms,
}  # fmt: skip
