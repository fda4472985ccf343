"""Replay order: the order in which stored elements must be replayed.

Invariant: in ordered mode that is by position; in unordered mode only watermarks keep their place, and
records between two of them may change theirs. An element without a position is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from harness.checkers.attempt_input import Element, Mark

__all__ = ["equal_replays", "misordered"]


def misordered(places: Mapping[Element, int | None], *, ordered: bool) -> Iterator[Element]:
    """Of elements in the order in which they are stored, those that are on the wrong side of another."""
    known = [(element, pos) for element, pos in places.items() if pos is not None]
    lowest_mark_after = _lowest_marks_after(known)
    highest = -math.inf
    for (element, pos), lowest in zip(known, lowest_mark_after, strict=True):
        overtakes = not ordered and not isinstance(element, Mark) and lowest < pos
        if pos < highest or overtakes:
            yield element
        if ordered or isinstance(element, Mark):
            highest = max(highest, pos)


def _lowest_marks_after(known: Sequence[tuple[Element, int]]) -> list[float]:
    lowest = math.inf
    found: list[float] = []
    for element, pos in reversed(known):
        found.append(lowest)
        if isinstance(element, Mark):
            lowest = min(lowest, pos)
    return found[::-1]


def equal_replays(left: Sequence[Element], right: Sequence[Element], *, ordered: bool) -> bool:
    """Whether two stores replay the same; in unordered mode up to order between watermarks."""
    if ordered:
        return list(left) == list(right)
    return _segments(left) == _segments(right)


def _segments(elements: Sequence[Element]) -> list[Mark | dict[Element, int]]:
    segments: list[Mark | dict[Element, int]] = [{}]
    for element in elements:
        if isinstance(element, Mark):
            segments += (element, {})
        elif isinstance(counts := segments[-1], dict):
            counts[element] = counts.get(element, 0) + 1
    return segments
