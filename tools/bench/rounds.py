"""Rounds: contenders take turns in one process, and only ratios within a round are believed.

Answers to the method of `docs/reference/performance.md`. Invariant: every contender meets the same machine state: one
round that does not count, then turns in alternating order; before each turn the garbage of others is collected
and what remains is frozen, so that Python's collector, on for all as by default, looks only at what the turn makes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

__all__ = ["ROUNDS", "Contender", "Costs", "Ratio", "take_turns"]

ROUNDS = 5
"""Counted rounds of a measure, unless said otherwise."""

Contender = Callable[[], float]
"""Does its work once, checks what came out, and answers what a unit of it cost (seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The median of one ratio a round, and the lowest and the highest of them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a unit cost each contender in each round, in seconds."""

    of: Mapping[str, Sequence[float]]

    def cost(self, name: str, *, against: str) -> Ratio:
        """The cost of `name` over that of `against`."""
        pairs = zip(self.of[name], self.of[against], strict=True)
        return _ratio([ours / theirs for ours, theirs in pairs])

    def rate(self, name: str, *, against: str) -> Ratio:
        """The rate of `name` over that of `against`."""
        return self.cost(against, against=name)

    def rate_over(self, name: str, per_second: float) -> Ratio:
        """The rate of `name` over a rate that is known beforehand."""
        return _ratio([1 / cost / per_second for cost in self.of[name]])

    def per_second(self, name: str) -> float:
        """The median rate of `name`."""
        return 1 / median(self.of[name])

    def microseconds(self, name: str) -> float:
        """The median cost of `name`."""
        return median(self.of[name]) * 1e6


def take_turns(contenders: Mapping[str, Contender], *, rounds: int = ROUNDS) -> Costs:
    """Each contender once in every round; what one raises ends the measure."""
    costs: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for number in range(rounds + 1):
        for name in order:
            with _quiet_collector():
                cost = contenders[name]()
            if number:  # round 0 warms up
                costs[name].append(cost)
        order.reverse()
    return Costs(of=costs)


def _ratio(ratios: Sequence[float]) -> Ratio:
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios))


@contextmanager
def _quiet_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
