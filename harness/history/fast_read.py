"""Reads a history in text form in batches of events: many times faster than `read`, and as strict for each line.

Implements "Files" and "Events" of `docs/reference/history.md`; the rules between events are left to the caller.
Invariant: a line is accepted if and only if `read` accepts it, and yields an equal event. Errors that the decoder
does not detect (duplicate keys, deep nesting) are found by counting bytes over many lines at once; a suspicious line
is read again as `read` does. Memory: one batch, or the longest line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from harness.history.event import (
    Call,
    Event,
    Failed,
    FaultEvent,
    In,
    Kill,
    Out,
    Res,
    Rescale,
    Restore,
    Snap,
    Start,
)
from harness.history.event_fields import Claims, claims_of, well_formed
from harness.history.header import Header
from harness.history.read import WHITE, HistoryReader, cut_off
from harness.history.strict_json import DIGITS_MAX, NESTING_MAX, strictly
from harness.history.text import Chunks, CutOff, Line

_BATCH = 1 << 14
"""Bytes decoded at a time: about 180 events, which stay in the processor's cache while they are followed."""
_DEEP = 2 * NESTING_MAX
"""A shorter line cannot be nested too deep: each level takes an opening and a closing byte."""
_ODD = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of the decoder and encoder; the exact reader decides whether the line is valid."""

_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


class NeedsExactReader(Exception):
    """Line `line` may break the format; `read` tells whether and how."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} may be malformed")
        self.line = line


class FastHistory(Protocol):
    """One pass over one history. Mutable: `warnings` and `done` grow while `batches` is iterated."""

    header: Header | None
    """None: the first line is not a valid header."""
    warnings: list[str]

    @property
    def done(self) -> int:
        """Bytes of the file that have been read."""

    def batches(self) -> Iterator[list[Event]]:
        """The events in order, in lists, once. Raises `NeedsExactReader` at a line that `read` refuses."""


class FastText:
    """A `FastHistory` of the text form."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self._chunks = Chunks(path, size=_BATCH)
        self._lines = _whole_lines(self._chunks)
        self._rest = b""
        self.header = self._header()
        self._claims = claims_of(self.header)

    @property
    def done(self) -> int:
        return self._chunks.done

    def batches(self) -> Iterator[list[Event]]:
        if self.header is None:
            raise NeedsExactReader(1)
        number = 2
        try:
            for raw in chain([self._rest] if self._rest else [], self._lines):
                events = all_ordinary(raw, self._claims)
                if events is None:
                    events = list(self._one_by_one(number, raw))
                    number += raw.count(b"\n")
                else:
                    number += len(events)
                yield events
        except CutOff:
            raise NeedsExactReader(number) from None

    def _header(self) -> Header | None:
        try:
            first, feed, self._rest = next(self._lines, b"").partition(b"\n")
        except CutOff:
            return None
        return ordinary_header(first) if first or feed else None

    def _one_by_one(self, first: int, raw: bytes) -> Iterator[Event]:
        """The events of whole lines, of which the last one of a file may lack its line feed."""
        *lines, last = raw.split(b"\n")
        for number, line in enumerate(lines, start=first):
            yield ordinary_event(line, self._claims) or exact_event(number, line, self._claims)
        if last:
            number = first + len(lines)
            value = strictly(last.strip(WHITE))
            if isinstance(value, dict):
                yield exact_event(number, last, self._claims)
            else:
                self.warnings.append(cut_off(number, value))


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces that end with a line feed, except perhaps the last."""
    rest: list[bytes] = []
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if not end:
            rest.append(chunk)
            continue
        yield b"".join((*rest, chunk[:end]))
        rest = [chunk[end:]]
    if last := b"".join(rest):
        yield last


def all_ordinary(raw: bytes, claims: Claims) -> list[Event] | None:
    """The events of these lines; None if any line needs a closer look."""
    if may_be_too_much(raw):
        return None
    try:
        events = _decoder.decode_lines(raw)
        again = _encoder.encode_lines(events)
    except _ODD:
        return None
    if not all(_keeps_its_table(event, claims) for event in _to_look_into(events)):
        return None
    return events if raw == again or (_is_one_a_line(raw, len(events)) and _keys_once(raw, again)) else None


def _to_look_into(events: list[Event]) -> list[Event]:
    """The events that may break a rule of their kind beyond the types of their fields."""
    return [
        event
        for event in events
        if (kind := type(event)) is not Call and kind is not Out and kind is not In
        if kind is not Res
        or event.by is not UNSET or event.retry is not UNSET or event.ver is not UNSET  # type: ignore[union-attr]
    ]  # fmt: skip


def ordinary_header(line: bytes) -> Header | None:
    """The header in line 1; None if it breaks the format."""
    reader = HistoryReader([Line(number=1, raw=line, ended=True)])
    return None if reader.breaches else reader.header


def ordinary_event(line: bytes, claims: Claims) -> Event | None:
    """The event of one line; None if it needs a closer look."""
    if may_be_too_much(line):
        return None
    try:
        event = _decoder.decode(line)
        again = _encoder.encode(event)
    except _ODD:
        return None
    return event if _keeps_its_table(event, claims) and _keys_once(line, again) else None


def exact_event(number: int, line: bytes, claims: Claims) -> Event:
    """The event of line `number`, read as `read` does; raises `NeedsExactReader` if it breaks the format."""
    value = strictly(line.strip(WHITE))
    event = well_formed(value, claims).event if isinstance(value, dict) else None
    if event is None:
        raise NeedsExactReader(number)
    return event


def may_be_too_much(raw: bytes) -> bool:
    """Whether any of the lines may be nested too deep, or hold an integer with too many digits."""
    at, length = 0, len(raw)
    while length - at > _DEEP:
        feed = raw.rfind(b"\n", at, at + _DEEP)
        if feed < 0:
            feed = raw.find(b"\n", at)
            feed = length if feed < 0 else feed
            brackets = raw.count(b"[", at, feed) + raw.count(b"{", at, feed)
            if brackets > NESTING_MAX or feed - at > DIGITS_MAX:
                return True
        at = feed + 1
    return False


def _is_one_a_line(raw: bytes, events: int) -> bool:
    """Whether each line is exactly one object; the decoder would accept any white space between objects.

    A line feed between two braces is never inside an object, nor inside a string.
    """
    framed = raw.startswith(b"{") and raw.endswith(b"}\n")
    return framed and raw.count(b"}\n{") == events - 1 and raw.count(b"\n") == events


def _keys_once(raw: bytes, again: bytes) -> bool:
    """Whether no object of `raw` has a duplicate key; `again` is the decoded value, encoded again.

    The decoder keeps one of two equal keys, so `again` lacks the colon of the other. A colon can only be gained
    from an escaped one, which is excluded.
    """
    return raw.count(b":") == again.count(b":") and b"\\u003a" not in raw and b"\\u003A" not in raw


def _keeps_its_table(event: Event, claims: Claims) -> bool:
    """Whether the event keeps the rules of its kind beyond the types of its fields."""
    unread: list[object]
    match event:
        case Snap() | Restore():
            return all(map(_is_element, event.elements))
        case Rescale():
            return all(group and len(set(group)) == len(group) for group in (event.of, event.to))
        case FaultEvent(phase="begin"):
            unread = [event.evidence] if "explained" in claims else [event.evidence, event.can, event.s]
        case FaultEvent():
            unread = [event.stalls, event.can, event.s]
            return event.evidence is not UNSET and all(field is UNSET for field in unread)
        case Start() | Failed() | Kill() | Res():
            unread = [] if "explained" in claims else [event.by]
            if isinstance(event, Res):
                unread += [] if "retry" in claims else [event.retry]
                unread += [] if "versions" in claims else [event.ver]
        case _:
            return True
    return all(field is UNSET for field in unread)


def _is_element(element: dict[str, Any]) -> bool:
    match element:
        case {"id": _, "w": _}:
            return False
        case {"id": id_}:
            return type(id_) is int or type(id_) is str
        case {"w": w, "pos": pos}:
            return (type(w) is int or w == "end") and type(pos) is int
    return False
