"""Reads a history, in text or in columns, event by event, and reports every breach of the format.

Implements "Files" of `docs/reference/history.md`; the rules between events are in `rules`. Events are yielded only
until the first breach; whether the whole history is well-formed is known when the iteration has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import MAX_EMAX, Decimal, DecimalException
from pathlib import Path
from typing import Any, cast

from harness.history.event import Event
from harness.history.event_fields import claims_of, well_formed
from harness.history.files import read_lines
from harness.history.header import Header, parse_header
from harness.history.outside import OUTSIDE, OutsideEvent, OutsideHeader, parse_outside_header
from harness.history.outside_fields import OutsideFields
from harness.history.outside_rules import OutsideRules
from harness.history.rules import FormatBreach, Rules
from harness.history.strict_json import Loose, strictly
from harness.history.text import CutOff, Line, json_text, numbered
from harness.history.values import shown
from harness.system.errors import HistoryError

WHITE = b" \t\r"
"""JSON's white space, without the line feed."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def open_history(path: Path) -> HistoryReader:
    """A reader of the file at `path`, whose header it has read. Raises UsageError if that is unreadable."""
    return HistoryReader(read_lines(path))


def open_text(text: bytes) -> HistoryReader:
    """A reader of uncompressed text in memory."""
    return HistoryReader(numbered([text]))


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


def cut_off(number: int, value: object) -> str:
    """The warning about a last line that has no line feed and is not a JSON object."""
    said = value.say if isinstance(value, Loose) else "no JSON object"
    return f"line {number}, the last one, is cut off in the middle and was dropped ({said})"


_GREATEST = Decimal((0, (1,), MAX_EMAX))
"""Stands for a multiplier whose exponent is beyond those of Decimal."""


def _with_written_multiplier(given: dict[str, Any], raw: bytes) -> dict[str, Any]:
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


class HistoryReader:
    """One pass over one history. Mutable: `breaches` and `warnings` grow while its events are iterated.

    A history of the view `outside` has its header in `outside` and its events in `outside_events`; every other one in
    `header` and `events`.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.breaches: list[FormatBreach] = []
        self.warnings: list[str] = []
        self.is_outside = False
        """Whether the header, well-formed or not, says that the view is `outside`."""
        self.header: Header | None = None
        self.outside: OutsideHeader | None = None
        self._lines = self._until_cut(iter(lines))
        self._read_header()
        self._form = _OutsideForm(self.outside) if self.is_outside else _InsideForm(self.header)

    def events(self) -> Iterator[Event]:
        """The events in order, once; stops yielding at the first breach, but reads on to the last line."""
        return self._events(_InsideForm)

    def outside_events(self) -> Iterator[OutsideEvent]:
        """The same for a history that is seen from outside."""
        return self._events(_OutsideForm)

    def _events(self, form: type[_InsideForm | _OutsideForm]) -> Iterator[Any]:
        """Yields none if the history is of the other view."""
        wanted = isinstance(self._form, form)
        for line in self._lines:
            event = self._event(line)
            if event is not None and wanted and not self.breaches:
                yield event
        self.breaches.extend(self._form.at_end())
        # The rules are done, and their memory grows with the ids.
        self._form = _InsideForm(None)
        self.breaches.sort(key=lambda breach: breach.line)

    def _until_cut(self, lines: Iterator[Line]) -> Iterator[Line]:
        number = 0
        try:
            for line in lines:
                number = line.number
                yield line
        except CutOff as cut:
            self._breach(number + 1, str(cut))

    def _breach(self, line: int, say: str) -> None:
        self.breaches.append(FormatBreach(line=line, say=say))

    def _read_header(self) -> None:
        line = next(self._lines, None)
        if line is None:
            if not self.breaches:
                self._breach(1, "the file is empty; its first line must be the header")
            return
        raw = line.raw
        if raw.startswith(_BYTE_ORDER_MARK):
            self._breach(1, "the file begins with a byte-order mark; write UTF-8 without one")
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        given = self._understood(1, raw, strictly(raw.strip(WHITE)))
        if given is None:
            return
        self.is_outside = given.get("view") == OUTSIDE
        parsed: Header | OutsideHeader | list[str]
        if self.is_outside:
            parsed = parse_outside_header(given)
        else:
            parsed = parse_header(given if self.breaches else _with_written_multiplier(given, raw))
        match parsed:
            case Header():
                self.header = parsed
            case OutsideHeader():
                self.outside = parsed
            case complaints:
                for complaint in complaints:
                    self._breach(1, complaint)

    def _event(self, line: Line) -> Event | OutsideEvent | None:
        value = Loose(say=line.odd) if line.odd else strictly(line.raw.strip(WHITE))
        if not line.ended and not isinstance(value, dict):
            self.warnings.append(cut_off(line.number, value))
            return None
        given = self._understood(line.number, line.raw, value)
        if given is None:
            if line.raw.strip(WHITE):
                self._form.unread()
            return None
        event, complaints = self._form.check(line.number, given)
        for complaint in complaints:
            self._breach(line.number, complaint)
        return event

    def _understood(self, number: int, raw: bytes, value: object) -> dict[str, Any] | None:
        """The object of a line; otherwise report a breach and return the object of a lenient parser, if any."""
        if isinstance(value, Loose):
            blank = not raw.strip(WHITE)
            self._breach(number, "the line is blank" if blank else value.say)
            value = value.value
        elif not isinstance(value, dict):
            self._breach(number, f"the line is {shown(value)}, but must be a JSON object")
        return value if isinstance(value, dict) else None


class _InsideForm:
    """Checks the events of an operator's history. Mutable: the state of the rules between them."""

    def __init__(self, header: Header | None) -> None:
        self._rules = Rules(header)
        self._claims = claims_of(header)
        self.unread = self._rules.unread
        self.at_end = self._rules.at_end

    def check(self, line: int, given: Mapping[str, object]) -> tuple[Event | None, list[str]]:
        """The event of a line, and what is wrong with it."""
        fields = well_formed(given, self._claims)
        said = [*fields.complaints, *self._rules.check(line, fields.kind, fields.good)]
        return fields.event, said


class _OutsideForm:
    """Checks the events of a history seen from outside. Mutable: the state of the rules between them."""

    def __init__(self, header: OutsideHeader | None) -> None:
        self._rules = OutsideRules(header)
        self._fields = OutsideFields(header)
        self.unread = self._rules.unread

    def check(self, line: int, given: Mapping[str, object]) -> tuple[OutsideEvent | None, list[str]]:
        """The event of a line, and what is wrong with it."""
        fields = self._fields.check(given)
        whole = fields.event is not None
        said = [*fields.complaints, *self._rules.check(line, fields.kind, fields.good, whole=whole)]
        return fields.event, said

    def at_end(self) -> Iterable[FormatBreach]:
        """The breaches that need the whole history: there are none."""
        return ()
