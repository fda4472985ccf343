"""Which channel: the gate, and the place in it.

Answers to Flink's `InputChannelInfo` and `ResultSubpartitionInfo`. Invariant: frozen and ordered, so that what is
kept by channel has one order.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["InputChannelInfo", "ResultSubpartitionInfo"]


class InputChannelInfo(Struct, frozen=True, order=True):
    """A channel on the way in."""

    gate_idx: int
    input_channel_idx: int

    def __str__(self) -> str:
        return f"channel {self.input_channel_idx} of gate {self.gate_idx}"


class ResultSubpartitionInfo(Struct, frozen=True, order=True):
    """A channel on the way out."""

    partition_idx: int
    sub_partition_idx: int

    def __str__(self) -> str:
        return f"subpartition {self.sub_partition_idx} of partition {self.partition_idx}"
