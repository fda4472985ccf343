"""The glimpses of a columnar history, made of its cells; a text is written only of a row that is asked for whole.

Answers to `FileLines` for columns. A row of a rare kind, or with a cell that a glimpse takes from elsewhere, is read
through its text form. Memory: one record batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from harness.history.columnar import line_of_row, open_rows
from harness.judge.explanation.glimpse import NOTHING, Glimpse, Json, glimpse_of, whole

__all__ = ["ColumnGlimpses"]

_FEW = 1 << 10
"""Rows read at a time, which stay in the processor's cache."""
_ODD = ("from", "f", "phase", "of", "evidence", "line", "w_end")
"""A row with one of these is read through its text form, and so is a `start`, of which `from` may be null."""
_TAKEN = ("n", "t", "k", "s", "a", "c", "id", "pos", "r", "final", "w", "expect", "v")


class ColumnGlimpses:
    """One pass over the events of a columnar history. Mutable: holds the rows around the latest glimpse."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._few: pa.RecordBatch | None = None

    def __iter__(self) -> Iterator[tuple[Glimpse | None, int]]:
        """Each event's glimpse, None if it is unreadable, and its place for `whole`; raises `CutOff`."""
        for batch in open_rows(self._path).batches:
            filled = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
            rows = batch.select(filled)
            for start in range(0, rows.num_rows, _FEW):
                self._few = rows.slice(start, _FEW)
                yield from zip(self._glimpses(self._few), count(), strict=False)

    def whole(self, place: int) -> Json | None:
        """The full object of the row at `place`, until the glimpse after those around it is taken."""
        assert self._few is not None, "a place is given with a glimpse"
        line = line_of_row(0, self._few.slice(place, 1).to_pylist()[0])
        return None if line.odd else whole(line.raw)

    def _glimpses(self, rows: pa.RecordBatch) -> list[Glimpse | None]:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        cells: dict[str, Iterable[Any]] = {
            name: columns[name].to_pylist() if name in columns else repeat(None) for name in _TAKEN
        }
        if (texts := columns.get("id_text")) is not None:
            ids = columns["id"].to_pylist() if "id" in columns else repeat(None)
            cells["id"] = [
                number if text is None else text for text, number in zip(texts.to_pylist(), ids, strict=False)
            ]
        odd = _odd(columns, rows.num_rows)
        # An emission is seen without its value, which is not asked for.
        return [
            self._by_line(place)
            if is_odd
            else Glimpse(
                n=n, t=t, k=k, s=s, a=a, c=c, id=id_, pos=pos, r=r, final=final, w=w,
                expect=NOTHING if expect is None else Raw(expect.encode()),
                v=NOTHING if v is None or r is None else Raw(v.encode()),
            )
            for is_odd, place, n, t, k, s, a, c, id_, pos, r, final, w, expect, v in zip(
                odd, count(), *cells.values(), strict=False
            )
        ]  # fmt: skip

    def _by_line(self, place: int) -> Glimpse | None:
        assert self._few is not None, "it is one of these rows"
        line = line_of_row(0, self._few.slice(place, 1).to_pylist()[0])
        return None if line.odd else glimpse_of(line.raw)


def _odd(columns: dict[str, pa.Array], count_of_rows: int) -> list[bool]:
    """Of each row, whether it has to be read through its text form."""
    missing = [name for name in ("n", "t", "k") if name not in columns]
    if missing:
        return [True] * count_of_rows
    odd = pc.equal(columns["k"], "start")
    for name in _ODD:
        if name in columns:
            odd = pc.or_(odd, columns[name].is_valid())
    cells: list[bool | None] = odd.to_pylist()
    return [cell is not False for cell in cells]
