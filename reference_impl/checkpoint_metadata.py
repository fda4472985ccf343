"""Which checkpoint it is, and how long it took to get here.

Answers to Flink's `CheckpointMetaData` and `CheckpointMetrics`. Invariant: frozen values; what names a checkpoint never
changes on its way from the coordinator to the last operator.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CheckpointMetaData", "CheckpointMetrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetaData:
    """Names a checkpoint."""

    checkpoint_id: int
    timestamp: int = 0
    """When it was triggered (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetrics:
    """What bringing its barriers together has cost (C31); of a task without barriers all are 0."""

    alignment_duration_ms: int = 0
    """Between the first barrier and the last."""
    checkpoint_start_delay_ms: int = 0
    """Between the triggering and the first barrier."""
    bytes_persisted_during_alignment: int = 0
    """Of what was in flight and overtaken (C27)."""
