"""The text form of a history, plain or compressed (`.jsonl`, `.jsonl.gz`, `.jsonl.zst`): read and written.

Lines end with a line feed and are numbered from 1; memory grows with the longest line, not with the file.
Invariant: writing is lossless. Integers stay exact, floats keep every bit, and absent differs from null.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from harness.history.event import Event
from harness.history.header import Header, header_json
from harness.history.outside import OutsideEvent, OutsideHeader, outside_header_json
from harness.system.errors import UsageError

COLUMNAR = frozenset({".arrow", ".parquet"})
"""Suffixes of the columnar forms."""


def parts_of(folder: Path) -> list[Path]:
    """The Parquet files of a history that many tasks wrote; a leading `_` or `.` hides a file, as in Spark."""
    found = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return [folder / name for name in sorted(found) if not any(part[0] in "_." for part in name.parts)]


def is_columnar(path: Path) -> bool:
    """Whether a history is in columns: a file by its suffix, or a folder of Parquet files."""
    return path.suffix in COLUMNAR or path.is_dir()


_encode_lines = msgspec.json.Encoder().encode_lines
_CHUNK = 1 << 20
_COMPRESSED = 1 << 9


class Line(NamedTuple):
    """One line without its line feed; `ended` is False for a last line that has none."""

    number: int
    raw: bytes
    ended: bool
    odd: str = ""
    """Why it cannot be read: for a columnar row without a text form."""


class CutOff(Exception):
    """The compressed or columnar file ends early or is damaged; the lines before that were read."""


class Chunks:
    """The decompressed bytes of a file, about `size` at a time. Raises UsageError and `CutOff` as `read_lines` does.

    Mutable: `done` counts the bytes of the file read so far.
    """

    def __init__(self, path: Path, *, size: int = _CHUNK) -> None:
        self.done = 0
        self._path = path
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        path = self._path
        try:
            with path.open("rb") as file:
                match path.suffix:
                    case ".gz":
                        chunks = _gzip_chunks(file, self._size)
                    case ".zst":
                        chunks = _zstd_chunks(file)
                    case _:
                        chunks = iter(lambda: file.read(self._size), b"")
                for chunk in chunks:
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


def _gzip_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    try:
        with gzip.open(file, "rb") as stream:
            while chunk := stream.read(size):
                yield chunk
    except (EOFError, zlib.error) as error:
        raise CutOff(f"the compressed stream is damaged: {error}") from error


def _zstd_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Decompresses frame by frame, because zstandard's reader object accepts a truncated frame.

    Reads few bytes at a time, because four bytes of a frame may expand to 128 kB.
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


_MULTIPLIER = "written below"
"""Stands in for a multiplier; no other text of `operator` equals it."""
_STRING_OR_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity')


def header_line(header: Header | OutsideHeader) -> bytes:
    """Line 1, with its line feed."""
    if isinstance(header, OutsideHeader):
        return _line(outside_header_json(header))
    given = header_json(header)
    operator = given["operator"]
    multiplier = operator.get("retry", {}).get("multiplier")
    if not isinstance(multiplier, Decimal):
        return _line(given)
    # `json` cannot write a Decimal, so a text stands in its place while the rest is written.
    stand_in = {**operator, "retry": {**operator["retry"], "multiplier": _MULTIPLIER}}
    written = json_text(stand_in).replace(f'"{_MULTIPLIER}"', str(multiplier))
    rest = json_text({name: value for name, value in given.items() if name != "operator"})
    return f'{rest[:-1]},"operator":{written}}}\n'.encode()


def line_of(event: Event | OutsideEvent) -> bytes:
    """The line of one event, with its line feed."""
    return _line(event_json(event))


def digest_of(header: Header, events: Sequence[Event]) -> str:
    """A SHA-256 of a history's content, ten times as fast as that of its file; equal for equal histories."""
    hashed = sha256(header_line(header))
    try:
        hashed.update(_encode_lines(events))
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):  # what only `line_of` can write
        hashed = sha256(header_line(header))
        for event in events:
            hashed.update(line_of(event))
    return hashed.hexdigest()


def event_json(event: Event | OutsideEvent) -> dict[str, Any]:
    """The object of an event's line: `n`, `t`, `k`, then its fields in the order of `docs/reference/history.md`."""
    fields = dict(zip(event.__struct_encode_fields__, msgspec.structs.astuple(event), strict=True))
    kind = {"n": event.n, "t": event.t, "k": event.__struct_config__.tag}
    return kind | {name: value for name, value in fields.items() if value is not UNSET}


def _line(value: dict[str, Any]) -> bytes:
    return json_text(value).encode() + b"\n"


def json_text(value: object) -> str:
    """The JSON text of any value that was read, in ASCII."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # An infinite float was read from a number such as 1e999, and is written as one.
        text = json.dumps(value, separators=(",", ":"))
        return _STRING_OR_INFINITY.sub(lambda it: "1e999" if it[0] == "Infinity" else it[0], text)


class _Writes(Protocol):
    def write(self, data: bytes, /) -> object: ...


@contextlib.contextmanager
def opened(path: Path) -> Iterator[_Writes]:
    """A file to write bytes to, compressed if the suffix is `.gz` or `.zst`."""
    match path.suffix:
        case ".gz":
            with gzip.open(path, "wb") as file:
                yield file
        case ".zst":
            from zstandard import ZstdCompressor  # noqa: PLC0415  (most histories need no codec)

            with path.open("wb") as raw, ZstdCompressor().stream_writer(raw) as file:
                yield file
        case _:
            with path.open("wb") as file:
                yield file
