"""Reads a history, in text or in columns, event by event, and reports every breach of the format.

Implements "Files" of `docs/reference/history.md`; the rules between events are in `rules`. Events are yielded only
until the first breach; whether the whole history is well-formed is known when the iteration has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import MAX_EMAX, Decimal, DecimalException
from pathlib import Path
from typing import Any, cast

from harness.errors import HistoryError
from harness.history.event import Event
from harness.history.event_fields import claims_of, well_formed
from harness.history.files import read_lines
from harness.history.header import Header, parse_header
from harness.history.rules import FormatBreach, Rules
from harness.history.strict_json import Loose, strictly
from harness.history.text import CutOff, Line, numbered
from harness.history.values import shown

__all__ = ["WHITE", "HistoryReader", "cut_off", "open_history", "open_text", "read_whole"]

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
        listing = "".join(f"\n  line {breach.line}: {breach.say}" for breach in reader.breaches)
        raise HistoryError(f"{path} is no well-formed history:{listing}", fix="correct these lines")
    return reader.header, events


def cut_off(number: int, value: Any) -> str:
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
    """One pass over one history. Mutable: `breaches` and `warnings` grow while `events` is iterated."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.breaches: list[FormatBreach] = []
        self.warnings: list[str] = []
        self._lines = self._until_cut(iter(lines))
        self.header = self._header()
        self._rules = Rules(self.header)
        self._claims = claims_of(self.header)

    def events(self) -> Iterator[Event]:
        """The events in order, once; stops yielding at the first breach, but reads on to the last line."""
        for line in self._lines:
            event = self._event(line)
            if event is not None and not self.breaches:
                yield event
        self.breaches.extend(self._rules.at_end())
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

    def _header(self) -> Header | None:
        line = next(self._lines, None)
        if line is None:
            if not self.breaches:
                self._breach(1, "the file is empty; its first line must be the header")
            return None
        raw = line.raw
        if raw.startswith(_BYTE_ORDER_MARK):
            self._breach(1, "the file begins with a byte-order mark; write UTF-8 without one")
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        given = self._object(1, raw)
        if given is None:
            return None
        parsed = parse_header(given if self.breaches else _with_written_multiplier(given, raw))
        if isinstance(parsed, Header):
            return parsed
        for complaint in parsed:
            self._breach(1, complaint)
        return None

    def _event(self, line: Line) -> Event | None:
        value = Loose(say=line.odd) if line.odd else strictly(line.raw.strip(WHITE))
        if not line.ended and not isinstance(value, dict):
            self.warnings.append(cut_off(line.number, value))
            return None
        given = self._understood(line.number, line.raw, value)
        if given is None:
            if line.raw.strip(WHITE):
                self._rules.unread()
            return None
        fields = well_formed(given, self._claims)
        for complaint in fields.complaints:
            self._breach(line.number, complaint)
        for breach in self._rules.check(line.number, fields.kind, fields.good):
            self._breach(line.number, breach)
        return fields.event

    def _object(self, number: int, raw: bytes) -> dict[str, Any] | None:
        return self._understood(number, raw, strictly(raw.strip(WHITE)))

    def _understood(self, number: int, raw: bytes, value: Any) -> dict[str, Any] | None:
        """The object of a line; otherwise report a breach and return the object of a lenient parser, if any."""
        if isinstance(value, Loose):
            blank = not raw.strip(WHITE)
            self._breach(number, "the line is blank" if blank else value.say)
            value = value.value
        elif not isinstance(value, dict):
            self._breach(number, f"the line is {shown(value)}, but must be a JSON object")
        return value if isinstance(value, dict) else None
