"""`small-pool`: the pool of the lookups has fewer connections than the operator has slots, and calls wait for one.

Shown by the pool's own count: a wait for a connection is time in which a slot is taken and nobody has been asked.
"""

from __future__ import annotations

from harness.pitfalls.seen import RunSeen
from harness.runs.outcome import Pitfall

__all__ = ["find"]

_WAITED_OF_CALLS = 0.5
"""A smaller share may have waited because of a fault, behind which connections are few for any pool."""


def find(seen: RunSeen) -> Pitfall | None:
    """How many calls waited, and how long."""
    uses = seen.of_kind("~pool")
    waited = sum(use["waited"] for use in uses)
    size = min((use["size"] for use in uses), default=0)
    capacity = seen.scenario.operator.capacity
    if not waited or size >= capacity or waited < _WAITED_OF_CALLS * seen.call_count:
        return None
    longest_ms = max(use["longest_wait_ms"] for use in uses)
    return Pitfall(
        name="small-pool",
        says=f"{waited} of {seen.call_count} calls waited for a connection, up to {longest_ms:.0f} ms: the pool has "
        f"{size} for a capacity of {capacity}, and the timeout of a record runs while it waits.",
        advice=f"Give the pool {capacity} connections, or the operator a capacity of {size}.",
        evidence={"waited": waited, "size": size, "capacity": capacity, "longest_wait_ms": longest_ms},
    )
