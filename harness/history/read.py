"""Reads a history, in text or in columns, and reports every breach of the format.

Implements "Files" and "Events" of `docs/reference/history.md`; the rules between events are in `rules`. Lines are
decoded many at a time; duplicate keys and deep nesting, which the decoder does not detect, are found by counting
bytes. Invariant: lines are decoded in bulk only if `well_formed` accepts each of them, as an equal event; all others
are read one by one. Events are yielded only until the first breach; whether the whole history is well-formed is known
when the iteration has ended. Memory: a piece of lines, or the longest line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import MAX_EMAX, Decimal, DecimalException
from functools import cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET

from harness.history.event import Event
from harness.history.event_fields import Claims, claims_of, kinds_of
from harness.history.fields import Field, LineFields, Test
from harness.history.files import pieces_of
from harness.history.header import Header, parse_header, parsed
from harness.history.outside import OUTSIDE, OutsideEvent, OutsideHeader
from harness.history.outside_fields import OutsideFields
from harness.history.outside_rules import OutsideRules, header_of_keys
from harness.history.rules import FormatBreach, Rules
from harness.history.strict_json import DIGITS_MAX, NESTING_MAX, Loose, strictly
from harness.history.text import CutOff, Line, OnRead, given_fields, json_text, lines_of, whole_lines
from harness.history.values import shown
from harness.system.errors import HistoryError
from harness.system.json_types import Json

_WHITE = b" \t\r"
"""JSON's white space, without the line feed."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DEEP = 2 * NESTING_MAX
"""A shorter line cannot be nested too deep: each level takes an opening and a closing byte."""
_ODD = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of the decoder and encoder; `well_formed` decides whether the line is valid."""
_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def open_history(path: Path, progress: OnRead | None = None) -> HistoryReader:
    """A reader of the file at `path`, whose header it has read. Raises UsageError if that is unreadable."""
    return HistoryReader(pieces_of(path, progress))


def open_text(text: bytes) -> HistoryReader:
    """A reader of uncompressed text in memory."""
    return HistoryReader(whole_lines([text]))


def read_whole(path: Path) -> tuple[Header, list[Event]]:
    """The header and all events, for small histories; raises HistoryError that lists every breach."""
    reader = open_history(path)
    events = list(reader.events())
    if reader.header is None or reader.breaches:
        raise _no_history(path, reader)
    return reader.header, events


def read_outside(path: Path) -> tuple[OutsideHeader, list[OutsideEvent]]:
    """The same for a history that is seen from outside."""
    return _outside(path, open_history(path))


def outside_of(
    header: Mapping[str, object], events: Iterable[Mapping[str, object]]
) -> tuple[OutsideHeader, list[OutsideEvent]]:
    """The history seen from outside with these objects as its lines; raises HistoryError that lists every breach."""
    lines = "".join(json_text(dict(line)) + "\n" for line in (header, *events))
    return _outside("the history", open_text(lines.encode()))


def _outside(name: Path | str, reader: HistoryReader) -> tuple[OutsideHeader, list[OutsideEvent]]:
    events = list(reader.outside_events())
    if reader.outside is None or reader.breaches:
        raise _no_history(name, reader)
    return reader.outside, events


def _no_history(name: Path | str, reader: HistoryReader) -> HistoryError:
    seen = "is seen from outside" if reader.is_outside else "is not seen from outside"
    if not reader.breaches:
        return HistoryError(
            f"{name} {seen}, which is not expected here", fix="name a history of the other view"
        )
    listing = "".join(f"\n  line {breach.line}: {breach.say}" for breach in reader.breaches)
    return HistoryError(f"{name} is no well-formed history:{listing}", fix="correct these lines")


_GREATEST = Decimal((0, (1,), MAX_EMAX))
"""Stands for a multiplier whose exponent is beyond those of Decimal."""


def _with_written_multiplier(given: Json, raw: bytes) -> Json:
    """The header with its retry multiplier as a Decimal, if the float differs from the decimal that is written."""
    match given:
        case {"operator": {"retry": {"multiplier": float() as multiplier}}}:
            written = json.loads(raw, parse_float=str, parse_int=str)["operator"]["retry"]["multiplier"]
        case _:
            return given
    try:
        exact = Decimal(written)
    except DecimalException:
        if multiplier < 1:
            return given
        exact = _GREATEST
    if exact == Decimal(str(multiplier)):
        return given
    operator = cast("dict[str, Any]", given["operator"])
    return {**given, "operator": {**operator, "retry": {**operator["retry"], "multiplier": exact}}}


class NeedsExactReader(Exception):
    """Line `line` breaks the format; `HistoryReader.events` reads on, and reports every breach."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} is malformed")
        self.line = line


class HistoryReader:
    """One pass over one history. Mutable: `breaches` and `warnings` grow while its events are iterated.

    A history of the view `outside` has its header in `outside` and its events in `outside_events`; every other one in
    `header` and `events`, or `batches`.
    """

    def __init__(self, pieces: Iterable[bytes | Line]) -> None:
        self.breaches: list[FormatBreach] = []
        self.warnings: list[str] = []
        self.is_outside = False
        """Whether the header, well-formed or not, says that the view is `outside`."""
        self.header: Header | None = None
        self.outside: OutsideHeader | None = None
        self._line = 0
        """The number of the last line that was read."""
        self._pieces = self._until_cut(iter(pieces))
        self._read_header()
        self._claims = claims_of(self.header)
        self._kinds = OutsideFields(self.outside) if self.is_outside else kinds_of(self._claims)
        self._rules = OutsideRules(self.outside) if self.is_outside else Rules(self.header)

    def events(self) -> Iterator[Event]:
        """The events in order, once; stops yielding at the first breach, but reads on to the last line."""
        return self._events(outside=False)

    def outside_events(self) -> Iterator[OutsideEvent]:
        """The same for a history that is seen from outside."""
        return self._events(outside=True)

    def batches(self) -> Iterator[list[Event]]:
        """The events in order, in lists, once; the rules between them are left to the caller.

        Raises `NeedsExactReader` at the first line that breaks the format.
        """
        if self.header is None or self.breaches:
            raise NeedsExactReader(1)
        for piece in self._pieces:
            events = self._decoded(piece)
            if events is None:
                events = [found.event for found in self._one_by_one(piece)]
            else:
                self._line += len(events)
            if self.breaches:
                break
            yield events
        if self.breaches:
            raise NeedsExactReader(self.breaches[0].line)

    def _events(self, *, outside: bool) -> Iterator[Any]:
        """Yields none if the history is of the other view."""
        for piece in self._pieces:
            for found in self._checked(piece):
                for say in self._rules.check(self._line, found):
                    self._breach(say)
                if found.event is not None and self.is_outside == outside and not self.breaches:
                    yield found.event
        self.breaches.extend(self._rules.at_end())
        # The rules are done, and their memory grows with the ids.
        self._rules = Rules(None)
        self.breaches.sort(key=lambda breach: breach.line)

    def _until_cut(self, pieces: Iterator[bytes | Line]) -> Iterator[bytes | Line]:
        try:
            yield from pieces
        except CutOff as cut:
            self._line += 1
            self._breach(str(cut))

    def _breach(self, say: str) -> None:
        self.breaches.append(FormatBreach(line=self._line, say=say))

    def _read_header(self) -> None:
        piece = next(self._pieces, None)
        if piece is None and self.breaches:
            return
        self._line = 1
        if piece is None:
            self._breach("the file is empty; its first line must be the header")
            return
        raw, _, rest = piece.partition(b"\n") if isinstance(piece, bytes) else (piece.raw, b"", b"")
        if rest:
            self._pieces = chain([rest], self._pieces)
        if raw.startswith(_BYTE_ORDER_MARK):
            self._breach("the file begins with a byte-order mark; write UTF-8 without one")
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        given = self._understood(raw, strictly(raw.strip(_WHITE)))
        if given is None:
            return
        self.is_outside = given.get("view") == OUTSIDE
        found: Header | OutsideHeader | list[str]
        if self.is_outside:
            found = parsed(OutsideHeader, given, header_of_keys)
        else:
            found = parse_header(given if self.breaches else _with_written_multiplier(given, raw))
        match found:
            case Header():
                self.header = found
            case OutsideHeader():
                self.outside = found
            case complaints:
                for complaint in complaints:
                    self._breach(complaint)

    def _decoded(self, piece: bytes | Line) -> list[Event] | None:
        return None if self.is_outside or isinstance(piece, Line) else decoded(piece, self._claims)

    def _checked(self, piece: bytes | Line) -> Iterator[LineFields]:
        """The fields of each line that holds an object."""
        events = self._decoded(piece)
        if events is None:
            yield from self._one_by_one(piece)
            return
        for event in events:
            self._line += 1
            yield LineFields(kind=str(event.__struct_config__.tag), good=given_fields(event), event=event)

    def _one_by_one(self, piece: bytes | Line) -> Iterator[LineFields]:
        """The fields of each line that holds an object; reports the breaches of lines by themselves."""
        for line in lines_of(piece):
            self._line += 1
            raw = line.raw.strip(_WHITE)
            value = Loose(say=line.odd) if line.odd else strictly(raw)
            if not line.ended and not isinstance(value, dict):
                said = value.say if isinstance(value, Loose) else "no JSON object"
                self.warnings.append(
                    f"line {self._line}, the last one, is cut off in the middle and was dropped ({said})"
                )
            elif (given := self._understood(raw, value)) is not None:
                found = self._kinds.check(given)
                for complaint in found.complaints:
                    self._breach(complaint)
                yield found
            elif raw:
                self._rules.unread()

    def _understood(self, raw: bytes, value: object) -> Json | None:
        """The object of a line; otherwise report a breach and return the object of a lenient parser, if any."""
        if isinstance(value, Loose):
            self._breach(value.say if raw.strip(_WHITE) else "the line is blank")
            value = value.value
        elif not isinstance(value, dict):
            self._breach(f"the line is {shown(value)}, but must be a JSON object")
        return value if isinstance(value, dict) else None


def decoded(raw: bytes, claims: Claims) -> list[Event] | None:
    """The events of these whole lines; None if one of them has to be read by itself."""
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n")
    if _may_be_too_much(raw):
        return None
    try:
        events = _decoder.decode_lines(raw)
        again = _encoder.encode_lines(events)
    except _ODD:
        return None
    tests = _tests_of(claims)
    # A list, because a generator costs a tenth of the reading.
    if not all([tests[type(event)](event) for event in events if type(event) in tests]):  # noqa: C419
        return None
    return events if raw == again or (_is_one_a_line(raw, len(events)) and _keys_once(raw, again)) else None


@cache
def _tests_of(claims: Claims) -> Mapping[type, Test]:
    """What the decoder does not check, for each kind that has such rules."""
    kinds = kinds_of(claims)
    found = {make: _test_of(make, kinds.fields[k], kinds.ended.get(k)) for k, make in kinds.make.items()}
    return {make: test for make, test in found.items() if test is not None}


def _test_of(
    make: type[msgspec.Struct], fields: Mapping[str, Field], ended: Mapping[str, Field] | None = None
) -> Test | None:
    """Unknown fields are absent, needed ones are there, tests hold; None if the types of the fields say all."""
    if ended is not None:
        of_begin, of_end = _test_of(make, fields), _test_of(make, ended)
        assert of_begin is not None
        assert of_end is not None
        return lambda event: (of_end if event.phase == "end" else of_begin)(event)
    known = {field.attribute for field in fields.values()}
    unknown = [name for name in make.__struct_fields__ if name not in known]
    values = attrgetter(*unknown) if unknown else None
    absent = UNSET if len(unknown) == 1 else (UNSET,) * len(unknown)
    beyond = [
        (attrgetter(field.attribute), field.extra.get("holds", lambda value: value is not UNSET))
        for field in fields.values()
        if not field.extra.keys().isdisjoint({"holds", "required"})
    ]
    if values is None and not beyond:
        return None
    return lambda event: (
        (values is None or values(event) == absent)
        and (not beyond or all(holds(value(event)) for value, holds in beyond))
    )


def _may_be_too_much(raw: bytes) -> bool:
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
    if raw.count(b":") != again.count(b":"):
        return False
    return b"\\" not in raw or (b"\\u003a" not in raw and b"\\u003A" not in raw)
