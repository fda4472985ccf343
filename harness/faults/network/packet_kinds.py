"""The kinds of faults of a link that need a proxy which understands MySQL packets, in the scenario table's order."""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.network import (
    half_open,
    hold_reply,
    lost_commit,
    lost_commit_reply,
    refuse_connects,
    reset_at_packet,
    reset_now,
    sql_error,
    stalled_handshake,
)

__all__ = ["PACKETS"]

PACKETS: tuple[FaultKind, ...] = (
    half_open.KIND,
    reset_now.KIND,
    reset_at_packet.KIND,
    refuse_connects.KIND,
    stalled_handshake.KIND,
    lost_commit.KIND,
    lost_commit_reply.KIND,
    sql_error.KIND,
    hold_reply.KIND,
)
