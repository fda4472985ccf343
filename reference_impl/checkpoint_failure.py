"""Why a checkpoint did not come to its end.

Answers to Flink's `CheckpointFailureReason` and `CheckpointException`. Invariant: a failed checkpoint has exactly one
reason, the first.
"""

from __future__ import annotations

from enum import Enum

from reference_impl.errors import OperatorError

__all__ = ["CheckpointException", "CheckpointFailureReason"]


class CheckpointFailureReason(Enum):
    """The reasons, by Flink's names, each with a sentence for people."""

    CHECKPOINT_DECLINED = "a task declined the checkpoint"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "a task was not running when it was asked for its part (C16)"
    CHECKPOINT_DECLINED_TASK_CLOSING = "a task was closing"
    CHECKPOINT_DECLINED_SUBSUMED = "a newer checkpoint's barrier came first (C21)"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "an upstream task gave it up (C24)"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "an input ended before its barrier came (C23)"
    CHECKPOINT_ASYNC_EXCEPTION = "writing the snapshot failed (C9)"
    CHECKPOINT_EXPIRED = "it did not complete in time (C36)"
    CHECKPOINT_SUBSUMED = "a later checkpoint completed first (C35)"
    CHECKPOINT_COORDINATOR_SHUTDOWN = "the coordinator was shut down"
    CHECKPOINT_COORDINATOR_SUSPEND = "the coordinator was suspended"
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = "writing what was in flight failed (C28)"
    FINALIZE_CHECKPOINT_FAILURE = "its metadata could not be made durable (C35)"
    IO_EXCEPTION = "an input or output error"
    JOB_FAILURE = "the job failed"
    TASK_FAILURE = "a task failed before it had acknowledged (C36)"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "the last one completed less than the minimum pause ago (C33)"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "a task that is needed is not running"
    PERIODIC_SCHEDULER_SHUTDOWN = "the periodic scheduler is off"
    TOO_MANY_CHECKPOINT_REQUESTS = "too many requests wait already (C33)"
    TOO_MANY_CONCURRENT_CHECKPOINTS = "as many as may be are pending already (C32)"
    TRIGGER_CHECKPOINT_FAILURE = "it could not be triggered"


class CheckpointException(OperatorError):
    """A checkpoint failed for `reason`; what led to it is the cause."""

    def __init__(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        super().__init__(f"{reason.name}: {reason.value}" + (f"; {detail}" if detail else ""))
        self.reason = reason
