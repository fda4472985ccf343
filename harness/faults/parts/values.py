"""Value types of scenario files: durations and rates with a unit, names, whole numbers.

Invariant: a quantity without its unit is refused; values are read as integers and written back in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

_UNITS_MS = {"m": 60_000, "s": 1000, "ms": 1}
_DURATION = r"^[0-9]{1,9}(ms|s|m)$"
_RATE = r"^[1-9][0-9]{0,5}/s$"
_SHIFT = r"^-?[0-9]{1,9}(ms|s|m)$"
_BANDWIDTH = r"^[1-9][0-9]{0,6}kB/s$"
_PERCENT = r"^(100|[0-9]{1,2})%$"
_NAME = r"^[a-z][a-z0-9-]*$"


def _refused(kind: str, text: object, example: str) -> PydanticCustomError:
    context = {"say": f"{text!r} is not {kind}", "hint": f"write {example}"}
    return PydanticCustomError("written", "{say}", context)


def _milliseconds(text: object) -> object:
    """`250ms`, `2s`, `1m` as integer milliseconds; a number without a unit is refused."""
    if not isinstance(text, str) or not is_duration(text):
        raise _refused("a duration", text, "a whole number with its unit: 250ms, 2s or 1m")
    return duration_ms(text)


def _reads(pattern: str, unit: str, kind: str, example: str) -> BeforeValidator:
    """A whole number with a fixed unit, as an integer: `400/s`, `64kB/s`, `30%`."""

    def read(text: object) -> object:
        if not isinstance(text, str) or re.fullmatch(pattern, text, re.ASCII) is None:
            raise _refused(kind, text, example)
        return int(text.removesuffix(unit))

    return BeforeValidator(read)


def _writes(text: Callable[[int], str]) -> PlainSerializer:
    return PlainSerializer(text, return_type=str, when_used="json")


def _signed_milliseconds(text: object) -> object:
    """`-90s` as -90000: a duration with an optional minus."""
    if not isinstance(text, str) or re.fullmatch(_SHIFT, text, re.ASCII) is None:
        raise _refused("a shift", text, "a duration, with a minus for backwards: 60m or -60m")
    size = _milliseconds(text.removeprefix("-"))
    assert isinstance(size, int), "the pattern lets only durations through"
    return -size if text.startswith("-") else size


def is_duration(text: str) -> bool:
    """Whether it is written as a duration: `250ms`, `2s`, `1m`."""
    return re.fullmatch(_DURATION, text, re.ASCII) is not None


def duration_ms(text: str) -> int:
    """The milliseconds of what `is_duration`."""
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * _UNITS_MS[unit]


def duration_text(ms: int) -> str:
    """The shortest text for a duration: 2000 is `2s`."""
    unit = next(unit for unit, size in _UNITS_MS.items() if ms % size == 0 and (ms or unit == "ms"))
    return f"{ms // _UNITS_MS[unit]}{unit}"


def _schema(pattern: str, *examples: str) -> WithJsonSchema:
    described: dict[str, Any] = {"type": "string", "pattern": pattern, "examples": list(examples)}
    return WithJsonSchema(described)


Duration = Annotated[
    int,
    BeforeValidator(_milliseconds),
    _writes(duration_text),
    _schema(_DURATION, "250ms", "2s", "1m"),
]
"""Milliseconds, written with a unit."""

Span = Annotated[Duration, Field(gt=0)]
"""A duration greater than 0."""

Rate = Annotated[
    int,
    _reads(_RATE, "/s", "a rate", "a whole number of records a second: 400/s"),
    _writes(lambda rate: f"{rate}/s"),
    _schema(_RATE, "400/s"),
]
"""Records a second, written `400/s`."""

Shift = Annotated[
    int,
    BeforeValidator(_signed_milliseconds),
    _writes(lambda ms: f"-{duration_text(-ms)}" if ms < 0 else duration_text(ms)),
    _schema(_SHIFT, "60m", "-90s"),
]
"""Milliseconds; negative: backwards."""

Bandwidth = Annotated[
    int,
    _reads(_BANDWIDTH, "kB/s", "a bandwidth", "a whole number of kilobytes a second: 64kB/s"),
    _writes(lambda rate: f"{rate}kB/s"),
    _schema(_BANDWIDTH, "64kB/s"),
]
"""Kilobytes a second, written `64kB/s`."""

Percent = Annotated[
    int,
    _reads(_PERCENT, "%", "a share", "a whole number from 0% to 100%"),
    _writes(lambda share: f"{share}%"),
    _schema(_PERCENT, "30%"),
]
"""An integer percentage, written `30%`."""

Whole = Annotated[int, Field(strict=True)]
"""A whole number; a text, a boolean or a float such as 1.0 is refused."""

Name = Annotated[str, Field(pattern=_NAME)]
"""Lower-case letters, digits and dashes, so that it can name a file and a test."""
