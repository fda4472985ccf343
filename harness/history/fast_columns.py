"""Reads the columnar form of a history in batches of events: each row through its text form, many at a time.

Invariant: a row is accepted if and only if its text form is (`columnar.line_of_row`), and yields an equal event.
Memory: one record batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from harness.history.columnar import Rows, field_text, line_of_row, open_rows
from harness.history.event import Event
from harness.history.event_fields import Claims, claims_of
from harness.history.fast_read import (
    NeedsExactReader,
    all_ordinary,
    exact_event,
    ordinary_event,
    ordinary_header,
)
from harness.history.header import Header
from harness.history.text import CutOff

_FEW = 1 << 8
"""Rows read at a time, whose events stay in the processor's cache while they are followed."""


class FastColumns:
    """A `FastHistory` of the columnar form; `warnings` stays empty. Mutable."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self.done = 0
        self.header: Header | None = None
        self._rows: Rows | None = None
        with suppress(CutOff):
            self._rows = open_rows(path)
            self.header = ordinary_header(self._rows.header)

    def batches(self) -> Iterator[list[Event]]:
        if self._rows is None or self.header is None:
            raise NeedsExactReader(1)
        number = 2
        claims = claims_of(self.header)
        try:
            for batch in self._rows.batches:
                self.done = self._rows.size * (number - 2 + batch.num_rows) // self._rows.total
                for events in _events(number, batch, claims):
                    number += len(events)
                    yield events
        except CutOff:
            raise NeedsExactReader(number) from None


def events_of_batch(batch: pa.RecordBatch, header: Header) -> list[Event]:
    """The events of a batch, wherever its rows were; raises `NeedsExactReader` as `batches` does."""
    return [event for events in _events(2, batch, claims_of(header)) for event in events]


def _events(first: int, batch: pa.RecordBatch, claims: Claims) -> Iterator[list[Event]]:
    """The events of a batch whose first row is line `first`."""
    filled = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
    rows = batch.select(filled)
    for start in range(0, rows.num_rows, _FEW):
        few = rows.slice(start, _FEW)
        text = _text_of(few)
        events = all_ordinary(text, claims) if text else None
        yield events or list(_one_by_one(first + start, few, claims))


def _text_of(rows: pa.RecordBatch) -> bytes | None:
    """The lines of these rows; None if one has to be looked at by itself.

    Cells that contradict each other give a line that `all_ordinary` refuses: with a field twice, or without `from`.
    """
    if not rows.num_columns or "line" in rows.schema.names:
        return None
    columns = []
    try:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            cells = column.to_pylist()
            texts = {cell: None if cell is None else field_text(name, cell) for cell in dict.fromkeys(cells)}
            columns.append(map(texts.__getitem__, cells))
    except ValueError:
        return None
    lines = (",".join(filter(None, fields)) for fields in zip(*columns, strict=True))
    return ("{" + "}\n{".join(lines) + "}\n").encode()


def _one_by_one(first: int, rows: pa.RecordBatch, claims: Claims) -> Iterator[Event]:
    """The events of rows whose first is line `first`; raises `NeedsExactReader` at a row that `read` refuses."""
    cells = rows.to_pylist() if rows.num_columns else [{}] * rows.num_rows
    for number, row in enumerate(cells, start=first):
        line = line_of_row(number, row)
        if line.odd:
            raise NeedsExactReader(number)
        yield ordinary_event(line.raw, claims) or exact_event(number, line.raw, claims)
