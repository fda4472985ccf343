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
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from harness.history.event import Event
from harness.history.header import Header, header_json
from harness.history.outside import OutsideEvent, OutsideHeader
from harness.system.errors import UsageError
from harness.system.json_types import Json

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
_PIECE = 1 << 14
"""Bytes decoded at a time: about 180 events, which stay in the processor's cache while they are followed."""

OnRead = Callable[[int, int], None]
"""Callback: bytes of the file read so far, bytes in total."""


class Line(NamedTuple):
    """One line without its line feed; `ended` is False for a last line that has none."""

    raw: bytes
    ended: bool = True
    odd: str = ""
    """Why it cannot be read: for a columnar row without a text form."""


class CutOff(Exception):
    """The compressed or columnar file ends early or is damaged; the lines before that were read."""


def chunks(path: Path, progress: OnRead | None = None) -> Iterator[bytes]:
    """The decompressed bytes of a file. Raises UsageError if it cannot be read, `CutOff` if it is damaged."""
    try:
        with path.open("rb") as file:
            match path.suffix:
                case ".gz":
                    parts = _gzip_chunks(file)
                case ".zst":
                    parts = _zstd_chunks(file)
                case _:
                    parts = iter(lambda: file.read(_CHUNK), b"")
            for part in parts:
                yield part
                if progress is not None:
                    progress(file.tell(), path.stat().st_size)
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise CutOff(f"the compressed stream is damaged: {error}") from error
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", fix="name a history file that you may read"
        ) from error


def whole_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at most `_PIECE` or one line; each ends with a line feed, except perhaps the last."""
    rest: list[bytes] = []
    for part in parts:
        at = 0
        while end := part.rfind(b"\n", at, at + _PIECE) + 1 or part.find(b"\n", at + _PIECE) + 1:
            yield b"".join((*rest, part[at:end]))
            rest, at = [], end
        rest.append(part[at:])
    if last := b"".join(rest):
        yield last


def lines_of(piece: bytes | Line) -> Iterator[Line]:
    """The lines of some whole lines."""
    if isinstance(piece, Line):
        yield piece
        return
    *lines, last = piece.split(b"\n")
    for raw in lines:
        yield Line(raw)
    if last:
        yield Line(last, ended=False)


def _gzip_chunks(file: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.open(file, "rb") as stream:
            while chunk := stream.read(_CHUNK):
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
    given = header_json(header)
    operator = given.get("operator", {})
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


def event_json(event: Event | OutsideEvent) -> Json:
    """The object of an event's line: `n`, `t`, `k`, then its fields in the order of `docs/reference/history.md`."""
    return {"n": event.n, "t": event.t, "k": event.__struct_config__.tag, **given_fields(event)}


def given_fields(event: Event | OutsideEvent) -> Json:
    """The fields of an event that are not absent, without its kind."""
    pairs = zip(event.__struct_encode_fields__, msgspec.structs.astuple(event), strict=True)
    return {name: value for name, value in pairs if value is not UNSET}


def _line(value: Json) -> bytes:
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
