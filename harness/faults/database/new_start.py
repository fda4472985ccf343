"""The server ended, and started anew: what the faults that do so share.

Invariant: the proof that it was another start is the process itself, seen past the proxy, never our command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.clock import monotonic_us
from harness.faults.database.client_errors import GONE, client_errors, fact
from harness.faults.fault import Evidence, Site
from harness.faults.seen import Seen

__all__ = ["ended_then_started", "start_evidence"]

GRACE_US = 5_000_000
"""Who had no need of the server while it was gone notices when it is back, by a connection that is dead."""


@contextmanager
def ended_then_started(site: Site, end: Callable[[], None]) -> Iterator[None]:
    """`end` it, and start it when the block is over."""
    server, before = site.server, site.server.state()
    began_us = monotonic_us()
    try:
        end()
        site.found(
            began_us=began_us,
            start=before.start,
            uptime_s=before.uptime_s,
            gone=server.state().start is None,
            end_ms=(monotonic_us() - began_us) // 1000,
        )
        yield
    finally:
        back_us = monotonic_us()
        server.start()
        after = server.state()
        site.found(
            next_start=after.start,
            next_uptime_s=after.uptime_s,
            start_ms=(monotonic_us() - back_us) // 1000,
        )


def start_evidence(seen: Seen) -> Evidence:
    """Empty unless it was gone, whatever runs now is another start, and clients lost connections."""
    start, next_start = fact(seen, "start"), fact(seen, "next_start")
    lost = client_errors(seen, GONE, grace_us=GRACE_US)
    if not fact(seen, "gone") or start is None or start == next_start or not lost:
        return {}
    times = {"end_ms": fact(seen, "end_ms"), "start_ms": fact(seen, "start_ms")}
    return {"start": start, "next_start": next_start, "codes": lost, **times}
