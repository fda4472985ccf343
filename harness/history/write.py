"""Writes a history, in text or in columns; what `read` then gives is equal to what was written.

Invariant: lossless in the sense of the page: integers exact, floats to the last bit, absent and null apart.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from harness.history.event import Event
from harness.history.header import Header, header_json
from harness.history.lines import COLUMNAR, needs_columns

__all__ = ["event_json", "header_line", "json_text", "line_of", "write"]

_STRING_OR_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity')


def write(path: Path, header: Header, events: Iterable[Event]) -> None:
    """Write a whole history; the name's end chooses columns or text, and its compression (`.gz`, `.zst`, else none)."""
    if path.suffix in COLUMNAR:
        with needs_columns(path):
            from harness.history.columns import write_columns  # noqa: PLC0415  (most histories need no Arrow)

        write_columns(path, header, events)
        return
    with _opened(path) as file:
        file.write(header_line(header))
        for event in events:
            file.write(line_of(event))


def header_line(header: Header) -> bytes:
    """Line 1, with its line feed."""
    return _line(header_json(header))


def line_of(event: Event) -> bytes:
    """The line of one event, with its line feed."""
    return _line(event_json(event))


def event_json(event: Event) -> dict[str, Any]:
    """The object of an event's line: `n`, `t`, `k` first, then its fields as the page orders them."""
    fields = dict(zip(event.__struct_encode_fields__, msgspec.structs.astuple(event), strict=True))
    kind = {"n": event.n, "t": event.t, "k": event.__struct_config__.tag}
    return kind | {name: value for name, value in fields.items() if value is not UNSET}


def _line(value: dict[str, Any]) -> bytes:
    return json_text(value).encode() + b"\n"


def json_text(value: Any) -> str:
    """The JSON of any value that was read, in characters of ASCII."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # A double beyond all doubles was read from something like 1e999, and is written so again.
        return _STRING_OR_INFINITY.sub(_finite, json.dumps(value, separators=(",", ":")))


def _finite(token: re.Match[str]) -> str:
    return "1e999" if token[0] == "Infinity" else token[0]


class _Writes(Protocol):
    def write(self, data: bytes, /) -> object: ...


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Writes]:
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
