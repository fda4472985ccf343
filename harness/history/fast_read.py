"""Reads a history in text form in batches of events, many times faster than `read`, as strictly line by line.

Answers to `docs/reference/history.md` (Files, Events) without the rules between events, which are its caller's. A line
is accepted exactly if `read` understands it, as an equal event. What the decoder cannot know (a key twice,
nesting without end) is found by counting over many lines at once; a line that seems odd is read once more, by
itself, as `read` would. Memory: one batch, or the longest line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from harness.history.event import Event, FaultEvent, Restore, Snap
from harness.history.event_fields import well_formed
from harness.history.header import Header
from harness.history.read import WHITE, HistoryReader, cut_off
from harness.history.strict_json import DIGITS_MAX, NESTING_MAX, strictly
from harness.history.text import Chunks, CutOff, Line

__all__ = [
    "FastHistory",
    "FastText",
    "NotOrdinary",
    "exact_event",
    "may_be_too_much",
    "ordinary_event",
    "ordinary_header",
]

_BATCH = 1 << 16
"""Bytes decoded at a time: about 700 events, which stay in the processor's cache."""
_DEEP = 2 * NESTING_MAX
"""Bytes that a line must have, for every level opens and closes, to be nested too deep."""
_LOOKED_INTO = frozenset({Snap, Restore, FaultEvent})
"""Kinds of which the page asks more than their types say."""
_ODD = (msgspec.MsgspecError, ValueError, RecursionError)
"""What the decoder, and the encoder, raise at values that Python's own would take, or would refuse too."""

_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


class NotOrdinary(Exception):
    """Line `line` may break the format; `read` says how."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} may be malformed")
        self.line = line


class _Batch(NamedTuple):
    """Whole lines, each with its line feed, but for the last line of a file that has none."""

    first: int
    """Number of its first line."""
    raw: bytes


class FastHistory(Protocol):
    """One reading of one history. Mutable: `warnings` and `done` grow while `batches` is iterated."""

    header: Header | None
    """None: the first line is no header as the page wants it."""
    warnings: list[str]

    @property
    def done(self) -> int:
        """Bytes of the file that have been read."""

    def batches(self) -> Iterator[list[Event]]:
        """The events in order, once, in lists; raises `NotOrdinary` at a line that `read` refuses."""


class FastText:
    """A reading of the text form."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self._chunks = Chunks(path, size=_BATCH)
        self._lines = _whole_lines(self._chunks)
        self._rest = b""
        self.header = self._header()

    @property
    def done(self) -> int:
        return self._chunks.done

    def batches(self) -> Iterator[list[Event]]:
        if self.header is None:
            raise NotOrdinary(1)
        number = 2
        try:
            for raw in self._remaining():
                events = _all_ordinary(raw)
                if events is None:
                    events = list(self._one_by_one(_Batch(number, raw)))
                    number += raw.count(b"\n")
                else:
                    number += len(events)
                yield events
        except CutOff:
            raise NotOrdinary(number) from None

    def _header(self) -> Header | None:
        try:
            first, feed, self._rest = next(self._lines, b"").partition(b"\n")
        except CutOff:
            return None
        return ordinary_header(first) if first or feed else None

    def _remaining(self) -> Iterator[bytes]:
        if self._rest:
            yield self._rest
        yield from self._lines

    def _one_by_one(self, batch: _Batch) -> Iterator[Event]:
        *lines, last = batch.raw.split(b"\n")
        for number, line in enumerate(lines, start=batch.first):
            yield ordinary_event(line) or exact_event(number, line)
        if last:
            number = batch.first + len(lines)
            value = strictly(last.strip(WHITE))
            if isinstance(value, dict):
                yield exact_event(number, last)
            else:
                self.warnings.append(cut_off(number, value))


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut behind line feeds."""
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


def _all_ordinary(raw: bytes) -> list[Event] | None:
    """The events of these lines, if nothing about them is odd."""
    if may_be_too_much(raw):
        return None
    try:
        events = _decoder.decode_lines(raw)
        again = _encoder.encode_lines(events)
    except _ODD:
        return None
    if not _LOOKED_INTO.isdisjoint(map(type, events)) and not all(map(_keeps_its_table, events)):
        return None
    return events if raw == again or (_is_one_a_line(raw, len(events)) and _keys_once(raw, again)) else None


def ordinary_header(line: bytes) -> Header | None:
    """The header that line 1 holds, if nothing is wrong with it."""
    reader = HistoryReader([Line(number=1, raw=line, ended=True)])
    return None if reader.breaches else reader.header


def ordinary_event(line: bytes) -> Event | None:
    """The event of one line, if nothing about it is odd."""
    if may_be_too_much(line):
        return None
    try:
        event = _decoder.decode(line)
        again = _encoder.encode(event)
    except _ODD:
        return None
    return event if _keeps_its_table(event) and _keys_once(line, again) else None


def exact_event(number: int, line: bytes) -> Event:
    """What `read` makes of line `number`; raises `NotOrdinary` where that is a breach."""
    value = strictly(line.strip(WHITE))
    event = well_formed(value).event if isinstance(value, dict) else None
    if event is None:
        raise NotOrdinary(number)
    return event


def may_be_too_much(raw: bytes) -> bool:
    """Whether a line may be nested too deep, or hold an integer that is too long; from line feed to line feed."""
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
    """Whether each line is one of so many objects: the decoder takes any white space between them, or none.

    A line feed between two braces is never inside an object, nor inside a string.
    """
    framed = raw.startswith(b"{") and raw.endswith(b"}\n")
    return framed and raw.count(b"}\n{") == events - 1 and raw.count(b"\n") == events


def _keys_once(raw: bytes, again: bytes) -> bool:
    """Whether no object of `raw` has a key twice, given what was understood of it, written again.

    The decoder keeps one of two equal keys. So a pair is lost, and with it its colon; and no colon is gained,
    but for one that was written as an escape.
    """
    return raw.count(b":") == again.count(b":") and b"\\u003a" not in raw and b"\\u003A" not in raw


def _keeps_its_table(event: Event) -> bool:
    """What the page asks of some kinds beyond the types of their fields."""
    if isinstance(event, (Snap, Restore)):
        return all(map(_is_element, event.elements))
    if isinstance(event, FaultEvent):
        unread = event.evidence if event.phase == "begin" else event.stalls
        return unread is msgspec.UNSET and (event.phase == "begin" or event.evidence is not msgspec.UNSET)
    return True


def _is_element(element: dict[str, Any]) -> bool:
    match element:
        case {"id": _, "w": _}:
            return False
        case {"id": id_}:
            return type(id_) is int or type(id_) is str
        case {"w": w, "pos": pos}:
            return (type(w) is int or w == "end") and type(pos) is int
    return False
