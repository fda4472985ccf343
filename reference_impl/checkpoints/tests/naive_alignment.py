"""What a task is told of its checkpoints, by a model too simple to be wrong: C20-C24 word for word.

Invariant: the model hears what the handler hears, in the same order, and knows nothing of channels being blocked.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
)
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.tests.bench import Bench
from reference_impl.checkpoints.tests.interleavings import Run

Told = tuple[str, int]


class NaiveAlignment:
    """What the task is told, from the order in which events were read: C20-C24 word for word."""

    def __init__(self, channels: int, *, count_ended: bool) -> None:
        self.open = set(range(channels))
        self.count_ended = count_ended
        self.current = -1
        self.missing: set[int] | None = None
        """Channels whose barrier is waited for; None with nothing pending."""
        self.seen: set[int] = set()
        self.told: list[Told] = []

    def barrier(self, channel: int, number: int) -> None:
        if number > self.current:
            if self.missing is not None:
                self.told.append(("aborted", self.current))
            self.current, self.missing, self.seen = number, set(self.open), set()
        elif number < self.current or self.missing is None:
            return
        self.arrived(channel)

    def arrived(self, channel: int) -> None:
        assert self.missing is not None
        self.seen.add(channel)
        self.missing.discard(channel)
        if not self.missing:
            self.told.append(("triggered", self.current))
            self.missing = None

    def cancelled(self, number: int) -> None:
        if number > self.current or (number == self.current and self.missing is not None):
            self.told.append(("aborted", number))
            self.current, self.missing = number, None

    def ended(self, channel: int) -> None:
        self.open.discard(channel)
        if self.missing is None:
            return
        if self.count_ended:
            self.arrived(channel)
        else:
            self.told.append(("aborted", self.current))
            self.missing = None


class Overheard:
    """A handler whose model hears the same, and whose task's words are noted in their order."""

    def __init__(self, *, task: Any, handler: Any, model: Any) -> None:
        self.told: list[Told] = []
        self._task = task
        self.handler = handler(self)
        self.model = model

    def trigger_checkpoint_on_barrier(self, metadata: CheckpointMetaData, *rest: Any) -> None:
        self.told.append(("triggered", metadata.checkpoint_id))
        self._task.trigger_checkpoint_on_barrier(metadata, *rest)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        self.told.append(("aborted", checkpoint_id))
        self._task.abort_checkpoint_on_barrier(checkpoint_id, exception)

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannelInfo) -> None:
        self.model.barrier(channel.input_channel_idx, barrier.checkpoint_id)
        self.handler.process_barrier(barrier, channel)

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        self.model.cancelled(marker.checkpoint_id)
        self.handler.process_cancellation_barrier(marker, channel)

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        self.model.ended(channel.input_channel_idx)
        self.handler.process_end_of_partition(channel)

    @property
    def is_checkpoint_pending(self) -> bool:
        return bool(self.handler.is_checkpoint_pending)


def as_the_model(bench: Bench, _run: Run) -> None:
    assert isinstance(bench.handler, Overheard)
    assert bench.handler.told == bench.handler.model.told
