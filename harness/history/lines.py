"""The lines of a history file, plain or compressed (`.jsonl`, `.jsonl.gz`, `.jsonl.zst`) or in columns, one at a time.

Invariant: a line is what stands between two line feeds, with its number from 1; memory grows with the
longest line, not with the file.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from harness.errors import UsageError

__all__ = ["COLUMNAR", "Chunks", "CutOff", "Line", "needs_columns", "numbered", "read_lines"]

COLUMNAR = frozenset({".arrow", ".parquet"})
"""Ends of the names of files in columns."""

_CHUNK = 1 << 20
_COMPRESSED = 1 << 9


class Line(NamedTuple):
    """One line without its line feed; `ended` is False for a last line that has none."""

    number: int
    raw: bytes
    ended: bool
    odd: str = ""
    """Why it cannot be read, where that is known beforehand (a row of columns)."""


class CutOff(Exception):
    """The compressed stream ends early or is damaged; the lines before were read."""


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of `path`; raises UsageError where it cannot be read, `CutOff` where a stream is damaged."""
    if path.suffix in COLUMNAR:
        with needs_columns(path):
            from harness.history.column_rows import column_lines  # noqa: PLC0415  (most histories need no Arrow)

        return column_lines(path)
    return numbered(Chunks(path))


@contextmanager
def needs_columns(path: Path) -> Iterator[None]:
    """Within it Arrow is imported; raises UsageError where that is not installed."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"{path} is in columns, and pyarrow is not installed", fix="pip install 'floodmark[columns]'"
        ) from error


class Chunks:
    """What the lines of a file are cut from, some `size` bytes at a time; iterating raises as `read_lines` does.

    Mutable: `done` counts the bytes of the file that have been read.
    """

    def __init__(self, path: Path, *, size: int = _CHUNK) -> None:
        self.done = 0
        self._path = path
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        path = self._path
        try:
            with path.open("rb") as file:
                for chunk in _chunks(file, path.suffix, self._size):
                    self.done = file.tell()
                    yield chunk
        except OSError as error:
            if isinstance(error, gzip.BadGzipFile):
                raise CutOff(f"the compressed stream is damaged: {error}") from error
            raise UsageError(
                f"cannot read {path}: {error.strerror or error}", fix="name a history file that you may read"
            ) from error


def numbered(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Cut chunks of bytes into numbered lines."""
    rest: list[bytes] = []
    number = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for piece in others:
            number += 1
            yield Line(number=number, raw=b"".join(rest), ended=True)
            rest = [piece]
    if last := b"".join(rest):
        yield Line(number=number + 1, raw=last, ended=False)


def _chunks(file: BinaryIO, suffix: str, size: int) -> Iterator[bytes]:
    match suffix:
        case ".gz":
            return _gzip_chunks(file, size)
        case ".zst":
            return _zstd_chunks(file)
        case _:
            return iter(lambda: file.read(size), b"")


def _gzip_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    try:
        with gzip.open(file, "rb") as stream:
            while chunk := stream.read(size):
                yield chunk
    except (EOFError, zlib.error) as error:
        raise CutOff(f"the compressed stream is damaged: {error}") from error


def _zstd_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Frame after frame, for a reader object would take a cut frame for a whole one.

    A little at a time, for four bytes of a frame may stand for 128 thousand.
    """
    from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415  (most histories need no codec)

    frame = None
    rest = b""
    try:
        while data := rest or file.read(_COMPRESSED):
            frame = frame or ZstdDecompressor().decompressobj()
            if chunk := frame.decompress(data):
                yield chunk
            rest = frame.unused_data
            frame = None if frame.eof else frame
    except ZstdError as error:
        raise CutOff(f"the compressed stream is damaged: {error}") from error
    if frame is not None:
        raise CutOff("the compressed stream ends in the middle of a frame")
