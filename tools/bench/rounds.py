"""Rounds: contenders take turns in one process; only ratios within a round are used.

Answers to the method of `docs/reference/performance.md`. Invariant: every contender gets the same conditions: one
warm-up round that does not count, then turns in alternating order. Before each turn garbage is collected and the
remaining objects are frozen, so that Python's collector, which stays on, only looks at objects that the turn makes.
They stay frozen until the last turn has ended: the next collection looks at none of them again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

ROUNDS = 5
"""Counted rounds of a measurement, unless given."""

Contender = Callable[[], float]
"""Does its work once, checks the output, and returns the cost of one unit in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The median, lowest and highest of the rounds' ratios."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The cost of a unit in seconds, for each contender and round."""

    of: Mapping[str, Sequence[float]]

    def cost(self, name: str, *, against: str) -> Ratio:
        """The cost of `name` over that of `against`."""
        pairs = zip(self.of[name], self.of[against], strict=True)
        return _ratio([ours / theirs for ours, theirs in pairs])

    def rate(self, name: str, *, against: str) -> Ratio:
        """The rate of `name` over that of `against`."""
        return self.cost(against, against=name)

    def rate_over(self, name: str, per_second: float) -> Ratio:
        """The rate of `name` over a given rate."""
        return _ratio([1 / cost / per_second for cost in self.of[name]])

    def per_second(self, name: str) -> float:
        """The median rate of `name`."""
        return 1 / median(self.of[name])

    def microseconds(self, name: str) -> float:
        """The median cost of `name`."""
        return median(self.of[name]) * 1e6


def take_turns(contenders: Mapping[str, Contender], *, rounds: int = ROUNDS) -> Costs:
    """Run each contender once in every round; an exception ends the measurement."""
    costs: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    with _unfrozen_afterwards():
        for number in range(rounds + 1):
            for name in order:
                _put_garbage_aside()
                cost = contenders[name]()
                if number:  # round 0 is the warm-up
                    costs[name].append(cost)
            order.reverse()
    return Costs(of=costs)


def _ratio(ratios: Sequence[float]) -> Ratio:
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios))


def _put_garbage_aside() -> None:
    gc.collect()
    gc.freeze()


@contextmanager
def _unfrozen_afterwards() -> Iterator[None]:
    try:
        yield
    finally:
        gc.unfreeze()
