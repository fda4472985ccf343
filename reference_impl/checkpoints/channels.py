"""The input channels between tasks, and the writer of the elements that a barrier overtook in them.

Answers to Flink's `RemoteInputChannel` with its `ChannelStatePersister`, and to its identifier `InputChannelInfo`,
which is ordered so that state kept by channel has a fixed order. Invariant: elements leave a channel in the order in
which they came; only priority events overtake.

Answers to Flink's `ChannelStateWriter` and `ChannelStateWriteRequestDispatcher`, and to the handle that they write,
`InputChannelStateHandle`. Invariant: a handle is a frozen plain value with the
elements in their order in the channel; a channel without captured elements gets no handle (C10).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from msgspec import Struct

from reference_impl.checkpoint_events import (
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointOptions,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChannelStateHandle:
    """The captured elements of an input channel."""

    info: InputChannelInfo
    elements: tuple[OperatorInput, ...]


InputState = tuple[InputChannelStateHandle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateWriteResult:
    """A future for the captured elements; its result is None if nothing was captured (C10)."""

    input_channel_state: Future[InputState | None] = field(default_factory=Future)

    @property
    def is_done(self) -> bool:
        return self.input_channel_state.done()

    def fail(self, cause: BaseException) -> None:
        """Fail the future if it has not ended."""
        if not self.input_channel_state.done():
            self.input_channel_state.set_exception(cause)


@dataclass(slots=True, kw_only=True)
class _Writing:
    """A checkpoint whose in-flight data are being collected. Mutable."""

    result: ChannelStateWriteResult = field(default_factory=ChannelStateWriteResult)
    inputs: dict[InputChannelInfo, list[OperatorInput]] = field(default_factory=dict)


class ChannelStateWriter:
    """Collects the in-flight data around one task, for one checkpoint at a time. Mutable; used on the task's thread.

    Answers to Flink's `ChannelStateWriter` and `ChannelStateWriteRequestDispatcher`. Invariant: each result that was
    started ends, successfully or not (FLINK-28474), and data captured for one checkpoint never enter the result of
    another (FLINK-29730).

    Ids rise. A newer checkpoint fails the older one that is still open, as subsumed. Data for a checkpoint that has
    ended are dropped; an abort may come before the start (FLINK-17218, FLINK-17869).
    """

    def __init__(self) -> None:
        self._writing: dict[int, _Writing] = {}
        """Results that were not fetched yet, in the order of ids."""
        self._open: tuple[int, _Writing] | None = None
        """The checkpoint for which data are accepted, whether or not its result was fetched."""
        self._last_started = -1
        self._aborted_early: set[int] = set()
        """Checkpoints aborted before their start; forgotten when a later one starts."""
        self._closed: BaseException | None = None

    def start(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Begin collecting; an error for a checkpoint that captures no in-flight data (C29, FLINK-18136)."""
        if not options.needs_channel_state:
            raise ValueError(
                f"checkpoint {checkpoint_id} ({options.snapshot_type.value}, {options.alignment.value}) captures "
                "no in-flight data (C29); call start only if options.needs_channel_state"
            )
        if checkpoint_id <= self._last_started:
            raise WrongState(
                f"in-flight data of checkpoint {checkpoint_id} cannot be started after those of "
                f"{self._last_started}; start checkpoints in rising order"
            )
        self._last_started = checkpoint_id
        if self._open is not None:
            number, older = self._open
            detail = f"checkpoint {number} was overtaken by {checkpoint_id}"
            self._end(
                older, CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED, detail)
            )
        writing = _Writing()
        self._writing[checkpoint_id] = writing
        self._open = checkpoint_id, writing
        if self._closed is not None:
            self._end(writing, self._closed)
        elif checkpoint_id in self._aborted_early:
            detail = "aborted before it began"
            self._end(writing, CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED, detail))
        self._aborted_early = {number for number in self._aborted_early if number > checkpoint_id}

    def add_input_data(
        self,
        checkpoint_id: int,
        info: InputChannelInfo,
        start_sequence_number: int,
        elements: Sequence[OperatorInput],
    ) -> None:
        """Add elements that were in flight in `info` before the barrier.

        They arrive in order; the number is not used.
        """
        writing = self._writing_of(checkpoint_id)
        if writing is None or writing.result.input_channel_state.done():
            return
        writing.inputs.setdefault(info, []).extend(elements)

    def finish_input(self, checkpoint_id: int) -> None:
        """All barriers have come: no more input will be captured."""
        writing = self._writing_of(checkpoint_id)
        if writing is not None and not writing.result.input_channel_state.done():
            handles = (
                InputChannelStateHandle(info=info, elements=tuple(writing.inputs[info]))
                for info in sorted(writing.inputs)
            )
            writing.result.input_channel_state.set_result(tuple(handles) or None)

    def abort(self, checkpoint_id: int, cause: BaseException, *, cleanup: bool) -> None:
        """Fail the checkpoint, started or not; with `cleanup`, drop a result that nobody will fetch."""
        if checkpoint_id > self._last_started:
            self._aborted_early.add(checkpoint_id)
        if self._open is not None and self._open[0] == checkpoint_id:
            self._end(self._open[1], cause)
        if checkpoint_id in self._writing:
            self._end(self._writing[checkpoint_id], cause)
        if cleanup:
            self._writing.pop(checkpoint_id, None)

    def get_and_remove_write_result(self, checkpoint_id: int) -> ChannelStateWriteResult:
        """Return the future for this checkpoint; can be called once."""
        writing = self._writing.pop(checkpoint_id, None)
        if writing is None:
            raise WrongState(
                f"no in-flight data are collected for checkpoint {checkpoint_id}; start it first, and fetch it once"
            )
        return writing.result

    def close(self) -> None:
        """Fail all open results, and those started later."""
        self._closed = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING)
        for writing in self._writing.values():
            self._end(writing, self._closed)
        if self._open is not None:
            self._end(self._open[1], self._closed)

    def _writing_of(self, checkpoint_id: int) -> _Writing | None:
        """None if the checkpoint has ended; an error if it never started."""
        if self._open is not None and self._open[0] == checkpoint_id:
            return self._open[1]
        if checkpoint_id > self._last_started and checkpoint_id not in self._aborted_early:
            raise WrongState(
                f"in-flight data of checkpoint {checkpoint_id} came before its start; call start first"
            )
        return None

    def _end(self, writing: _Writing, cause: BaseException) -> None:
        writing.result.fail(cause)
        writing.inputs.clear()
