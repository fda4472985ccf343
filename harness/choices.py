"""The harness's one door to randomness: every choice is drawn from a seed and the name of its purpose.

Invariant: equal seed and purpose give equal draws, in any process and under any hash seed; two purposes
never share a stream, so a new draw in one place does not move the draws of another.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

__all__ = ["Choices", "Draw", "fresh_secret", "fresh_seed"]

_T = TypeVar("_T")


class Choices:
    """A stream of choices for one purpose (`Choices(7, "keys/subtask 0")`)."""

    def __init__(self, seed: int, purpose: str) -> None:
        self.seed = seed
        self.purpose = purpose

    @cached_property
    def _random(self) -> random.Random:
        """Seeded at the first draw: many a stream, such as that of waits after errors, is never drawn from."""
        return random.Random(f"{self.seed}/{self.purpose}")

    def index(self, count: int) -> int:
        """One of 0 .. count-1, all alike likely."""
        return self._random.randrange(count)

    def between(self, low: int, high: int) -> int:
        """One of low .. high, both included."""
        return self._random.randint(low, high)


class Draw:
    """A fast stream of choices, for what draws at every step (level sim); `Choices` reads better elsewhere."""

    __slots__ = ("bits", "unit")

    def __init__(self, seed: int, purpose: str) -> None:
        stream = random.Random(f"{seed}/{purpose}")
        self.unit: Callable[[], float] = stream.random
        """At least 0, less than 1."""
        self.bits: Callable[[int], int] = stream.getrandbits
        """A whole number of so many bits."""

    def index(self, count: int) -> int:
        """One of 0 .. count-1."""
        return int(self.unit() * count)

    def between(self, low: int, high: int) -> int:
        """One of low .. high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def one_of(self, *choices: _T) -> _T:
        """One of `choices`, each as likely as often as it is named."""
        return choices[self.index(len(choices))]

    def chance(self, of_thousand: int) -> bool:
        """True in so many of a thousand cases."""
        return self.unit() * 1000 < of_thousand


def fresh_seed() -> int:
    """A seed nobody chose: six digits, so that a person can type it again."""
    return 100_000 + secrets.randbelow(900_000)


def fresh_secret() -> str:
    """A password for one world: letters and digits only, never drawn from a seed, for seeds are printed."""
    return secrets.token_hex(16)
