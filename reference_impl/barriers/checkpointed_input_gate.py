"""A gate whose barriers are brought together on their way through.

Answers to Flink's `CheckpointedInputGate`. Invariant: every event goes through the barrier handler exactly once, before
anything behind it is read; a priority event waits for no record, since mail fetches it (C26).
"""

from __future__ import annotations

from contextlib import suppress

from reference_impl.barriers.checkpoint_barrier_handler import CheckpointBarrierHandler
from reference_impl.barriers.input_channel import ChannelElement
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.barriers.input_gate import InputGate
from reference_impl.elements import Record
from reference_impl.errors import MailboxClosed
from reference_impl.events import (
    CancelCheckpointMarker,
    ChannelEvent,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
    StopMode,
)
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.queues.availability import Availability

__all__ = ["CheckpointedInputGate"]


class CheckpointedInputGate:
    """A gate and the handler of its task, which several gates may share. Mutable; on the task's thread."""

    def __init__(
        self, input_gate: InputGate, barrier_handler: CheckpointBarrierHandler, executor: MailboxExecutor
    ) -> None:
        self.input_gate = input_gate
        self.barrier_handler = barrier_handler
        self._executor = executor
        self._await_priority_event()

    def poll_next(self) -> tuple[InputChannelInfo, ChannelElement] | None:
        """The next element and where it came from, or none; of an event the handler has been told."""
        polled = self.input_gate.poll_next()
        if polled is None or isinstance(polled[1], Record):
            return polled  # by far the most
        if isinstance(polled[1], ChannelEvent):
            self._handle(polled[0], polled[1])
        return polled

    def _handle(self, channel: InputChannelInfo, event: ChannelEvent) -> None:
        match event:
            case CheckpointBarrier():
                self.barrier_handler.process_barrier(event, channel)
            case EventAnnouncement():
                self.barrier_handler.process_barrier_announcement(
                    event.barrier, event.sequence_number, channel
                )
            case CancelCheckpointMarker():
                self.barrier_handler.process_cancellation_barrier(event, channel)
            case EndOfPartition():
                self.barrier_handler.process_end_of_partition(channel)
            case EndOfData():
                pass  # the gate has noted it; nothing of it concerns barriers

    def _await_priority_event(self) -> None:
        self.input_gate.is_priority_event_available.then(self._send_for_priority_events)

    def _send_for_priority_events(self) -> None:
        with suppress(MailboxClosed):  # the task is going down and takes no snapshot
            self._executor.execute(self._process_priority_events, "process priority events")

    def _process_priority_events(self) -> None:
        """As many as there are; some may have been read before this mail ran."""
        while self.input_gate.is_priority_event_available:
            self.poll_next()
        self._await_priority_event()

    @property
    def is_available(self) -> Availability:
        """The gate's."""
        return self.input_gate.is_available

    @property
    def is_finished(self) -> bool:
        """Whether the end of every channel has been read."""
        return self.input_gate.is_finished

    @property
    def end_of_data(self) -> StopMode | None:
        """How the data have ended, once they have in every channel."""
        return self.input_gate.end_of_data

    def close(self) -> None:
        """Wait for no barrier any more."""
        self.barrier_handler.close()
