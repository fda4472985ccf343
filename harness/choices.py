"""The harness's one door to randomness: every choice is drawn from a seed and the name of its purpose.

Invariant: equal seed and purpose give equal draws, in any process and under any hash seed; two purposes
never share a stream, so a new draw in one place does not move the draws of another.
"""

from __future__ import annotations

import random
import secrets

__all__ = ["Choices", "fresh_secret", "fresh_seed"]


class Choices:
    """A stream of choices for one purpose (`Choices(7, "keys/subtask 0")`)."""

    def __init__(self, seed: int, purpose: str) -> None:
        self.seed = seed
        self.purpose = purpose
        self._random = random.Random(f"{seed}/{purpose}")

    def index(self, count: int) -> int:
        """One of 0 .. count-1, all alike likely."""
        return self._random.randrange(count)

    def between(self, low: int, high: int) -> int:
        """One of low .. high, both included."""
        return self._random.randint(low, high)


def fresh_seed() -> int:
    """A seed nobody chose: six digits, so that a person can type it again."""
    return 100_000 + secrets.randbelow(900_000)


def fresh_secret() -> str:
    """A password for one world: letters and digits only, never drawn from a seed, for seeds are printed."""
    return secrets.token_hex(16)
