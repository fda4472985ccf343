"""Which watermark an `owm` is: the k-th one of a value stands for the k-th position of that value.

Answers to the paragraph "Which watermark" of `docs/history.md`. Invariant: an `owm` beyond the positions of
its value is surplus, stands for nothing, and is for V7 alone; so it is absent from what these functions
return.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.history.event import Emission, Out, W

__all__ = ["positions_of_emissions"]


def positions_of_emissions(
    emissions: Iterable[Emission], positions_of: Mapping[W, Sequence[int]]
) -> list[int | None]:
    """For each emission the input position that it stands for as a watermark; None for `out` and surplus."""
    left: Counter[W] = Counter()
    found: list[int | None] = []
    for emission in emissions:
        if isinstance(emission, Out):
            found.append(None)
            continue
        positions = positions_of.get(emission.w, ())
        k = left[emission.w]
        left[emission.w] += 1
        found.append(positions[k] if k < len(positions) else None)
    return found
