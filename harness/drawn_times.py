"""Times that the seed draws: when a fault that waits for `{between: [200ms, 2s]}` begins.

Answers to Jepsen's generators that stagger. Invariant: equal seed and fault give the same time at every level, and
one fault's draw moves no other's.
"""

from __future__ import annotations

from harness.choices import Choices
from harness.scenario import At, Between, Fault

__all__ = ["instant_ms"]


def instant_ms(fault: Fault, *, seed: int) -> int | None:
    """Milliseconds from the first record to the beginning of `fault`; None: it waits for no time."""
    match fault.when:
        case At(at=at):
            return at
        case Between(between=(earliest, latest)):
            return Choices(seed, f"begin of fault {fault.id}").between(earliest, latest)
        case _:
            return None
