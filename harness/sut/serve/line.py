"""Reads and writes the lines of a conversation, and the elements of a snapshot in them.

Invariant: any bytes are read as an object or refused, with time and memory linear in the length of the line.

Invariant: `elements_of` reads what `shown` wrote as equal elements and refuses anything else. The state is opaque to
the harness.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from harness.history.strict_json import Loose, strictly
from harness.sut.serve.config import (
    Code,
    CommandFields,
    CommandRefused,
    a_bool,
    a_list,
    a_whole,
    a_whole_or_null,
    anything,
)
from harness.system.json_types import Json
from reference_impl.elements import QueueElement, Record, Watermark, WatermarkStatus


def shown(elements: Iterable[QueueElement]) -> list[Json]:
    """The JSON form of each element."""
    return [_shown(element) for element in elements]


def _shown(element: QueueElement) -> Json:
    match element:
        case Record():
            return {"value": element.value, "ts": element.timestamp}
        case Watermark():
            return {"watermark": element.timestamp}
        case WatermarkStatus():
            return {"idle": element.idle}


def elements_of(state: object) -> Sequence[QueueElement]:
    """The elements of a state; none for null."""
    if state is None:
        return ()
    if not isinstance(state, dict):
        raise CommandRefused(
            Code.BAD_ARGUMENT, "restore must be a state that a snapshot of this program gave, or null"
        )
    fields = CommandFields("restore", state)
    elements = fields.take("elements", a_list)
    fields.end()
    return [_element(element) for element in elements]


def _element(raw: object) -> QueueElement:
    fields = CommandFields("restore: an element", raw if isinstance(raw, dict) else {})
    element: QueueElement
    if isinstance(raw, dict) and "watermark" in raw:
        element = Watermark(timestamp=fields.take("watermark", a_whole()))
    elif isinstance(raw, dict) and "idle" in raw:
        element = WatermarkStatus(idle=fields.take("idle", a_bool))
    else:
        value = fields.take("value", anything)
        element = Record(value=value, timestamp=fields.take("ts", a_whole_or_null))
    fields.end()
    return element


LINE_MAX = 32 * 1024 * 1024
"""The longest line in bytes; the rest of a longer one is skipped."""
CHUNK = 64 * 1024
"""Bytes per read."""


class Lines:
    """Lines from a file descriptor; calls `before_wait` before it blocks, to flush the answers. Mutable."""

    def __init__(self, descriptor: int, *, before_wait: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._before_wait = before_wait
        self._ready: list[bytes] = []
        """Complete lines, the next one last."""
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def read(self) -> bytes:
        """The next line with its line end (the last one may lack it); empty at the end of the input."""
        while not self._ready:
            self._before_wait()
            chunk = os.read(self._descriptor, CHUNK)
            if not chunk:
                last, self._rest = b"".join(self._rest), []
                return last
            self._take(chunk)
        return self._ready.pop()

    def _take(self, chunk: bytes) -> None:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._keep(chunk)
            return
        self._keep(lines[0])
        whole = [b"".join(self._rest), *lines[1:-1]]
        self._rest, self._rest_bytes = [], 0
        self._keep(lines[-1])
        self._ready = [line + b"\n" for line in reversed(whole)]

    def _keep(self, part: bytes) -> None:
        """Keeps a part of an incomplete line, up to the limit."""
        if part and self._rest_bytes <= LINE_MAX:
            self._rest.append(part)
            self._rest_bytes += len(part)


def object_of(line: bytes) -> Json:
    """The JSON object in a line; raises a `CommandRefused`."""
    if len(line) > LINE_MAX:
        raise CommandRefused(Code.NOT_JSON, f"the line is longer than {LINE_MAX} bytes")
    value = strictly(line.strip(), any_length=False)
    if isinstance(value, Loose):
        raise CommandRefused(Code.NOT_JSON, value.say)
    if not isinstance(value, dict):
        raise CommandRefused(Code.NOT_JSON, f"the line is JSON, but a {type(value).__name__} and no object")
    if _MAY_BE_INFINITE(line) and any(_infinities(value)):
        raise CommandRefused(Code.BAD_ARGUMENT, "a number is too large for 64-bit floating point")
    return value


def _infinities(value: object) -> Iterable[bool]:
    if isinstance(value, float):
        yield value in {float("inf"), float("-inf")}
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _infinities(inner)


_MAY_BE_INFINITE = re.compile(rb"[0-9][eE]|[0-9]{308}").search


def written(event: Json) -> bytes:
    """An event as a line."""
    try:
        return _encode(event) + b"\n"
    except (
        OverflowError,
        UnicodeEncodeError,
    ):  # an integer beyond 64 bits (some releases), half a surrogate pair
        return _encode_anything(event).encode() + b"\n"


_encode = msgspec.json.Encoder().encode
_encode_anything = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
