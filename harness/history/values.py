"""Values of a history: equality, order, and how they are printed safely.

Implements "Values" of `docs/reference/history.md`; answers to pytest's escaping of control bytes in JUnit. Two values
are equal if and only if their JSON is, with keys in any order: `1` equals neither `1.0` nor `true`. The result of
`visible` is valid in XML 1.0, moves no cursor and changes no reading direction; `visible` is idempotent.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from harness.history.event import W

WITHHELD = "[withheld]"

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc\ufffe\uffff]"
    "|[\ud800-\udfff]|[\U000e0000-\U000e0fff]"
)
_CREDENTIAL_NAME = re.compile(r"passw(or)?d|secret|credential|api_?key", re.IGNORECASE)
_CREDENTIAL_TEXT = re.compile(
    r"(?P<before>://[^\s:/@]*:|\bpass(?:word|wd)[\"']?\s*[=:]\s*[\"']?)[^\s\"'@&;,}]+", re.IGNORECASE
)


def visible(text: str) -> str:
    r"""`text` with each control, bidi, zero-width or unpaired character as its escape (`\x1b`, `\u202e`)."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def brief(value: object, *, limit: int = 60) -> str:
    """Any JSON value on one line, cut at `limit` characters with an ellipsis, hidden characters escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_credentials(value: object) -> Any:
    """A JSON value in which fields named like a password, and passwords in URLs, are replaced.

    Values that JSON cannot express (NaN, objects of libraries) become text.
    """
    match value:
        case Mapping():
            return {
                str(name): WITHHELD if _CREDENTIAL_NAME.search(str(name)) else without_credentials(inner)
                for name, inner in value.items()
            }
        case str():
            return _CREDENTIAL_TEXT.sub(rf"\g<before>{WITHHELD}", value)
        case float() if not math.isfinite(value):
            return str(value)
        case list() | tuple():
            return [without_credentials(inner) for inner in value]
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """`text` without any of the known `secrets`, in any escaping; applied last, before a file is written."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = re.sub("".join(map(_spellings, secret)), lambda _: WITHHELD, text)
    return text


def _spellings(character: str) -> str:
    """A pattern for one character as plain text, Markdown, HTML, XML or JSON may write it."""
    code = ord(character)
    forms = (character, html.escape(character), f"&#{code};", f"&#x{code:x};", json.dumps(character)[1:-1])
    return rf"\\?(?:{'|'.join(re.escape(form) for form in dict.fromkeys(reversed(forms)))})"


END_OF_TIME: Final = 2**63 - 1
"""The timestamp of the final watermark, which a history writes as `"end"`."""

_SHOWN_MAX = 80
"""Most characters of a value in a message."""
_LISTED_MAX = 5
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def same(left: object, right: object) -> bool:
    """Whether two values are equal as `docs/reference/history.md` defines it."""
    if type(left) is not type(right):
        return False
    if type(left) in _SCALARS:
        return bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: object) -> Hashable:
    """A hashable that is equal for equal values and for no others.

    In Python 1 == 1.0 == True, so floats and booleans are tagged with their type; -0.0 == 0.0 is intended.
    """
    if value is None or type(value) in {str, int}:
        return value
    if isinstance(value, list):
        return ("list", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, identity(item)) for name, item in value.items()))
    return (type(value).__name__, value)


def height(w: W) -> float:
    """A watermark as a comparable number; integers stay exact, `"end"` is infinite."""
    return math.inf if w == "end" else w


def told_watermark(timestamp: int) -> W:
    """The watermark of a timestamp as a history writes it: `"end"` for the final one."""
    return "end" if timestamp == END_OF_TIME else timestamp


def shown(value: object) -> str:
    """A value for a message: its JSON, cut if long, control characters and surrogates escaped."""
    try:
        # Only a Decimal is no JSON: the multiplier of a header's retry strategy.
        raw = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        # Python refuses to print integers of thousands of digits, unless `integers_of_any_length` is held.
        return "a value with an integer of thousands of digits"
    # Only the part before the cut is escaped: the rest may be megabytes.
    text = raw[: _SHOWN_MAX + 1].encode(errors="backslashreplace").decode()
    printable = (
        text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    )
    return printable if len(printable) <= _SHOWN_MAX else printable[: _SHOWN_MAX - 3] + "..."


def listed(values: Sequence[object]) -> str:
    """The first few of several values, for a message."""
    more = len(values) - _LISTED_MAX
    return ", ".join(shown(value) for value in values[:_LISTED_MAX]) + (f" and {more} more" * (more > 0))
