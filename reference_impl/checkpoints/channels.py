"""The receiver's end of a connection between tasks: its input channel. A sender writes into it directly.

Answers to Flink's `RemoteInputChannel` with its `ChannelStatePersister`, and to its identifier `InputChannelInfo`,
which is ordered so that state kept by channel has a fixed order. Invariant: elements leave a channel in the order in
which they came; only priority events overtake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from msgspec import Struct

from reference_impl.checkpoint_events import (
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
)
from reference_impl.elements import OperatorInput
from reference_impl.errors import WrongState
from reference_impl.mailbox.availability import Availability


class InputChannelInfo(Struct, frozen=True, order=True):
    """Identifies an input channel."""

    gate_idx: int
    input_channel_idx: int

    def __str__(self) -> str:
        return f"channel {self.input_channel_idx} of gate {self.gate_idx}"


ChannelElement = OperatorInput | ChannelEvent
"""What a channel carries."""


class InputWriter(Protocol):
    """Receives the captured input; the `ChannelStateWriter`."""

    def add_input_data(
        self,
        checkpoint_id: int,
        info: InputChannelInfo,
        start_sequence_number: int,
        elements: list[OperatorInput],
        /,
    ) -> None:
        """Store elements that were in flight before the barrier of `checkpoint_id`."""


class _Place(NamedTuple):
    """An element with its sequence number in the channel."""

    sequence_number: int
    element: ChannelElement


class InputChannel:
    """One input channel: what has arrived and was not read yet.

    Mutable; used on the task's thread; `len` counts unread elements.

    Answers to Flink's `RemoteInputChannel` and `ChannelStatePersister`, and, in what a barrier does on the sender's
    side, to `PipelinedSubpartition`. Invariant: elements leave in the order in which they came; only priority events
    overtake. After a barrier that needs alignment was read, nothing more can be read until `resume`.

    All data waits on the receiver's side, so a blocked channel is simply not read. When a checkpoint captures
    in-flight data, exactly the elements are captured that came before its barrier and were unread at the snapshot
    (C28).
    """

    def __init__(self, info: InputChannelInfo, *, writer: InputWriter | None = None) -> None:
        self.info = info
        self.on_change: Callable[[], None] = lambda: None
        """Called when something becomes readable; set by the gate."""
        self.all_data_processed = Availability()
        """Ends when the end of the data has been read, hence also everything before it (M47)."""
        self._writer = writer
        self._priority: deque[_Place] = deque()
        self._queue: deque[_Place] = deque()
        self._next_sequence_number = 0
        self._blocked = False
        self._entered_id = -1
        """The highest barrier that has arrived, read or not; next, its sequence number."""
        self._entered_at = -1
        self._capturing: int | None = None
        """The checkpoint whose barrier has not arrived, while everything that arrives before it is captured."""
        self._ended = False
        self._finished = False

    def __len__(self) -> int:
        return len(self._priority) + len(self._queue)

    # ------------------------------------------------------------------------------------------ the sender's side

    def put(self, element: ChannelElement) -> None:
        """Take what arrives: an unaligned barrier overtakes; one that can time out is announced (C26)."""
        if self._ended:
            raise WrongState(f"{self.info} has ended; nothing may follow its end, not even {element}")
        place = _Place(self._next_sequence_number, element)
        self._next_sequence_number += 1
        match element:
            case CheckpointBarrier():
                self._barrier_enters(place, element)
            case EndOfPartition():
                self._ended = True
                self._queue.append(place)
            case _:
                if (
                    self._capturing is not None
                    and self._writer is not None
                    and not isinstance(element, ChannelEvent)
                ):
                    number = place.sequence_number
                    self._writer.add_input_data(self._capturing, self.info, number, [element])
                self._queue.append(place)
        self.on_change()

    def recover(self, elements: Iterable[OperatorInput]) -> None:
        """Put the in-flight elements of a restored checkpoint before anything that arrives (M46)."""
        if self._next_sequence_number != 0:
            raise WrongState(f"{self.info} must get recovered elements before any others; create it anew")
        for element in elements:
            self.put(element)

    def _barrier_enters(self, place: _Place, barrier: CheckpointBarrier) -> None:
        if barrier.checkpoint_id > self._entered_id:
            self._entered_id, self._entered_at = barrier.checkpoint_id, place.sequence_number
        if self._capturing is not None and barrier.checkpoint_id >= self._capturing:
            self._capturing = None
        if barrier.options.is_unaligned:
            self._priority.append(place)
            return
        self._queue.append(place)
        if barrier.options.is_timeoutable:
            announcement = EventAnnouncement(barrier=barrier, sequence_number=place.sequence_number)
            self._priority.append(_Place(place.sequence_number, announcement))

    # ---------------------------------------------------------------------------------------- the receiver's side

    @property
    def is_readable(self) -> bool:
        return not self._blocked and bool(self._priority or self._queue)

    @property
    def has_priority_event(self) -> bool:
        return not self._blocked and bool(self._priority)

    @property
    def head(self) -> ChannelElement | None:
        """What `poll` would return."""
        if self._blocked:
            return None
        places = self._priority or self._queue
        return places[0].element if places else None

    def poll(self) -> ChannelElement | None:
        """Remove and return the next element, or None."""
        if self._blocked:
            return None
        places = self._priority or self._queue
        if not places:
            return None
        element = places.popleft().element
        match element:
            case CheckpointBarrier():
                self._blocked = element.options.needs_alignment
            case EndOfData():
                self.all_data_processed.end()
            case EndOfPartition():
                self._finished = True
        return element

    @property
    def is_blocked(self) -> bool:
        """Whether nothing may be read now (C22)."""
        return self._blocked

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will arrive; the end itself may still be unread."""
        return self._ended

    @property
    def is_finished(self) -> bool:
        """Whether the end has been read."""
        return self._finished

    def block(self) -> None:
        """Allow no reads until `resume`."""
        self._blocked = True

    def resume(self) -> None:
        """Allow reads again; without effect if the channel is not blocked."""
        if self._blocked:
            self._blocked = False
            self.on_change()

    def convert_to_priority_event(self, sequence_number: int) -> None:
        """Make the barrier with this sequence number overtake, and drop its announcement if unread.

        The barrier stays aligned: its reader sees an aligned barrier that comes early.
        """
        for place in self._queue:
            if place.sequence_number == sequence_number and isinstance(place.element, CheckpointBarrier):
                break
        else:
            raise WrongState(
                f"no unread barrier has sequence number {sequence_number} in {self.info}; it was read, or has overtaken"
            )
        self._queue.remove(place)
        for announced in list(self._priority):
            if announced.sequence_number == sequence_number:
                self._priority.remove(announced)
        self._priority.append(place)
        self.on_change()

    # ----------------------------------------------------------------------------------------- what is in flight

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Capture unread elements up to the barrier of this checkpoint, whether or not it has arrived (C27).

        If a newer barrier has arrived already, the checkpoint is declined; the task goes on (FLINK-20331).
        """
        checkpoint_id = barrier.checkpoint_id
        if self._entered_id > checkpoint_id:
            raise CheckpointException(
                CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED,
                f"in {self.info} the barrier of {self._entered_id} has come before {checkpoint_id} began",
            )
        has_entered = self._entered_id == checkpoint_id
        before = self._entered_at if has_entered else self._next_sequence_number
        self._capturing = None if has_entered else checkpoint_id
        places = [place for place in self._queue if place.sequence_number < before]
        captured = [place.element for place in places if not isinstance(place.element, ChannelEvent)]
        if captured and self._writer is not None:
            self._writer.add_input_data(checkpoint_id, self.info, places[0].sequence_number, captured)

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """Stop capturing for this checkpoint and older ones."""
        if self._capturing is not None and self._capturing <= checkpoint_id:
            self._capturing = None
