"""The only module of the harness that draws random numbers: each stream has a seed and a purpose.

Invariant: equal seed and purpose give equal draws, in any process and under any hash seed; two purposes
never share a stream, so a new draw in one place does not change the draws of another.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TypeVar

_T = TypeVar("_T")


class Choices:
    """A stream of random choices for one purpose, such as `Choices(7, "keys/subtask 0")`."""

    def __init__(self, seed: int, purpose: str) -> None:
        self.seed = seed
        self.purpose = purpose

    @cached_property
    def _random(self) -> random.Random:
        """Seeded at the first draw, since many streams (waits after errors) are never used."""
        return random.Random(f"{self.seed}/{self.purpose}")

    def index(self, count: int) -> int:
        """One of 0 .. count-1, with equal probability."""
        return self._random.randrange(count)

    def between(self, low: int, high: int) -> int:
        """One of low .. high, both included."""
        return self._random.randint(low, high)


class Draw:
    """A faster stream of choices, for code that draws at every step (level sim)."""

    __slots__ = ("bits", "made", "unit")

    def __init__(self, seed: int, purpose: str) -> None:
        stream = random.Random(f"{seed}/{purpose}")
        self.made = 0
        """How many choices a `SparingDraw` has made; a plain one does not count, since it is faster so."""
        self.unit: Callable[[], float] = stream.random
        """A float of at least 0 and less than 1."""
        self.bits: Callable[[int], int] = stream.getrandbits
        """An integer with this many random bits."""

    def index(self, count: int) -> int:
        """One of 0 .. count-1."""
        return int(self.unit() * count)

    def between(self, low: int, high: int) -> int:
        """One of low .. high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def one_of(self, *choices: _T) -> _T:
        """One of `choices`; a choice that is listed n times is n times as likely."""
        return choices[self.index(len(choices))]

    def chance(self, of_thousand: int) -> bool:
        """True with a probability of `of_thousand` / 1000."""
        return self.unit() * 1000 < of_thousand


class SparingDraw(Draw):
    """As `Draw`, but each choice is the least one (0, the lowest, the first), except those numbered in `drawn`."""

    __slots__ = ()

    def __init__(self, seed: int, purpose: str, *, drawn: Collection[int]) -> None:
        super().__init__(seed, purpose)
        kept, unit, bits = frozenset(drawn), self.unit, self.bits

        def sparing_unit() -> float:
            self.made += 1
            value = unit()  # in any case, so that a choice has its value whichever others are drawn
            return value if self.made in kept else 0.0

        def sparing_bits(count: int) -> int:
            self.made += 1
            value = bits(count)
            return value if self.made in kept else 0

        self.unit, self.bits = sparing_unit, sparing_bits


def fresh_seed() -> int:
    """A new random seed of six digits, short enough to type again."""
    return 100_000 + secrets.randbelow(900_000)


def fresh_secret() -> str:
    """A password, or the name of a temporary file: hexadecimal, never drawn from a seed, because seeds are printed."""
    return secrets.token_hex(16)
