"""A summary of an event: the few fields that most explanations need, read without the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

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
        return _summary_of(whole(line))


def _summary_of(event: Json | None) -> EventSummary | None:
    """A summary of what msgspec refuses and the format allows: long integers, unpaired surrogates."""
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
