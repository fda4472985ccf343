"""The lines of a history file, plain or compressed (`.jsonl`, `.jsonl.gz`, `.jsonl.zst`), one at a time.

Invariant: a line is what stands between two line feeds, with its number from 1; memory grows with the
longest line, not with the file.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from harness.errors import UsageError

__all__ = ["CutOff", "Line", "numbered", "read_lines"]

_CHUNK = 1 << 20


class Line(NamedTuple):
    """One line without its line feed; `ended` is False for a last line that has none."""

    number: int
    raw: bytes
    ended: bool


class CutOff(Exception):
    """The compressed stream ends early or is damaged; the lines before were read."""


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of `path`; raises UsageError where it cannot be read, `CutOff` where a stream is damaged."""
    try:
        with path.open("rb") as file:
            yield from numbered(_chunks(file, path.suffix))
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


def _chunks(file: BinaryIO, suffix: str) -> Iterator[bytes]:
    match suffix:
        case ".gz":
            return _gzip_chunks(file)
        case ".zst":
            return _zstd_chunks(file)
        case _:
            return iter(lambda: file.read(_CHUNK), b"")


def _gzip_chunks(file: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.open(file, "rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except (EOFError, zlib.error) as error:
        raise CutOff(f"the compressed stream is damaged: {error}") from error


def _zstd_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Frame after frame, for a reader object would take a cut frame for a whole one."""
    from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415  (most histories need no codec)

    frame = None
    rest = b""
    try:
        while data := rest or file.read(_CHUNK):
            frame = frame or ZstdDecompressor().decompressobj()
            if chunk := frame.decompress(data):
                yield chunk
            rest = frame.unused_data
            frame = None if frame.eof else frame
    except ZstdError as error:
        raise CutOff(f"the compressed stream is damaged: {error}") from error
    if frame is not None:
        raise CutOff("the compressed stream ends in the middle of a frame")
