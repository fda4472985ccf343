"""Which of the checkpoints that were asked for starts next, and which never will.

Answers to Flink's `CheckpointRequestDecider` and its `CheckpointTriggerRequest`. Invariant: every request is
chosen once, or fails once with a reason; none is forgotten.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

from reference_impl.checkpoint_failure import CheckpointException, CheckpointFailureReason
from reference_impl.coordination.checkpoint_properties import CheckpointProperties
from reference_impl.coordination.completed_checkpoint import CompletedCheckpoint

__all__ = ["MAX_QUEUED_REQUESTS", "CheckpointRequestDecider", "CheckpointTriggerRequest", "end_request"]

MAX_QUEUED_REQUESTS = 1_000
"""More are refused (C33)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointTriggerRequest:
    """Somebody, or the clock, asks for a checkpoint; compared by identity."""

    properties: CheckpointProperties
    timestamp_ms: int
    is_periodic: bool = False
    on_completion: Future[CompletedCheckpoint] = field(default_factory=Future)
    """Ends as the checkpoint does, with a CheckpointException if it fails."""

    @property
    def urgency(self) -> tuple[bool, bool, bool, int]:
        """The least first: savepoints, forced ones, those that somebody asked for; among equals the oldest (C32)."""
        properties = self.properties
        return (not properties.is_savepoint, not properties.is_forced, self.is_periodic, self.timestamp_ms)

    def fail(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        """It will not start."""
        end_request(self.on_completion, CheckpointException(reason, detail))


def end_request(
    future: Future[CompletedCheckpoint], outcome: CompletedCheckpoint | CheckpointException
) -> None:
    """Tell whoever asked for a checkpoint what came of it, unless they want to know no longer."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, CheckpointException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class CheckpointRequestDecider:
    """The queue of requests, and the rules that let the first of it start. Mutable; `len` is the number waiting."""

    def __init__(
        self,
        *,
        max_concurrent_checkpoints: int,
        min_pause_ms: int,
        now_ms: Callable[[], int],
        pending: Callable[[], int],
        cleaning: Callable[[], int],
        reschedule: Callable[[int], None],
        max_queued_requests: int = MAX_QUEUED_REQUESTS,
    ) -> None:
        self._max_concurrent = max_concurrent_checkpoints
        self._min_pause_ms = min_pause_ms
        self._now_ms = now_ms
        self._pending = pending
        self._cleaning = cleaning
        self._reschedule = reschedule
        self._max_queued = max_queued_requests
        self._number = count().__next__
        self._queue: list[tuple[tuple[bool, bool, bool, int], int, CheckpointTriggerRequest]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def choose_request_to_execute(
        self, request: CheckpointTriggerRequest, *, is_triggering: bool, last_completion_ms: int | None
    ) -> CheckpointTriggerRequest | None:
        """Take `request` in, and say what may start now: it, another, or nothing."""
        if len(self._queue) >= self._max_queued and not self._queue[-1][-1].is_periodic:
            request.fail(CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS, f"{len(self._queue)} wait")
            return None
        insort(self._queue, (request.urgency, self._number(), request))
        if len(self._queue) > self._max_queued:
            self._queue.pop()[-1].fail(
                CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS, f"{self._max_queued} wait"
            )
        return self.choose_queued_request_to_execute(
            is_triggering=is_triggering, last_completion_ms=last_completion_ms
        )

    def choose_queued_request_to_execute(
        self, *, is_triggering: bool, last_completion_ms: int | None
    ) -> CheckpointTriggerRequest | None:
        """What may start now (C32); a periodic one that is too early fails instead (C33)."""
        if is_triggering or not self._queue or self._cleaning() > self._max_concurrent:
            return None
        first = self._queue[0][-1]
        if self._pending() >= self._max_concurrent:
            return self._take() if first.properties.is_forced else None
        if first.is_periodic and not first.properties.is_forced and last_completion_ms is not None:
            wait_ms = last_completion_ms + self._min_pause_ms - self._now_ms()
            if wait_ms > 0:
                self._take().fail(
                    CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS, f"{wait_ms} ms are left"
                )
                self._reschedule(wait_ms)
                return None
        return self._take()

    def abort_all(self, reason: CheckpointFailureReason) -> None:
        """None of them will start."""
        queue, self._queue = self._queue, []
        for _, _, request in queue:
            request.fail(reason)

    def _take(self) -> CheckpointTriggerRequest:
        return self._queue.pop(0)[-1]
