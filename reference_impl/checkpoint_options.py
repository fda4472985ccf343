"""What a checkpoint is for, and how its barriers meet what is in flight.

Answers to Flink's `CheckpointOptions`, `CheckpointType` and `SavepointType`. Invariant: a savepoint never captures
what is in flight between tasks, so its barriers are aligned, whatever the job is configured to (C29).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

__all__ = ["AlignmentType", "CheckpointOptions", "SnapshotType"]


class AlignmentType(Enum):
    """How barriers of several channels are brought together."""

    AT_LEAST_ONCE = "at least once"
    """Not at all: the checkpoint is taken when the last has come, and nobody waits (C30)."""
    ALIGNED = "aligned"
    """A channel whose barrier has come is blocked until all have (C22)."""
    UNALIGNED = "unaligned"
    """The first barrier cuts; what the others have yet to overtake is captured (C27)."""
    FORCED_ALIGNED = "forced aligned"
    """Aligned on this edge, though the job's checkpoints are not (FLINK-22815)."""


class SnapshotType(Enum):
    """What the snapshot is for."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    SAVEPOINT_SUSPEND = "savepoint, then stop without a drain"
    SAVEPOINT_TERMINATE = "savepoint, then drain and stop"

    @property
    def is_savepoint(self) -> bool:
        """Whether somebody asked for it, to keep."""
        return self is not SnapshotType.CHECKPOINT

    @property
    def is_synchronous(self) -> bool:
        """Whether the task waits for its completion and ends with it (C17)."""
        return self in {SnapshotType.SAVEPOINT_SUSPEND, SnapshotType.SAVEPOINT_TERMINATE}

    @property
    def should_drain(self) -> bool:
        """Whether the input is to be ended as if it were exhausted: with the last watermark, with `finish` (M44)."""
        return self is SnapshotType.SAVEPOINT_TERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Travels with each barrier."""

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int | None = None
    """After which an aligned barrier becomes an unaligned one (C26); None: never."""

    def __post_init__(self) -> None:
        if self.snapshot_type.is_savepoint and self.alignment is AlignmentType.UNALIGNED:
            raise ValueError(
                f"a {self.snapshot_type.value} cannot be unaligned (C29); give AlignmentType.ALIGNED"
            )
        if self.aligned_timeout_ms is not None and self.aligned_timeout_ms < 0:
            raise ValueError(
                f"aligned_timeout_ms is {self.aligned_timeout_ms}; give 0 or more, or None for never"
            )

    @property
    def is_exactly_once(self) -> bool:
        """Whether a record counts in one checkpoint only."""
        return self.alignment is not AlignmentType.AT_LEAST_ONCE

    @property
    def is_unaligned(self) -> bool:
        """Whether its barrier overtakes what is in flight, as a priority event (C3)."""
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def needs_alignment(self) -> bool:
        """Whether a channel that has given out its barrier gives out nothing else until it is resumed (C22)."""
        return self.alignment in {AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED}

    @property
    def is_timeoutable(self) -> bool:
        """Whether it may still become unaligned (C26); a savepoint may not, whatever its timeout (C29)."""
        return (
            self.alignment is AlignmentType.ALIGNED
            and self.aligned_timeout_ms is not None
            and not self.snapshot_type.is_savepoint
        )

    @property
    def needs_channel_state(self) -> bool:
        """Whether what is in flight belongs to the checkpoint, now or later."""
        return self.is_unaligned or self.is_timeoutable

    def to_unaligned(self) -> CheckpointOptions:
        """The same, unaligned from the start; with no alignment there is no timeout of one."""
        return replace(self, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=None)

    def with_unaligned_unsupported(self) -> CheckpointOptions:
        """For an edge that must not be overtaken, as a broadcast's (FLINK-22815): aligned, for good."""
        if not self.needs_channel_state:
            return self
        return replace(self, alignment=AlignmentType.FORCED_ALIGNED, aligned_timeout_ms=None)
