"""The database's own faults, in the order of the scenario's table."""

from __future__ import annotations

from harness.faults.database import (
    db_kill,
    db_pause,
    db_restart,
    deadlocks,
    disk_full,
    kill_connection,
    kill_query,
    lock_rows,
    max_connections,
    offline_mode,
    oversized_packet,
    read_only,
    schema_change,
    server_clock,
    slow_query,
    wait_timeout,
)
from harness.faults.kind import FaultKind

__all__ = ["DATABASE"]

DATABASE: tuple[FaultKind, ...] = (
    db_kill.KIND,
    db_restart.KIND,
    db_pause.KIND,
    read_only.KIND,
    offline_mode.KIND,
    lock_rows.KIND,
    deadlocks.KIND,
    kill_query.KIND,
    kill_connection.KIND,
    max_connections.KIND,
    wait_timeout.KIND,
    oversized_packet.KIND,
    schema_change.KIND,
    disk_full.KIND,
    server_clock.KIND,
    slow_query.KIND,
)
