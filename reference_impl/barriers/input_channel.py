"""One channel on the way in: what has come over the wire and was not read yet.

Answers to Flink's `RemoteInputChannel` and `ChannelStatePersister`, and, for what a barrier does to the sender, to
`PipelinedSubpartition`. Invariant: elements leave in the order in which they came; only priority events overtake. A
channel that has given out a barrier that needs alignment gives out nothing else until it is resumed, whoever asks.

Everything lies here, on the receiver's side, so a blocked channel is simply not read. Of a checkpoint for which
the channel captures, exactly what entered before its barrier and was not read when it was taken is captured (C28).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.checkpoint_failure import CheckpointException, CheckpointFailureReason
from reference_impl.elements import OperatorInput
from reference_impl.errors import WrongState
from reference_impl.events import (
    ChannelEvent,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
)
from reference_impl.queues.availability import Availability

__all__ = ["ChannelElement", "InputChannel", "InputWriter"]

ChannelElement = OperatorInput | ChannelEvent
"""What a channel carries."""


class InputWriter(Protocol):
    """Who takes what is captured (the `ChannelStateWriter`)."""

    def add_input_data(
        self,
        checkpoint_id: int,
        info: InputChannelInfo,
        start_sequence_number: int,
        elements: list[OperatorInput],
        /,
    ) -> None:
        """These are in flight, before the barrier of `checkpoint_id`."""


class _Place(NamedTuple):
    """An element, and which it is of all that came."""

    sequence_number: int
    element: ChannelElement


class InputChannel:
    """The receiver's end of a connection. Mutable; on the task's thread. `len` is what was not read yet."""

    def __init__(self, info: InputChannelInfo, *, writer: InputWriter | None = None) -> None:
        self.info = info
        self.on_change: Callable[[], None] = _nobody
        """Called when there is something to read where there was nothing; the gate's."""
        self.all_data_processed = Availability()
        """Ends when the end of the data has been read, and so all that was before it (M47)."""
        self._writer = writer
        self._priority: deque[_Place] = deque()
        self._queue: deque[_Place] = deque()
        self._next_sequence_number = 0
        self._blocked = False
        self._entered_id = -1
        """The highest barrier that has entered, read or not, and its place."""
        self._entered_at = -1
        self._capturing: int | None = None
        """The checkpoint whose barrier is waited for, while what comes before it is captured."""
        self._ended = False
        self._finished = False

    def __len__(self) -> int:
        return len(self._priority) + len(self._queue)

    # ------------------------------------------------------------------------------------------ the sender's side

    def put(self, element: ChannelElement) -> None:
        """It comes over the wire: an unaligned barrier overtakes, one that may time out is announced (C26)."""
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
                if self._capturing is not None:
                    self._capture(self._capturing, place)
                self._queue.append(place)
        self.on_change()

    def recover(self, elements: Iterable[OperatorInput]) -> None:
        """What was in flight when the checkpoint cut stands before all that will come (M46)."""
        if self._next_sequence_number != 0:
            raise WrongState(f"{self.info} takes what it recovers before anything else; open it anew")
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
        """Whether `poll` would give something."""
        return not self._blocked and bool(self._priority or self._queue)

    @property
    def has_priority_event(self) -> bool:
        """Whether `poll` would give a priority event."""
        return not self._blocked and bool(self._priority)

    @property
    def head(self) -> ChannelElement | None:
        """What `poll` would give."""
        if self._blocked:
            return None
        places = self._priority or self._queue
        return places[0].element if places else None

    def poll(self) -> ChannelElement | None:
        """The next one, or none."""
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
        """Whether it gives out nothing, whatever it holds (C22)."""
        return self._blocked

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come, though its end may still have to be read."""
        return self._ended

    @property
    def is_finished(self) -> bool:
        """Whether its end has been read."""
        return self._finished

    def block(self) -> None:
        """Give out nothing until resumed."""
        self._blocked = True

    def resume(self) -> None:
        """Go on; without effect on one that is not blocked."""
        if self._blocked:
            self._blocked = False
            self.on_change()

    def convert_to_priority_event(self, sequence_number: int) -> None:
        """The barrier in that place overtakes what is before it; its announcement, if unread, is spared.

        The barrier itself stays as it is, so whoever reads it sees an aligned one that comes early.
        """
        for place in self._queue:
            if place.sequence_number == sequence_number and isinstance(place.element, CheckpointBarrier):
                break
        else:
            raise WrongState(
                f"no barrier waits in place {sequence_number} of {self.info}; it was read, or overtakes already"
            )
        self._queue.remove(place)
        for announced in list(self._priority):
            if announced.sequence_number == sequence_number:
                self._priority.remove(announced)
        self._priority.append(place)
        self.on_change()

    # ----------------------------------------------------------------------------------------- what is in flight

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Capture what was not read, up to the barrier of this checkpoint, come or not (C27).

        If a newer one has come already, this checkpoint cannot be taken any more, which the task survives
        (FLINK-20331).
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
        """Capture nothing more for that one, or for one before it."""
        if self._capturing is not None and self._capturing <= checkpoint_id:
            self._capturing = None

    def _capture(self, checkpoint_id: int, place: _Place) -> None:
        if self._writer is not None and not isinstance(place.element, ChannelEvent):
            self._writer.add_input_data(checkpoint_id, self.info, place.sequence_number, [place.element])


def _nobody() -> None:
    """Before a gate listens."""
