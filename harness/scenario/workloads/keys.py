"""The keys of the looked-up table, by kind (`workload.keys_like`): numbers, and keys that a careless lookup confuses.

Invariants: the first `count` keys of a kind are the first `count` of any larger number of keys, and no two are equal.
Keys of one group become equal when bits, a sign, accents or the border between two parts are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.scenario.model import Workload

Key = int | str | tuple[str, int]
"""A key: a number, a text, or a text and a number (`composite`)."""

_OFFSETS = (0, 128, 256, 32_768, 65_536, 2**31, 2**32, 2**40, 2**60)
"""What makes keys of `wide` differ in bits that a narrow integer or a double lacks, or uses for the sign."""
_BASES = 128
"""The bases of `wide`: less than the smallest offset apart."""
_NEXT_BASES = 2**41
_FORMS = ("é", "e\u0301", "É", "e", "\uff45", "ß", "ss", "SS", "й", "и", "😀", "😁")
"""Beginnings of keys of `unicode`, which are equal after normalisation, case folding, or by a lax collation."""


def keys_of(workload: Workload) -> Sequence[Key]:
    """The distinct keys that records ask for, in the order of the table's rows."""
    count = workload.keys
    match workload.keys_like:
        case "numbers":
            return range(count)
        case "wide":
            return [_wide(index) for index in range(count)]
        case "signed":
            return [(index + 1) // 2 * (1 if index % 2 else -1) for index in range(count)]
        case "unicode":
            return [f"{_FORMS[index % len(_FORMS)]}{index // len(_FORMS)}" for index in range(count)]
        case "composite":
            return [_composite(index) for index in range(count)]


def _wide(index: int) -> int:
    group, place = divmod(index, len(_OFFSETS))
    high, base = divmod(group, _BASES)
    return high * _NEXT_BASES + _OFFSETS[place] + base


def _composite(index: int) -> tuple[str, int]:
    """Composite keys; of each four, two are equal when their parts are joined, and two differ only in the sign."""
    group, place = divmod(index, 4)
    return ((f"{group}/", 11), (f"{group}/1", 1), (f"{group}/", 1), (f"{group}/", -11))[place]


def key_of(told: Any) -> Key:
    """The key that JSON holds as `told`: a composite one is a list there."""
    return tuple(told) if type(told) is list else told


def told_key(key: Key) -> int | str | list[str | int]:
    """The key as a history and JSON hold it."""
    return list(key) if isinstance(key, tuple) else key
