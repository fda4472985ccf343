"""A line of the conversation: how one is read, and how one is written.

Invariant: whatever the bytes are, reading them ends in an object or in a refusal, in time and memory that are
linear in the line, and no line is kept longer than it is answered.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from harness.history.strict_json import Loose, strictly
from harness.sut.serve.config import Code, Refusal

__all__ = ["CHUNK", "LINE_MAX", "Lines", "object_of", "written"]

LINE_MAX = 32 * 1024 * 1024
"""Bytes of a line that are read; the rest of a longer one is passed over."""
CHUNK = 64 * 1024
"""Bytes that are read at once."""


class Lines:
    """Lines from a file descriptor. Mutable. Before it would wait, it calls `before_wait`: flush your answers."""

    def __init__(self, descriptor: int, *, before_wait: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._before_wait = before_wait
        self._ready: list[bytes] = []
        """The lines that have come whole, the next one last."""
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def read(self) -> bytes:
        """The next line with its end, the last one perhaps without; nothing at the end of the input."""
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
        """Of a line without end no more than the limit: what is read of it then is no JSON."""
        if part and self._rest_bytes <= LINE_MAX:
            self._rest.append(part)
            self._rest_bytes += len(part)


def object_of(line: bytes) -> dict[str, Any]:
    """The object that a line is."""
    if len(line) > LINE_MAX:
        raise Refusal(Code.NOT_JSON, f"the line is longer than {LINE_MAX} bytes")
    value = strictly(line.strip(), any_length=False)
    if isinstance(value, Loose):
        raise Refusal(Code.NOT_JSON, value.say)
    if not isinstance(value, dict):
        raise Refusal(Code.NOT_JSON, f"the line is JSON, but a {type(value).__name__} and no object")
    if _MAY_BE_INFINITE(line) and any(_infinities(value)):
        raise Refusal(Code.BAD_ARGUMENT, "a number is too large for 64-bit floating point")
    return value


def _infinities(value: Any) -> Iterable[bool]:
    if isinstance(value, float):
        yield value in {float("inf"), float("-inf")}
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _infinities(inner)


_MAY_BE_INFINITE = re.compile(rb"[0-9][eE]|[0-9]{308}").search


def written(event: dict[str, Any]) -> bytes:
    """The line of an event."""
    try:
        return _encode(event) + b"\n"
    except (
        OverflowError,
        UnicodeEncodeError,
    ):  # an integer beyond 64 bits (some releases), half a surrogate pair
        return _encode_anything(event).encode() + b"\n"


_encode = msgspec.json.Encoder().encode
_encode_anything = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
