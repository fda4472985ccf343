"""How one checkpoint is treated: whether it may be passed over, and whose its files are.

Answers to Flink's `CheckpointProperties`. Invariant: a savepoint belongs to whoever asked for it; no later
checkpoint drops it while it is pending, or discards it once it is complete (C35).
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.checkpoint_options import SnapshotType

__all__ = ["CheckpointProperties"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """What a checkpoint was asked for as."""

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    is_forced: bool = False
    """Started even where as many as may be are pending (C32)."""

    @property
    def is_savepoint(self) -> bool:
        """Whether somebody asked for it, to keep."""
        return self.snapshot_type.is_savepoint

    @property
    def can_be_subsumed(self) -> bool:
        """Whether a later one that completes first ends it (C35)."""
        return not self.is_savepoint and not self.is_forced

    @property
    def discard_subsumed(self) -> bool:
        """Whether its state goes when the store keeps it no longer."""
        return not self.is_savepoint
