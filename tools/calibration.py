"""A fixed piece of work, timed: how slow this machine is now, so that limits and printed minutes can be compared."""

from __future__ import annotations

from harness.system.clock import monotonic_us

_ROUNDS = 2_000_000
QUIET_S = 0.1
"""What the loop takes on a machine of the kind that the build runs on, with nothing beside it."""


def loop_s() -> float:
    """Seconds that the loop takes now."""
    began_us, total = monotonic_us(), 0
    for number in range(_ROUNDS):
        total += number & 7
    return (monotonic_us() - began_us) / 1_000_000


def slowness() -> float:
    """How many times slower than a quiet machine this one is now: from 1 to 5, so that a test that hangs does end."""
    return min(5.0, max(1.0, loop_s() / QUIET_S))


if __name__ == "__main__":
    took_s = loop_s()
    print(f"calibration loop: {took_s:.3f} s ({QUIET_S:g} s on a quiet machine)")  # noqa: T201 - a program
