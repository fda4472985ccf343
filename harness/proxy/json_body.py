"""JSON as Go's `encoding/json` reads and writes it, because Toxiproxy's clients were written against Go.

Keys match in any case, `null` leaves a field unset, bytes after the first value are ignored, and an error has
Go's text. Invariant: whatever the bytes, reading ends in a value or in a `Refusal`.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.proxy.refusal import Refusal, bad_body

__all__ = [
    "INTEGER",
    "REAL",
    "STRING",
    "TRUTH",
    "Field",
    "as_single",
    "json_text",
    "read_fields",
    "read_json",
    "single",
    "title_of",
]

BLANK = " \t\r\n"
NEEDS_VALUE = "Expecting value"
INT64_LOW, INT64_HIGH = -(2**63), 2**63 - 1

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_GO_TEXTS = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
    NEEDS_VALUE: "looking for beginning of value",
}
"""Python's error text -> Go's text about the character at the same place."""


class _Number(str):
    """A number as it was written; the field that takes it decides which type it has."""

    __slots__ = ()


class _NoConstant(Exception):
    """`NaN`, `Infinity` or `-Infinity`, which Python accepts and Go does not."""


def read_json(body: bytes) -> Any:
    """The first value of the body. An object is a tuple of (key, value) pairs in the written order."""
    text = body.decode(errors="replace")
    start = len(text) - len(text.lstrip(BLANK))
    if start == len(text):
        raise bad_body("EOF")
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise bad_body(_go_text(text, error)) from None
    except _NoConstant as constant:
        raise bad_body(f"invalid character {str(constant)[0]!r} looking for beginning of value") from None
    except RecursionError:
        raise bad_body("exceeded max depth") from None
    return value


def _refuse_constant(name: str) -> None:
    raise _NoConstant(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant
)


def _go_text(text: str, error: json.JSONDecodeError) -> str:
    """Go's text for the error."""
    at = error.pos
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 points at the comma
        at += 1
        at += len(text[at:]) - len(text[at:].lstrip(BLANK))
    if error.msg == "Invalid \\escape" or error.msg.startswith("Invalid \\uXXXX"):
        at += 1
    if at >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    if error.msg == "Expecting ',' delimiter":
        return _missing_comma(text, at)
    if error.msg == NEEDS_VALUE and text[at] in "tfn-":
        return _bad_literal(text, at)
    return (
        f"invalid character {_quoted(text[at])} {_GO_TEXTS.get(error.msg, 'looking for beginning of value')}"
    )


def _missing_comma(text: str, at: int) -> str:
    """A comma is missing; Go's text depends on whether an object or an array is open at `at`."""
    if re.search(r"\d\.$", text[: at + 1]) and text[at] == ".":
        following = text[at + 1 : at + 2]
        return f"invalid character {_quoted(following)} after decimal point in numeric literal"
    open_brackets: list[str] = []
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text[:at]):
        if bracket in "[{":
            open_brackets.append(bracket)
        elif bracket in "]}" and open_brackets:
            open_brackets.pop()
    where = "array element" if open_brackets and open_brackets[-1] == "[" else "object key:value pair"
    return f"invalid character {_quoted(text[at])} after {where}"


def _bad_literal(text: str, at: int) -> str:
    """A word that begins like `true`, `false` or `null`, or a minus sign without a digit."""
    if text[at] == "-":
        following = text[at + 1 : at + 2]
        return f"invalid character {_quoted(following)} in numeric literal" if following else "unexpected EOF"
    literal = {"t": "true", "f": "false", "n": "null"}[text[at]]
    for step, expected in enumerate(literal):
        found = text[at + step : at + step + 1]
        if not found:
            return "unexpected EOF"
        if found != expected:
            return f"invalid character {_quoted(found)} in literal {literal} (expecting '{expected}')"
    return "unexpected EOF"


def _quoted(character: str) -> str:
    """The character as Go quotes it in an error."""
    if character == "'":
        return "'\\''"
    if character == '"':
        return "'\"'"
    return f"'{character}'" if character.isprintable() else f"'\\x{ord(character):02x}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoType:
    """A Go type: its name in errors, and `take`, which converts a JSON value (None: the value has another type)."""

    title: str
    take: Callable[[Any], Any]


def _string(value: Any) -> str | None:
    if isinstance(value, str) and not isinstance(value, _Number):
        return _LONE_SURROGATE.sub("\ufffd", value)
    return None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    if not isinstance(value, _Number) or not re.fullmatch(r"-?\d{1,20}", value):
        return None
    number = int(value)
    return number if INT64_LOW <= number <= INT64_HIGH else None


def _real(value: Any) -> float | None:
    if not isinstance(value, _Number):
        return None
    try:
        (single_precision,) = struct.unpack("f", struct.pack("f", float(value)))
    except OverflowError:
        return None
    return float(single_precision) if math.isfinite(single_precision) else None


STRING = GoType(title="string", take=_string)
TRUTH = GoType(title="bool", take=_truth)
INTEGER = GoType(title="int64", take=_integer)
REAL = GoType(title="float32", take=_real)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a body: its type, and the struct field that Go names in errors."""

    kind: GoType
    place: str
    """For example `Proxy.name`."""
    title: str = ""
    """Go's name of the type, where it differs from the kind's."""


def read_fields(value: Any, fields: Mapping[str, Field], *, whole: str) -> dict[str, Any]:
    """Those of `fields` that `value` sets; other keys are ignored. `whole` is Go's name of the struct.

    Raises a `Refusal` about the first field, in the body's order, whose value has the wrong type.
    """
    if value is None:
        return {}
    if not isinstance(value, tuple):
        raise bad_body(f"json: cannot unmarshal {title_of(value)} into Go value of type {whole}")
    found: dict[str, Any] = {}
    for name, given in _matched(value, fields):
        if given is None:
            continue
        taken = fields[name].kind.take(given)
        if taken is None:
            raise _of_another_type(fields[name], given)
        found[name] = taken
    return found


def single(value: Any, name: str) -> Any:
    """The raw value of that field; None if the body does not set it."""
    found = None
    for key, given in value if isinstance(value, tuple) else ():
        if key.lower() == name and given is not None:
            found = given
    return found


def _matched(pairs: tuple[tuple[str, Any], ...], fields: Mapping[str, Field]) -> Iterator[tuple[str, Any]]:
    for key, given in pairs:
        name = key if key in fields else key.lower()
        if name in fields:
            yield name, given


def _of_another_type(field: Field, given: Any) -> Refusal:
    title = field.title or field.kind.title
    said = title_of(given)
    if said == "number" and field.kind in {INTEGER, REAL}:
        said = f"number {given}"
    return bad_body(f"json: cannot unmarshal {said} into Go struct field {field.place} of type {title}")


def title_of(value: Any) -> str:
    """The name of the value's JSON type in Go's errors."""
    match value:
        case bool():
            return "bool"
        case _Number():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def json_text(value: Any) -> str:
    """As Go writes it: no spaces, and `<`, `>`, `&` escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def as_single(value: float) -> float | int:
    """The shortest number with the same value in single precision, as Go prints a `float32`."""
    if value == int(value):
        return int(value)
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == struct.pack("f", value):
            return short
    return value
