"""`lost-completion`: a call's result future is never completed, and without a timeout nobody ever asks why.

Shown by calls that were open for seconds when their attempt ended, while calls that began after them were answered.
"""

from __future__ import annotations

from harness.pitfalls.seen import RunSeen
from harness.runs.outcome import Pitfall

__all__ = ["find"]

_OPEN_US_MIN = 1_500_000


def find(seen: RunSeen) -> Pitfall | None:
    """The first of them."""
    if seen.scenario.operator.timeout:
        return None
    stuck = [
        call
        for calls in seen.calls
        for call in calls.never_ended
        if calls.outlived(call, by_us=_OPEN_US_MIN) and calls.last_begun_us_that_ended > call.began_us
    ]
    if not stuck:
        return None
    oldest = max(stuck, key=lambda call: call.open_us)
    return Pitfall(
        name="lost-completion",
        says=f"{len(stuck)} calls never ended, though calls that began after them did: the one for record "
        f"{oldest.record} had been open for {oldest.open_us / 1e6:.1f} s when its attempt ended. Each holds its slot.",
        advice="Complete the handle on every way out of the function, also on errors; and give the operator a timeout.",
        evidence={"calls": len(stuck), "record": oldest.record, "open_ms": oldest.open_us // 1000},
    )
