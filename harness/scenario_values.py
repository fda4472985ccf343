"""The written values of a scenario file: durations and rates with their unit, names, whole numbers.

They answer to nothing in Flink, whose configuration leaves units to the reader. Invariant: a number whose
unit could be mistaken is refused without it; what is read is an integer, and is written back the same.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

__all__ = ["Duration", "Name", "Rate", "Span", "Whole", "duration_text"]

_UNITS_MS = {"m": 60_000, "s": 1000, "ms": 1}
_DURATION = r"^[0-9]{1,9}(ms|s|m)$"
_RATE = r"^[1-9][0-9]{0,5}/s$"
_NAME = r"^[a-z][a-z0-9-]*$"


def _refused(kind: str, text: object, example: str) -> PydanticCustomError:
    context = {"say": f"{text!r} is not {kind}", "hint": f"write {example}"}
    return PydanticCustomError("written", "{say}", context)


def _milliseconds(text: object) -> object:
    """`250ms`, `2s`, `1m` as integer milliseconds; a bare number is refused, for it hides its unit."""
    if not isinstance(text, str) or re.fullmatch(_DURATION, text, re.ASCII) is None:
        raise _refused("a duration", text, "a whole number with its unit: 250ms, 2s or 1m")
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * _UNITS_MS[unit]


def _per_second(text: object) -> object:
    """`400/s` as the integer 400."""
    if not isinstance(text, str) or re.fullmatch(_RATE, text, re.ASCII) is None:
        raise _refused("a rate", text, "a whole number of records a second: 400/s")
    return int(text.removesuffix("/s"))


def duration_text(ms: int) -> str:
    """The shortest form that reads as the same duration: 2000 is `2s`."""
    unit = next(unit for unit, size in _UNITS_MS.items() if ms % size == 0 and (ms or unit == "ms"))
    return f"{ms // _UNITS_MS[unit]}{unit}"


def _rate_text(rate: int) -> str:
    return f"{rate}/s"


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
"""A duration that is not nothing."""

Rate = Annotated[
    int,
    BeforeValidator(_per_second),
    PlainSerializer(_rate_text, return_type=str, when_used="json"),
    _schema(_RATE, "400/s"),
]
"""Records a second, written `400/s`."""

Whole = Annotated[int, Field(strict=True)]
"""A whole number; neither a text that looks like one nor a truth value nor 1.0."""

Name = Annotated[str, Field(pattern=_NAME)]
"""Lower case, digits and dashes: fit for a file, a test's name and the command line."""
