"""How often, how many, how long, and with which barriers.

Answers to Flink's `CheckpointCoordinatorConfiguration`. Invariant: values that cannot be meant are refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.checkpoint_options import AlignmentType, CheckpointOptions, SnapshotType

__all__ = ["CheckpointCoordinatorConfiguration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCoordinatorConfiguration:
    """Of one job."""

    checkpoint_interval_ms: int | None = None
    """None: only when somebody asks."""
    initial_delay_ms: int | None = None
    """Before the first periodic one; None: an interval. Flink draws it, we are told it."""
    checkpoint_timeout_ms: int = 600_000
    min_pause_between_checkpoints_ms: int = 0
    """From the completion of one to the start of the next periodic one (C33)."""
    max_concurrent_checkpoints: int = 1
    max_queued_requests: int = 1_000
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int | None = None
    """With unaligned ones: how long a barrier may wait before it overtakes; None: not at all (C26)."""
    allow_checkpoints_after_tasks_finished: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("checkpoint_timeout_ms", 1),
            ("min_pause_between_checkpoints_ms", 0),
            ("max_concurrent_checkpoints", 1),
            ("max_queued_requests", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")
        if self.checkpoint_interval_ms is not None and self.checkpoint_interval_ms < 1:
            raise ValueError(
                f"checkpoint_interval_ms is {self.checkpoint_interval_ms}; give 1 or more, or None"
            )

    def options(self, snapshot_type: SnapshotType) -> CheckpointOptions:
        """What its barriers carry: a savepoint's are always aligned (C29)."""
        if not self.is_exactly_once:
            return CheckpointOptions(snapshot_type=snapshot_type, alignment=AlignmentType.AT_LEAST_ONCE)
        if snapshot_type.is_savepoint or not self.is_unaligned:
            return CheckpointOptions(snapshot_type=snapshot_type)
        if self.aligned_timeout_ms is None:
            return CheckpointOptions(snapshot_type=snapshot_type, alignment=AlignmentType.UNALIGNED)
        return CheckpointOptions(snapshot_type=snapshot_type, aligned_timeout_ms=self.aligned_timeout_ms)
