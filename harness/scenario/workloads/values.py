"""The values of odd rows (`workload.rows_like: odd`): texts and numbers that a careless client alters on the way.

Answers to a client that decodes with another character set, strips, unescapes or pads texts, takes NULL for an empty
text, or reads a number into a narrower type. Invariants: the place of a row in the table decides its values, at every
level; of the texts and numbers, all occur in the first 182 rows; a name is never NULL, for a row without a name stands
for no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

_TEXTS: Final = (
    "",
    " a space at each end ",
    'it\'s "quoted", 100%s \\n and /*!50000 more */',
    "a tab\t, a line\nand a zero \x00",
    "Ångström",
    "\uff21\u030a e\u0301 \u200d",
    "李雷",
    "😀😁",
    "NULL",
    "007",
    "1e3",
    "x" * 200,
    "true",
)
"""Texts of at most 200 characters, the width of their column."""
_NUMBERS: Final = (
    0,
    -1,
    127,
    -129,
    255,
    32_768,
    -65_536,
    2**31,
    -(2**31) - 1,
    2**32 + 7,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 10**6,  # `change_rows` adds one for each change
    -(2**63),
)
"""Numbers of 64 bits, on both sides of what narrower types and doubles hold."""


def with_values_like(rows: Iterable[list[Any]], like: Literal["plain", "odd"]) -> list[list[Any]]:
    """`rows` (key, name, city, tier); `odd`: with other values, of which one city in thirteen is NULL."""
    if like == "plain":
        return list(rows)
    found: list[list[Any]] = []
    for place, row in enumerate(rows):
        turn, at = divmod(place, len(_TEXTS))
        city = None if at == turn % len(_TEXTS) else _TEXTS[(at + turn + 1) % len(_TEXTS)]
        found.append([row[0], _TEXTS[at], city, _NUMBERS[place % len(_NUMBERS)]])
    return found
