"""Value types of scenario files: durations and rates with a unit, names, whole numbers.

Invariant: a quantity without its unit is refused; values are read as integers and written back in the same form.
"""

from __future__ import annotations

import re
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


def _per_second(text: object) -> object:
    """`400/s` as the integer 400."""
    if not isinstance(text, str) or re.fullmatch(_RATE, text, re.ASCII) is None:
        raise _refused("a rate", text, "a whole number of records a second: 400/s")
    return int(text.removesuffix("/s"))


def _signed_milliseconds(text: object) -> object:
    """`-90s` as -90000: a duration with an optional minus."""
    if not isinstance(text, str) or re.fullmatch(_SHIFT, text, re.ASCII) is None:
        raise _refused("a shift", text, "a duration, with a minus for backwards: 60m or -60m")
    size = _milliseconds(text.removeprefix("-"))
    assert isinstance(size, int), "the pattern lets only durations through"
    return -size if text.startswith("-") else size


def _kilobytes_per_second(text: object) -> object:
    """`64kB/s` as the integer 64."""
    if not isinstance(text, str) or re.fullmatch(_BANDWIDTH, text, re.ASCII) is None:
        raise _refused("a bandwidth", text, "a whole number of kilobytes a second: 64kB/s")
    return int(text.removesuffix("kB/s"))


def _percent(text: object) -> object:
    """`30%` as the integer 30."""
    if not isinstance(text, str) or re.fullmatch(_PERCENT, text, re.ASCII) is None:
        raise _refused("a share", text, "a whole number from 0% to 100%")
    return int(text.removesuffix("%"))


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


def _rate_text(rate: int) -> str:
    return f"{rate}/s"


def _shift_text(ms: int) -> str:
    return f"-{duration_text(-ms)}" if ms < 0 else duration_text(ms)


def _bandwidth_text(rate: int) -> str:
    return f"{rate}kB/s"


def _percent_text(share: int) -> str:
    return f"{share}%"


def _schema(pattern: str, *examples: str) -> WithJsonSchema:
    described: dict[str, Any] = {"type": "string", "pattern": pattern, "examples": list(examples)}
    return WithJsonSchema(described)


Duration = Annotated[
    int,
    BeforeValidator(_milliseconds),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    _schema(_DURATION, "250ms", "2s", "1m"),
]
"""Milliseconds, written with a unit."""

Span = Annotated[Duration, Field(gt=0)]
"""A duration greater than 0."""

Rate = Annotated[
    int,
    BeforeValidator(_per_second),
    PlainSerializer(_rate_text, return_type=str, when_used="json"),
    _schema(_RATE, "400/s"),
]
"""Records a second, written `400/s`."""

Shift = Annotated[
    int,
    BeforeValidator(_signed_milliseconds),
    PlainSerializer(_shift_text, return_type=str, when_used="json"),
    _schema(_SHIFT, "60m", "-90s"),
]
"""Milliseconds; negative: backwards."""

Bandwidth = Annotated[
    int,
    BeforeValidator(_kilobytes_per_second),
    PlainSerializer(_bandwidth_text, return_type=str, when_used="json"),
    _schema(_BANDWIDTH, "64kB/s"),
]
"""Kilobytes a second, written `64kB/s`."""

Percent = Annotated[
    int,
    BeforeValidator(_percent),
    PlainSerializer(_percent_text, return_type=str, when_used="json"),
    _schema(_PERCENT, "30%"),
]
"""An integer percentage, written `30%`."""

Whole = Annotated[int, Field(strict=True)]
"""A whole number; a text, a boolean or a float such as 1.0 is refused."""

Name = Annotated[str, Field(pattern=_NAME)]
"""Lower-case letters, digits and dashes, so that it can name a file and a test."""
