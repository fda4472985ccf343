"""Strict JSON: no NaN, no Infinity, no duplicate keys, integers exact up to `DIGITS_MAX` digits.

Invariant: `strictly` accepts exactly RFC 8259 with unique keys, up to the two limits below. For other text it
returns `Loose` with the value that a lenient parser reads, so that the checks of later lines can use it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.system.json_types import Json

NESTING_MAX = 300
"""Levels of objects and arrays; comparing or printing deeper values could overflow the stack."""
DIGITS_MAX = 100_000
"""Digits of an integer; the time to read or print one grows with their square (here 0.1 s)."""
_TOO_DEEP = f"the line is nested too deep to be read (more than {NESTING_MAX} levels)"


@contextmanager
def integers_of_any_length() -> Iterator[None]:
    """Lifts Python's limit on the digits of an integer (a few thousand); a history may have longer ones.

    Use it while a history is read, judged and printed.
    """
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """A text that is not strict JSON: why, and its value for a lenient parser (None: none)."""

    say: str
    value: Any = None


class _NotStrict(ValueError):
    """Raised by the decoder's hooks."""


def strictly(raw: bytes, *, any_length: bool = True) -> object:
    """The value of one line, or `Loose`; white space around it must be stripped already.

    Reading an integer takes time that grows with the square of its digits: without `any_length`, an integer beyond
    Python's own limit of a few thousand digits is refused.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Loose(say=f"the line is not valid UTF-8 (byte {error.start + 1} of it)")
    try:
        value = _decoded(text, any_length=any_length)
    except _NotStrict as refusal:
        return Loose(say=str(refusal), value=_lenient(text) if any_length else None)
    except json.JSONDecodeError as error:
        return Loose(say=f"the line is not JSON: {error.msg} (character {error.colno})")
    except RecursionError:
        return Loose(say=_TOO_DEEP)
    brackets = text.count("[") + text.count("{")
    return Loose(say=_TOO_DEEP) if brackets > NESTING_MAX and _is_too_deep(value) else value


def _is_too_deep(value: object) -> bool:
    """Walks level by level, since recursion could overflow the stack."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def _decoded(text: str, *, any_length: bool) -> object:
    # The decoder with the limit is slower; in a short line no integer can exceed it.
    decoder = _STRICT if len(text) <= DIGITS_MAX else _STRICT_WITH_LIMIT
    try:
        value, end = decoder.raw_decode(text)
    except (_NotStrict, json.JSONDecodeError):
        raise
    except ValueError:
        # The only other error of the decoder is an integer with thousands of digits.
        if not any_length:
            raise _NotStrict("a whole number has too many digits") from None
        with integers_of_any_length():
            value, end = decoder.raw_decode(text)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _lenient(text: str) -> object:
    try:
        with integers_of_any_length():
            return _LENIENT.decode(text)
    except (ValueError, RecursionError):
        return None


def _unique(pairs: list[tuple[str, object]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _NotStrict(f"the key {json.dumps(twice)} stands twice in one object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise _NotStrict(f"{constant} is not JSON; write null or a string")


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise _NotStrict(f"an integer of more than {DIGITS_MAX} digits is not read")
    return int(digits)


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_STRICT_WITH_LIMIT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer)
_LENIENT = json.JSONDecoder(parse_int=_integer)
