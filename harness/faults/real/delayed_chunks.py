"""Delayed chunks: what a proxy's log says that it let arrive late.

Answers to the held-ms of the evidence table (5b). Invariant: few chunks are no evidence; without a log nothing is said.
"""

from __future__ import annotations

from harness.faults.real.seen import Evidence, Seen

__all__ = ["delayed_chunks"]

_CHUNKS_MIN = 5


def delayed_chunks(seen: Seen, *, stream: str) -> Evidence | None:
    """What the proxy's log says of delays in that direction; nothing without a log, None if it shows too few."""
    if seen.deeds is None:
        return {}
    late = [deed for deed in seen.did("delayed", stream=stream) if deed.ms > 0]
    chunks = sum(int(deed.more.get("chunks", 1)) for deed in late)
    if chunks < _CHUNKS_MIN:
        return None
    return {
        "bytes_delayed": sum(deed.bytes for deed in late),
        "connections_delayed": len({deed.connection: None for deed in late}),
        "chunks_delayed": chunks,
        "longest_delay_ms": max(deed.ms for deed in late),
    }
