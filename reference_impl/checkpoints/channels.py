"""The two ends of a connection between tasks: the receiver's input channel and the sender's subpartition.

Answers to Flink's `RemoteInputChannel` with its `ChannelStatePersister`, to `PipelinedSubpartition`, and to what names
the two, `InputChannelInfo` and `ResultSubpartitionInfo`, which are frozen and ordered, so that what is kept by channel
has one order. Invariant: elements leave a channel in the order in which they came; only priority events overtake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
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

__all__ = [
    "ChannelElement",
    "InputChannel",
    "InputChannelInfo",
    "InputWriter",
    "OutputWriter",
    "PipelinedSubpartition",
    "ResultSubpartitionInfo",
]


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
    """One channel on the way in: what has come over the wire and was not read yet.

    The receiver's end of a connection. Mutable; on the task's thread. `len` is what was not read yet.

    Answers to Flink's `RemoteInputChannel` and `ChannelStatePersister`, and, for what a barrier does to the sender, to
    `PipelinedSubpartition`. Invariant: elements leave in the order in which they came; only priority events overtake. A
    channel that has given out a barrier that needs alignment gives out nothing else until it is resumed, whoever asks.

    Everything lies here, on the receiver's side, so a blocked channel is simply not read. Of a checkpoint for which the
    channel captures, exactly what entered before its barrier and was not read when it was taken is captured (C28).
    """

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


class OutputWriter(Protocol):
    """Who takes what is captured (the `ChannelStateWriter`)."""

    def add_output_data(
        self,
        checkpoint_id: int,
        info: ResultSubpartitionInfo,
        start_sequence_number: int,
        elements: Sequence[OperatorInput],
        /,
    ) -> None:
        """These are overtaken by the barrier of `checkpoint_id`."""

    def add_output_data_future(
        self, checkpoint_id: int, info: ResultSubpartitionInfo, data: Future[Sequence[OperatorInput]], /
    ) -> None:
        """The same, known later."""


class PipelinedSubpartition:
    """One channel on the way out: what a task has emitted and nobody has fetched.

    The sender's end of a connection. Mutable; on the task's thread. `len` is what nobody has fetched.

    Answers to Flink's `PipelinedSubpartition`. Invariant: elements leave in the order in which they were emitted; only
    priority events overtake, and what one overtakes here is captured as output, for it is in no operator's state and
    has not reached the receiver (C28).

    Where tasks share one loop the receiver's `InputChannel` can be written directly, and nothing is in flight here.
    """

    def __init__(self, info: ResultSubpartitionInfo, *, writer: OutputWriter | None = None) -> None:
        self.info = info
        self.on_data: Callable[[], None] = _nobody_reads
        """Called when there is something to fetch."""
        self._writer = writer
        self._priority: deque[ChannelElement] = deque()
        self._queue: deque[ChannelElement] = deque()
        self._waiting: tuple[CheckpointBarrier, Future[Sequence[OperatorInput]]] | None = None
        """A barrier that may still be made to overtake, and who is told what it overtook."""

    def __len__(self) -> int:
        return len(self._priority) + len(self._queue)

    def add(self, element: ChannelElement) -> None:
        """Emit it: an unaligned barrier overtakes what waits, which is captured (C27)."""
        match element:
            case CheckpointBarrier() if element.options.is_unaligned:
                if self._writer is not None:
                    self._writer.add_output_data(element.checkpoint_id, self.info, 0, _data(self._queue))
                self._priority.append(element)
            case CheckpointBarrier() if element.options.is_timeoutable:
                self._wait_for_timeout(element)
                self._queue.append(element)
            case _:
                self._queue.append(element)
        self.on_data()

    def poll(self) -> ChannelElement | None:
        """The next one, or none; a barrier that leaves in its turn has overtaken nothing."""
        elements = self._priority or self._queue
        if not elements:
            return None
        element = elements.popleft()
        if self._waiting is not None and element is self._waiting[0]:
            self._tell_overtaken(())
        return element

    def alignment_barrier_timeout(self, checkpoint_id: int) -> None:
        """If its barrier still waits here, it overtakes what is before it, which is captured (C26)."""
        if self._waiting is None or self._waiting[0].checkpoint_id != checkpoint_id:
            return
        barrier = self._waiting[0]
        place = self._queue.index(barrier)
        overtaken = _data([self._queue[index] for index in range(place)])
        del self._queue[place]
        self._priority.append(barrier.as_unaligned())
        self._tell_overtaken(overtaken)
        self.on_data()

    def abort_checkpoint(self, checkpoint_id: int, cause: BaseException) -> None:
        """Nobody wants to know what it would overtake."""
        if self._waiting is not None and self._waiting[0].checkpoint_id <= checkpoint_id:
            (_, known), self._waiting = self._waiting, None
            known.set_exception(cause)

    def _wait_for_timeout(self, barrier: CheckpointBarrier) -> None:
        if self._waiting is not None:
            self._tell_overtaken(())  # an older checkpoint, which nobody can complete any more
        known: Future[Sequence[OperatorInput]] = Future()
        self._waiting = barrier, known
        if self._writer is not None:
            self._writer.add_output_data_future(barrier.checkpoint_id, self.info, known)

    def _tell_overtaken(self, elements: Sequence[OperatorInput]) -> None:
        assert self._waiting is not None, "nobody waits to be told"
        (_, known), self._waiting = self._waiting, None
        known.set_result(elements)


def _data(elements: Sequence[ChannelElement] | deque[ChannelElement]) -> list[OperatorInput]:
    return [element for element in elements if not isinstance(element, ChannelEvent)]


def _nobody_reads() -> None:
    """Before a receiver listens."""
