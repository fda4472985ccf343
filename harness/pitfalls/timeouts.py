"""`failing-timeout`: a record's timeout fails the whole task. `silent-timeout`: it is answered with nothing.

The one is shown by attempts that ended with a timeout as their error, the other by calls that outlived their timeout
without an outcome: each holds its slot for ever (A46), as long as its attempt lives.
"""

from __future__ import annotations

from harness.pitfalls.seen import RunSeen
from harness.runs.outcome import Pitfall

__all__ = ["find_failing", "find_silent"]

_LATE_US = 500_000
"""An outcome may come so much after its timeout, on a busy machine."""


def find_failing(seen: RunSeen) -> Pitfall | None:
    """How many attempts it cost."""
    failed = [line for line in seen.of_kind("failed") if "CallTimedOut" in line["error"]]
    if not failed:
        return None
    count = "One attempt" if len(failed) == 1 else f"{len(failed)} attempts"
    return Pitfall(
        name="failing-timeout",
        says=f"{count} ended because one record's lookup took longer than {seen.scenario.operator.timeout} ms; all "
        "that was in flight with it was asked again after the restart.",
        advice="Answer a timeout: with a substitute (on_timeout: [...]), a retry, or a dead letter.",
        evidence={"attempts": len(failed), "first_record": failed[0].get("id")},
    )


def find_silent(seen: RunSeen) -> Pitfall | None:
    """How many slots were lost, of how many."""
    timeout_ms = seen.scenario.operator.timeout
    if not timeout_ms:
        return None
    due_us = timeout_ms * 1000 + _LATE_US
    stuck = [
        [call for call in calls.never_ended if calls.outlived(call, by_us=due_us)] for calls in seen.calls
    ]
    worst = max(stuck, key=len, default=[])
    if not worst:
        return None
    longest_ms, capacity = max(call.open_us for call in worst) // 1000, seen.scenario.operator.capacity
    return Pitfall(
        name="silent-timeout",
        says=f"{len(worst)} calls of one attempt were past their timeout of {timeout_ms} ms and had no outcome, up to "
        f"{longest_ms} ms after they began: {len(worst)} of {capacity} slots are lost as long as it lives.",
        advice="Whatever a timeout handler does, it must complete the handle.",
        evidence={"slots": len(worst), "first_record": worst[0].record, "open_ms": longest_ms},
    )
