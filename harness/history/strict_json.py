"""JSON read strictly: no NaN, no Infinity, no key twice in an object, integers exact at any length.

Invariant: `strictly` accepts exactly RFC 8259 with unique keys; `Loose` carries what a forgiving reader would
have understood, so that the rules about other lines need not guess.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

__all__ = ["Loose", "strictly"]

_PLAIN_DIGITS = 4000
"""Python refuses to convert longer digit strings at once; `Decimal` takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """A text that is not strict JSON: why, and what it would have meant (None: nothing)."""

    say: str
    value: Any = None


class _NotStrict(ValueError):
    """Raised inside the decoder."""


def strictly(raw: bytes) -> Any | Loose:
    """The value of one line, or `Loose`."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Loose(say=f"the line is not valid UTF-8 (byte {error.start + 1} of it)")
    try:
        return _STRICT.decode(text)
    except _NotStrict as refusal:
        return Loose(say=str(refusal), value=_forgiving(text))
    except json.JSONDecodeError as error:
        return Loose(say=f"the line is not JSON: {error.msg} (character {error.colno})")
    except RecursionError:
        return Loose(say="the line is nested too deep to be read")


def _forgiving(text: str) -> Any:
    try:
        return _FORGIVING.decode(text)
    except (ValueError, RecursionError):
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _NotStrict(f"the key {json.dumps(twice)} stands twice in one object")
    return found


def _refuse(constant: str) -> Any:
    raise _NotStrict(f"{constant} is not JSON; write null or a string")


def _exact(digits: str) -> int:
    return int(digits) if len(digits) < _PLAIN_DIGITS else int(Decimal(digits))


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_exact)
_FORGIVING = json.JSONDecoder(parse_int=_exact)
