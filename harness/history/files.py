"""Opens a history file in the form that its suffix names: text, compressed text, or columns.

Arrow is imported only to open a file in columns; most histories are text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import cast

from harness.history.event import Event
from harness.history.header import Header
from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.text import (
    COLUMNAR,
    Line,
    OnRead,
    chunks,
    header_line,
    is_columnar,
    line_of,
    lines_of,
    opened,
    whole_lines,
)
from harness.system.errors import UsageError, WorldError


def pieces_of(path: Path, progress: OnRead | None = None) -> Iterator[bytes | Line]:
    """The text of `path` in pieces of whole lines, and by themselves those lines that no text can hold.

    Raises UsageError if it cannot be read, WorldError without pyarrow, `CutOff` if it is damaged.
    """
    if is_columnar(path):
        with needs_columns(path):
            from harness.history.columnar import column_pieces  # noqa: PLC0415  (most histories need no Arrow)

        return column_pieces(path, progress)
    return whole_lines(chunks(path, progress))


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of `path`; raises as `pieces_of` does."""
    return chain.from_iterable(map(lines_of, pieces_of(path)))


@contextmanager
def needs_columns(path: Path) -> Iterator[None]:
    """Turns an ImportError of pyarrow inside the block into a WorldError."""
    try:
        yield
    except ImportError as error:
        raise WorldError(
            f"{path}: histories in columns need pyarrow, which is not installed",
            fix="pip install 'floodmark[columns]'",
        ) from error


def write(
    path: Path, header: Header | OutsideHeader, events: Iterable[Event] | Iterable[OutsideEvent]
) -> None:
    """Write a whole history; the suffix chooses columns or text, and the compression (`.gz`, `.zst`, none).

    A path without a suffix is a folder of Parquet files, one for each subtask.

    A history that is seen from outside has no columnar form: raises UsageError.
    """
    if path.suffix in COLUMNAR or not path.suffix:
        if isinstance(header, OutsideHeader):
            message = f"{path}: a history that is seen from outside is not written in columns"
            raise UsageError(message, fix="name a file that ends in .jsonl, .jsonl.gz or .jsonl.zst")
        with needs_columns(path):
            from harness.history.columnar import write_columns, write_parts  # noqa: PLC0415

        write_to = write_columns if path.suffix else write_parts
        write_to(path, header, cast("Iterable[Event]", events))
        return
    with opened(path) as file:
        file.write(header_line(header))
        for event in events:
            file.write(line_of(event))
