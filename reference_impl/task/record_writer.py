"""Where a chain's last operator emits to: partitions of a network, or a sink.

Answers to Flink's `RecordWriter` and `RecordWriterDelegate`. Invariant: elements and events leave in the order in
which they were given, but for an event of priority, which may overtake (C3, C27).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reference_impl.elements import OperatorInput
from reference_impl.events import ChannelEvent
from reference_impl.queues.availability import AVAILABLE, Availability

__all__ = ["LocalRecordWriter", "RecordWriter"]


class RecordWriter(Protocol):
    """What a task writes to."""

    @property
    def is_available(self) -> Availability:
        """Whether a record would be taken without waiting: else the task is under soft back pressure (M42)."""

    @property
    def all_data_processed(self) -> Availability:
        """Whether every reader has processed what came before the `EndOfData` (M47)."""

    def emit(self, element: OperatorInput) -> None:
        """To one reader, or, unless it is a record, to all."""

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """To all readers."""

    def flush(self) -> None:
        """Nothing that was given is held back any longer."""


class LocalRecordWriter:
    """A writer without a network: elements and events go to whom they concern at once, and there is always room."""

    is_available: Availability = AVAILABLE
    all_data_processed: Availability = AVAILABLE

    def __init__(
        self,
        emit: Callable[[OperatorInput], None],
        *,
        on_event: Callable[[ChannelEvent], None] = lambda _event: None,
    ) -> None:
        self.emit = emit
        self._on_event = on_event

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """Nothing is on its way here that a priority event could overtake."""
        del is_priority
        self._on_event(event)

    def flush(self) -> None:
        """Nothing is held back."""
