"""The events of a history for explanations: reads lines again, decodes what is needed, describes events in words.

Answers to Jepsen's lazy histories. Holds one line at a time; an unreadable line ends the reading. A description
states only what the event contains; a missing field is shown as `?`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, tee
from pathlib import Path
from typing import Any, Protocol

import msgspec

from harness.history.event import Event
from harness.history.files import read_lines
from harness.history.header import Header, header_json
from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.text import COLUMNAR, CutOff, line_of
from harness.history.values import brief, visible
from harness.system.errors import FloodmarkError

Json = Mapping[str, Any]
"""An event, or the header, as an object of the text form."""

NOTHING = msgspec.Raw(b"")


class EventSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an event that most explanations need. Unchecked, since the history was judged before."""

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
    of: Any = None
    evidence: msgspec.Raw = NOTHING
    expect: msgspec.Raw = NOTHING
    v: msgspec.Raw = NOTHING
    """Undecoded, like `evidence` and `expect`, since most are never used."""


_decoder = msgspec.json.Decoder(EventSummary)
_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(EventSummary)}
_RAW = frozenset({"evidence", "expect", "v"})


def summary_of(line: bytes) -> EventSummary | None:
    """The summary of the event on a line; None if the line is unreadable."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A summary of what msgspec refuses and the format allows: long integers, unpaired surrogates
        event = whole(line)
        if event is None or not {"n", "t", "k"} <= event.keys():
            return None
        seen: dict[str, Any] = {_FIELDS[name]: value for name, value in event.items() if name in _FIELDS}
        for name in _RAW & seen.keys():
            seen[name] = msgspec.Raw(json.dumps(seen[name]).encode())
        return EventSummary(**seen)


def whole(line: bytes) -> Json | None:
    """The full object on a line; None if the line is unreadable."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_NOT_PLAIN = COLUMNAR | {".gz", ".zst"}
"""Suffixes that need a reader; other files are iterated line by line, which is twice as fast."""
_SHORT = 16


class EventLines(Protocol):
    """A history that can be read repeatedly."""

    def header(self) -> Json:
        """The object of line 1; empty if there is none."""
        ...

    def events(self) -> Iterator[bytes]:
        """The line of each event, in order."""
        ...


class FileLines:
    """The lines of a file, in any form of a history."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def header(self) -> Json:
        return whole(next(self._lines(), b"")) or {}

    def events(self) -> Iterator[bytes]:
        """The line of each event, in order, until the file becomes unreadable."""
        return islice(self._lines(), 1, None)

    def _lines(self) -> Iterator[bytes]:
        with suppress(CutOff, FloodmarkError, OSError):
            if self._path.suffix in _NOT_PLAIN or self._path.is_dir():
                yield from (line.raw for line in read_lines(self._path))
                return
            with self._path.open("rb") as file:
                yield from file


class HeldLines:
    """The lines of a history in memory."""

    def __init__(
        self, header: Header | OutsideHeader, events: Iterable[Event] | Iterable[OutsideEvent]
    ) -> None:
        self._header = header
        self._events: tuple[Event | OutsideEvent, ...] = tuple(events)

    def header(self) -> Json:
        return header_json(self._header)

    def events(self) -> Iterator[bytes]:
        return map(line_of, self._events)


def summaries(lines: EventLines) -> Iterator[tuple[EventSummary | None, bytes]]:
    """Each event's summary, None if it is unreadable, with its line."""
    once, again = tee(lines.events())
    return zip(map(summary_of, once), again, strict=True)


def is_empty(raw: msgspec.Raw) -> bool:
    """Whether it is an empty list or object; a long value is not copied."""
    return memoryview(raw).nbytes <= _SHORT and bytes(raw).translate(None, b" \t\r") in {b"[]", b"{}"}


_ELEMENTS_SHOWN = 6


def describe_event(event: Json) -> str:
    """One line that says what happened."""
    words = _WORDS.get(str(event.get("k")))
    return brief(dict(event), limit=100) if words is None else words(event)


def element_ids(event: Json) -> list[object]:
    """The ids of the records in a `snap` or `restore`."""
    elements = event.get("elements")
    if not isinstance(elements, list):
        return []
    return [element["id"] for element in elements if isinstance(element, dict) and "id" in element]


def _named(event: Json, field: str) -> str:
    """An id, number or watermark for a message; a string keeps its quotes."""
    return brief(event[field], limit=48) if field in event else "?"


def _value(event: Json, field: str, before: str = " = ") -> str:
    return f"{before}{brief(event[field])}" if field in event else ""


def _held(event: Json) -> str:
    elements = event.get("elements")
    if not isinstance(elements, list):
        return "?"
    if not elements:
        return "nothing in flight"
    names = [_element(element) for element in elements[:_ELEMENTS_SHOWN]]
    more = len(elements) - len(names)
    return f"{len(elements)} in flight: " + ", ".join(names) + (f", and {more} more" if more else "")


def _element(element: object) -> str:
    if isinstance(element, dict) and "id" in element:
        return brief(element["id"], limit=24)
    if isinstance(element, dict) and "w" in element:
        return f"watermark {brief(element['w'], limit=24)}"
    return brief(element, limit=24)


def _start(event: Json) -> str:
    checkpoint = event.get("from")
    origin = "from the beginning" if checkpoint is None else f"from checkpoint {brief(checkpoint)}"
    return f"attempt {_named(event, 'a')} starts {origin}, source at position {_named(event, 'pos')}"


def _res(event: Json) -> str:
    last = ", final" if event.get("final") is True else ""
    word = visible(str(event.get("r", "?")))
    told = _value(event, "v") + _value(event, "error", ", error ")
    return f"outcome of record {_named(event, 'id')}, try {_named(event, 'try')}: {word}{last}{told}"


def _effect(event: Json) -> str:
    output = f"output {_named(event, 'j')} of " if "j" in event else ""
    return (
        f"row of {output}record {_named(event, 'id')} in the database's log, "
        f"commit {_named(event, 'seq')}, token {_named(event, 'token')}{_value(event, 'v')}"
    )


def _row(event: Json) -> str:
    output = f"output {_named(event, 'j')} of " if "j" in event else ""
    told = _value(event, "v") + _value(event, "error", ", error ")
    writer = _value(event, "token", ", written by attempt ") + _value(event, "c", ", in epoch ")
    return f"row of {output}record {_named(event, 'id')} in table {_named(event, 'table')}{told}{writer}"


def _change(event: Json) -> str:
    rows = f"the looked-up rows of key {_named(event, 'key')}" if "key" in event else "all looked-up rows"
    how = "begin to become" if event.get("phase") == "begin" else "have become"
    return f"{rows} {how} version {_named(event, 'ver')}"


_WORDS: dict[str, Callable[[Json], str]] = {
    "start": _start,
    "restore": lambda e: f"checkpoint {_named(e, 'c')} is restored, {_held(e)}",
    "in": lambda e: (
        f"record {_named(e, 'id')} comes in at position {_named(e, 'pos')}{_value(e, 'expect', ', to yield ')}"
    ),
    "wm": lambda e: f"watermark {_named(e, 'w')} comes in at position {_named(e, 'pos')}",
    "call": lambda e: f"call for record {_named(e, 'id')}, try {_named(e, 'try')}",
    "res": _res,
    "out": lambda e: f"output {_named(e, 'j')} of record {_named(e, 'id')} leaves{_value(e, 'v')}",
    "owm": lambda e: f"watermark {_named(e, 'w')} leaves",
    "snap": lambda e: f"snapshot {_named(e, 'c')} at position {_named(e, 'pos')}, {_held(e)}",
    "dead": lambda e: f"record {_named(e, 'id')} goes to the dead letters",
    "failed": lambda e: f"the attempt reports its failure{_value(e, 'error', ': ')}",
    "end": lambda _: "the source is exhausted",
    "ended": lambda _: "the operator has drained",
    "close": lambda _: "the attempt is closed",
    "kill": lambda e: f"attempt {_named(e, 'a')} is dead: its process was reaped",
    "done": lambda e: f"checkpoint {_named(e, 'c')} is completed",
    "abort": lambda e: f"checkpoint {_named(e, 'c')} is given up",
    "ack": lambda e: f"checkpoint {_named(e, 'c')} is acknowledged",
    "rescale": lambda e: (
        f"at checkpoint {_named(e, 'c')} the subtasks {_named(e, 'of')} end, and {_named(e, 'to')} take over"
    ),
    "retire": lambda e: f"no checkpoint up to {_named(e, 'c')} will be restored any more",
    "commit": lambda e: (
        f"epoch {_named(e, 'c')} is committed"
        + (f", written by attempt {_named(e, 'a')}" if "a" in e else "")
    ),
    "effect": _effect,
    "fault": lambda e: (
        f"fault {_named(e, 'f')} "
        + ("begins" if e.get("phase") == "begin" else f"has ended{_value(e, 'evidence', ', evidence ')}")
    ),
    "row": _row,
    "read": lambda e: f"table {_named(e, 'table')} has been read to its end: {_named(e, 'rows')} rows",
    "change": _change,
    "giveup": lambda e: f"the harness stopped waiting{_value(e, 'why', ': ')}",
}
