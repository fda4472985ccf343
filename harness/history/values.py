"""Values of a history: when two are equal, how they are ordered, how they are shown to a person.

Answers to the paragraph "Values" of `docs/history.md`. Invariant: two values are equal exactly if their JSON
is, with keys in any order and numbers equal as numbers and written alike: `1` is neither `1.0` nor `true`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any, Final

from harness.history.event import W

__all__ = ["END_OF_TIME", "height", "identity", "listed", "same", "shown", "told_watermark"]

END_OF_TIME: Final = 2**63 - 1
"""The timestamp of the final watermark, which a history calls `"end"`."""

_SHOWN_MAX = 80
"""Characters of a value in a sentence: payloads may be large, sentences are for people."""
_LISTED_MAX = 5


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal in the sense of the page."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Any) -> Hashable:
    """Something hashable that is equal for equal values and for no others.

    Python holds that 1 == 1.0 == True, so floats and booleans are marked; -0.0 == 0.0 is meant.
    """
    if value is None or type(value) in {str, int}:
        return value  # type: ignore[no-any-return]
    if isinstance(value, list):
        return ("list", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, identity(item)) for name, item in value.items()))
    return (type(value).__name__, value)


def height(w: W) -> float:
    """A watermark as a number to compare by; integers stay exact, `"end"` is higher than all."""
    return math.inf if w == "end" else w


def told_watermark(timestamp: int) -> W:
    """A watermark as a history tells it."""
    return "end" if timestamp == END_OF_TIME else timestamp


def shown(value: Any) -> str:
    """A value for a sentence: its JSON, cut where it gets long, never a control or half character."""
    try:
        raw = json.dumps(value, ensure_ascii=False)
    except ValueError:
        # Python refuses to print integers of thousands of digits, unless `integers_of_any_length` is held.
        return "a value with an integer of thousands of digits"
    # What is beyond the cut is not looked at: it may be megabytes.
    text = raw[: _SHOWN_MAX + 1].encode(errors="backslashreplace").decode()
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return printable if len(printable) <= _SHOWN_MAX else printable[: _SHOWN_MAX - 3] + "..."


def listed(values: list[Any]) -> str:
    """Several values for a sentence, the first few of them."""
    more = len(values) - _LISTED_MAX
    return ", ".join(shown(value) for value in values[:_LISTED_MAX]) + (f" and {more} more" * (more > 0))
