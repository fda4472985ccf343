"""The events of a history once more, as lines of its text form, each with as much decoded as is needed.

Answers to Jepsen's lazy histories. Invariant: a line at a time is held; a line that cannot be read ends the
reading, for an explanation must come out of whatever could be judged, and never guesses at the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec

from harness.errors import FloodmarkError
from harness.history.event import Event
from harness.history.header import Header, header_json
from harness.history.lines import COLUMNAR, CutOff, read_lines
from harness.history.write import line_of

__all__ = ["EventLines", "FileLines", "Glimpse", "HeldLines", "Json", "glimpse_of", "is_empty", "whole"]

Json = Mapping[str, Any]
"""An event, or the header, as an object of the text form."""

_NOT_PLAIN = COLUMNAR | {".gz", ".zst"}
"""Ends of names; every other file is read by the system's own lines, which is twice as fast."""
_SHORT = 16
_NOTHING = msgspec.Raw(b"")


class Glimpse(msgspec.Struct, frozen=True, kw_only=True):
    """What a first look at an event takes in. Nothing is checked: a history that was judged is well-formed."""

    n: int
    t: int
    k: str
    s: Any = None
    a: Any = None
    c: Any = None
    id: Any = None
    pos: Any = None
    from_: Any = msgspec.field(name="from", default=None)
    f: Any = None
    phase: Any = None
    r: Any = None
    final: Any = None
    w: Any = None
    evidence: msgspec.Raw = _NOTHING
    expect: msgspec.Raw = _NOTHING
    v: msgspec.Raw = _NOTHING
    """As written, like those above, for most are never looked at."""


class EventLines(Protocol):
    """A history that can be read again and again."""

    def header(self) -> Json:
        """Line 1; an empty object where there is none."""
        ...

    def events(self) -> Iterator[bytes]:
        """The line of each event, in order."""
        ...


class FileLines:
    """Those of a file, in any form that a history is read in."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def header(self) -> Json:
        """Line 1; an empty object where the file has none."""
        return whole(next(self._lines(), b"")) or {}

    def events(self) -> Iterator[bytes]:
        """The line of each event, in order; as far as the file can be read."""
        return islice(self._lines(), 1, None)

    def _lines(self) -> Iterator[bytes]:
        with suppress(CutOff, FloodmarkError, OSError):
            if self._path.suffix in _NOT_PLAIN:
                yield from (line.raw for line in read_lines(self._path))
                return
            with self._path.open("rb") as file:
                yield from file


class HeldLines:
    """Those of a history in memory."""

    def __init__(self, header: Header, events: Iterable[Event]) -> None:
        self._header = header
        self._events = tuple(events)

    def header(self) -> Json:
        """The object of line 1."""
        return header_json(self._header)

    def events(self) -> Iterator[bytes]:
        """The line of each event, in order."""
        return map(line_of, self._events)


_decoder = msgspec.json.Decoder(Glimpse)
_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(Glimpse)}
_RAW = frozenset({"evidence", "expect", "v"})


def glimpse_of(line: bytes) -> Glimpse | None:
    """A first look at the event on a line; None where it cannot be read."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _glimpse_of(whole(line))


def _glimpse_of(event: Json | None) -> Glimpse | None:
    """What msgspec refuses and the page allows: integers of any length, halves of surrogate pairs."""
    if event is None or not {"n", "t", "k"} <= event.keys():
        return None
    seen: dict[str, Any] = {_FIELDS[name]: value for name, value in event.items() if name in _FIELDS}
    for name in _RAW & seen.keys():
        seen[name] = msgspec.Raw(json.dumps(seen[name]).encode())
    return Glimpse(**seen)


def whole(line: bytes) -> Json | None:
    """The whole object on a line; None where it cannot be read."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def is_empty(raw: msgspec.Raw) -> bool:
    """Whether it is an empty list or object; what is long is none, and is not copied to see that."""
    return memoryview(raw).nbytes <= _SHORT and bytes(raw).translate(None, b" \t\r") in {b"[]", b"{}"}
