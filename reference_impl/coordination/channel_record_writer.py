"""From the tail of a chain into the channels of whoever reads from it.

Answers to Flink's `ChannelSelectorRecordWriter`, `KeyGroupStreamPartitioner` and `RebalancePartitioner`. Invariant: a
record goes into one channel of each reader, all else into every channel; a key's records go to the subtask that owns
the key (S8).

A channel's queue lies with its reader (`barriers.input_channel`), so nothing is ever in flight on this side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from reference_impl.barriers.input_channel import InputChannel
from reference_impl.elements import OperatorInput, Record
from reference_impl.events import ChannelEvent
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.state.key_groups import assign_key_to_parallel_operator

__all__ = ["ChannelRecordWriter", "ChannelSelector", "by_key", "rebalanced"]

ChannelSelector = Callable[[Any], int]
"""Which channel of a reader gets a record, by its value."""


def by_key(key_of: Callable[[Any], Any], *, max_parallelism: int, parallelism: int) -> ChannelSelector:
    """The subtask that owns the key."""
    return lambda value: assign_key_to_parallel_operator(key_of(value), max_parallelism, parallelism)


def rebalanced(parallelism: int) -> ChannelSelector:
    """Each in turn."""
    turn = cycle(range(parallelism))
    return lambda _value: next(turn)


class ChannelRecordWriter:
    """A `RecordWriter`; of each reader it has the channels in the order of the reader's subtasks."""

    is_available: Availability = AVAILABLE

    def __init__(self, readers: Sequence[tuple[ChannelSelector, Sequence[InputChannel]]]) -> None:
        self._readers = readers
        self.all_data_processed = _all(
            [channel.all_data_processed for _, channels in readers for channel in channels]
        )
        """Whether every reader has read the end of the data. What the last barrier has overtaken is read before the
        task finishes: a checkpoint after that begins at the readers, and says that nothing came before them (M47, C28).
        """

    def emit(self, element: OperatorInput) -> None:
        """A record to whom it concerns, all else to all."""
        for select, channels in self._readers:
            if isinstance(element, Record):
                channels[select(element.value)].put(element)
            else:
                for channel in channels:
                    channel.put(element)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """To all; whether a barrier overtakes stands in the barrier, and the channel sees to it."""
        del is_priority
        for _, channels in self._readers:
            for channel in channels:
                channel.put(event)

    def flush(self) -> None:
        """Nothing is held back."""


def _all(waits: Sequence[Availability]) -> Availability:
    """What ends with the last of them."""
    together = Availability(ended=not waits)

    def look() -> None:
        if all(waits) and not together:
            together.end()

    for wait in waits:
        wait.then(look)
    return together
