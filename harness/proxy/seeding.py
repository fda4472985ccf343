"""Every draw of the proxy: from its seed, the link, the connection's number and the toxic's name.

Answers to Toxiproxy's `-seed`, which it throws away. Invariant: the same seed and the same traffic give the same
decisions, whatever else was added, changed or removed in between.
"""

from __future__ import annotations

from harness.choices import Choices

__all__ = ["Dice"]

_ONE = 1_000_000


class Dice:
    """The draws of one proxy process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choices(self, link: str, connection: int, toxic: str) -> Choices:
        """What a toxic draws from while it acts on a connection."""
        return Choices(self.seed, f"proxy/{link}/{connection}/{toxic}")

    def share(self, link: str, connection: int, toxic: str) -> float:
        """At least 0, less than 1: the toxic acts on the connection if its toxicity is above this."""
        return Choices(self.seed, f"proxy/{link}/{connection}/{toxic}/toxicity").index(_ONE) / _ONE
