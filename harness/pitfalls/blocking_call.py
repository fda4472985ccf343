"""`blocking-call`: the function under test blocks the task's thread, so nothing else of the task goes on meanwhile.

Shown by the event loop that stood still while that function was on the thread's stack, as a second thread saw it.
"""

from __future__ import annotations

from collections import defaultdict

from harness.pitfalls.seen import RunSeen
from harness.runs.outcome import Pitfall

__all__ = ["find"]

_TIMES_MIN = 3
_ENOUGH_MS = 1_000
"""Less often, and less long in all, it may have been the machine's doing."""


def find(seen: RunSeen) -> Pitfall | None:
    """The place at which it stood longest in all."""
    stood_ms: dict[str, list[float]] = defaultdict(list)
    for note in seen.of_kind("~blocked"):
        stood_ms[note["where"]].append(note["ms"])
    if not stood_ms:
        return None
    where, times = max(stood_ms.items(), key=lambda item: sum(item[1]))
    if len(times) < _TIMES_MIN and sum(times) < _ENOUGH_MS:
        return None
    return Pitfall(
        name="blocking-call",
        says=f"The task's thread stood still {len(times)} times, {sum(times) / 1000:.1f} s in all and up to "
        f"{max(times):.0f} ms at a time, in {where}: no other lookup, timer or checkpoint went on meanwhile.",
        advice="Await an asynchronous client, or put the blocking one on threads (reference_impl.from_blocking).",
        evidence={
            "where": where,
            "times": len(times),
            "total_ms": round(sum(times), 1),
            "longest_ms": max(times),
        },
    )
