"""What travels between tasks beside the elements: barriers, their cancellation, and the end.

Answers to Flink's `CheckpointBarrier`, `CancelCheckpointMarker`, `EventAnnouncement`, `EndOfData` and
`EndOfPartitionEvent`. Invariant: frozen values, in the order in which their channel carries them.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from reference_impl.checkpoint_options import CheckpointOptions

__all__ = [
    "CancelCheckpointMarker",
    "ChannelEvent",
    "CheckpointBarrier",
    "EndOfData",
    "EndOfPartition",
    "EventAnnouncement",
    "StopMode",
]


class StopMode(Enum):
    """Whether the end of data drains the task (M44)."""

    DRAIN = "drain"
    NO_DRAIN = "no drain"


class CheckpointBarrier(Struct, frozen=True, kw_only=True):
    """Checkpoint `checkpoint_id` cuts the channel here."""

    checkpoint_id: int
    timestamp: int = 0
    """When the checkpoint was triggered (ms); its alignment timeout counts from here (C26)."""
    options: CheckpointOptions = CheckpointOptions()

    def as_unaligned(self) -> CheckpointBarrier:
        """The same, overtaking what is in flight (C26, C27); a savepoint's cannot, which is an error (C29)."""
        return self if self.options.is_unaligned else replace(self, options=self.options.to_unaligned())


class CancelCheckpointMarker(Struct, frozen=True, kw_only=True):
    """No barrier of `checkpoint_id` will come; nobody waits for it (C2, C24)."""

    checkpoint_id: int


class EventAnnouncement(Struct, frozen=True, kw_only=True):
    """`barrier` has entered the channel behind what is still to be read: it may yet have to overtake that (C26)."""

    barrier: CheckpointBarrier
    sequence_number: int = 0
    """The place in the channel of what is announced."""


class EndOfData(Struct, frozen=True, kw_only=True):
    """No record follows; barriers may (C18)."""

    mode: StopMode = StopMode.DRAIN


class EndOfPartition(Struct, frozen=True, kw_only=True):
    """Nothing at all follows on this channel (C23)."""


ChannelEvent = CheckpointBarrier | CancelCheckpointMarker | EventAnnouncement | EndOfData | EndOfPartition
"""What a channel carries beside elements."""
