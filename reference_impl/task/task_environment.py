"""What a task knows of the job around it, and whom it tells what became of it.

Answers to Flink's `Environment`. Invariant: nothing in here changes while the task lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reference_impl.checkpoint_failure import CheckpointException
from reference_impl.queues.availability import Availability

__all__ = ["TaskEnvironment"]


def _run_at_once(action: Callable[[], None]) -> None:
    action()


def _nothing_was_in_flight() -> None:
    """There is no channel state."""


def _nobody_asks() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnvironment:
    """Handed to a task when it is built."""

    task_name: str
    decline_checkpoint: Callable[[int, CheckpointException], None]
    """The coordinator hears that the task has no part in a checkpoint (C16)."""
    notify_end_of_data: Callable[[], None] = _nobody_asks
    """The coordinator hears that the task has processed its last record (M41)."""
    restored_checkpoint_id: int | None = None
    checkpoints_after_tasks_finish: bool = True
    """Whether a task that has no more data stays until a last checkpoint is complete (C18, FLIP-147)."""
    read_channel_state: Callable[[], None] = _nothing_was_in_flight
    """Put what was in flight back into the channels; runs in `channel_io`, and what it raises fails the task (M46)."""
    channel_io: Callable[[Callable[[], None]], None] = _run_at_once
    """Runs one action, on whatever thread, now or later."""
    changelog: Callable[[], Availability] | None = None
    """Whether the state's changelog takes further changes (M42); None: there is none."""
