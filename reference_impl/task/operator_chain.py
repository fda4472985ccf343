"""Several operators in one task: what one emits, the next processes, at once and on the same thread.

Answers to Flink's `OperatorChain`, `RegularOperatorChain` and `FinishedOperatorChain`. Invariant: a yield in one
operator runs mail of its own and of those behind it, never of those before it (A30, M25), for the place in the
chain is the priority; so no emission is re-entered (A90). What begins, begins at the tail, what ends, ends at the
head (M45, M46).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from reference_impl.checkpoint_events import (
    ChannelEvent,
    CheckpointBarrier,
    CheckpointMetaData,
    CheckpointOptions,
    StopMode,
)
from reference_impl.elements import OperatorInput, Record
from reference_impl.errors import WrongState
from reference_impl.mailbox.availability import AVAILABLE, Availability
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.stream_operator import (
    Emit,
    OperatorStateHandler,
    StreamOperator,
    StreamOperatorFactory,
    StreamOperatorWrapper,
    TwoInputStreamOperator,
    WithRoom,
    can,
)
from reference_impl.task.task_environment import RecordWriter

__all__ = ["FinishedOperatorChain", "OperatorChain", "OperatorLink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorLink:
    """What to put at one place of a chain."""

    operator_id: str
    """Names the operator's state in every checkpoint; unique in the job."""
    build: StreamOperatorFactory
    state_handler: Callable[[Any, Timers], OperatorStateHandler] | None = None
    """Who keeps the state of the operator that was built, which has those timers; None: it has no state."""


class OperatorChain:
    """Operators from head to tail. Mutable, as they are."""

    wrapper: ClassVar[type[StreamOperatorWrapper]] = StreamOperatorWrapper

    def __init__(
        self,
        links: Sequence[OperatorLink],
        *,
        mailbox: Mailbox,
        timers: Callable[[MailboxExecutor], Timers],
        record_writer: RecordWriter,
        fail: Callable[[BaseException], None],
        downstream: Callable[[], Availability] | None = None,
    ) -> None:
        """`timers` makes each operator a service of its own (T6); `downstream`: whether the writer has room."""
        if not links:
            raise ValueError("a chain has no operator; give one or more")
        if len({link.operator_id for link in links}) < len(links):
            raise ValueError(f"two operators of a chain share an id: {[link.operator_id for link in links]}")
        self._record_writer = record_writer
        self._wrappers: list[StreamOperatorWrapper] = []
        emit: Emit = record_writer.emit
        for place in range(len(links) - 1, -1, -1):
            link, executor = links[place], MailboxExecutor(mailbox, place)
            own_timers = timers(executor)
            operator = link.build(
                executor=executor, timers=own_timers, emit=emit, fail=fail, downstream=downstream
            )
            handler = None if link.state_handler is None else link.state_handler(operator, own_timers)
            wrapper = self.wrapper(
                operator,
                operator_id=link.operator_id,
                executor=executor,
                timers=own_timers,
                state_handler=handler,
                is_head=place == 0,
            )
            self._wrappers.insert(0, wrapper)
            downstream = _room_of(operator, otherwise=downstream)
            if place > 0:
                emit = _door(link, operator)
        self.ask_for_room = downstream
        """As `room`; None if there always is some."""
        self.doors = _doors(self._wrappers[0].operator)
        """One for each input of the head: what takes its elements in."""

    is_task_deployed_as_finished = False
    """Whether the task had finished before the checkpoint from which the job was restored (C19)."""

    @property
    def operators(self) -> list[StreamOperator | TwoInputStreamOperator]:
        """From head to tail."""
        return [wrapper.operator for wrapper in self._wrappers]

    @property
    def operator_ids(self) -> list[str]:
        """From head to tail."""
        return [wrapper.operator_id for wrapper in self._wrappers]

    @property
    def timers(self) -> list[Timers]:
        """Each operator's own, from head to tail."""
        return [wrapper.timers for wrapper in self._wrappers]

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once, by the first operator that says; else there always is."""
        return AVAILABLE if self.ask_for_room is None else self.ask_for_room()

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether an operator does, so that the end of data must wait for it (FLINK-38614)."""
        return any(wrapper.emits_on_final_checkpoint for wrapper in self._wrappers)

    def process(self, element: OperatorInput) -> None:
        """Into the head's first input."""
        self.doors[0](element)

    # ------------------------------------------------------------------------------------------- its life

    def initialize_state_and_open_operators(self) -> None:
        """Tail first, for whoever is opened may emit (A62, M46)."""
        for wrapper in reversed(self._wrappers):
            wrapper.initialize_state_and_open()

    def end_head_input(self, input_id: int = 1) -> None:
        """The head's input `input_id` has ended; those behind it hear of theirs when it has finished."""
        self._wrappers[0].end_input(input_id)

    def finish_operators(self, mode: StopMode) -> None:
        """Head first: what one emits in finishing, the next takes in before its own end (M45, FLINK-14231)."""
        for wrapper in self._wrappers:
            wrapper.finish(mode)

    def quiesce_timers(self) -> None:
        """No timer fires any more (M47)."""
        for wrapper in self._wrappers:
            wrapper.timers.quiesce()

    def flush_outputs(self) -> None:
        """What the tail has emitted is on its way."""
        self._record_writer.flush()

    def close_all_operators(self) -> None:
        """Every one, whatever another's close raises; the first error comes out (A70). Twice is once."""
        _call_all(wrapper.close for wrapper in self._wrappers)

    # ---------------------------------------------------------------------------------------- checkpoints

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Head first: what is emitted here is before the barrier all the way (C3)."""
        for wrapper in self._wrappers:
            wrapper.prepare_snapshot_pre_barrier(checkpoint_id)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """To all who read from the tail."""
        self._record_writer.broadcast_event(event, is_priority=is_priority)

    def alignment_barrier_timeout(self, barrier: CheckpointBarrier) -> None:
        """The barrier took too long to leave: it overtakes, if the writer lets it (C26)."""
        overtake = getattr(self._record_writer, "alignment_barrier_timeout", None)
        if overtake is not None:
            overtake(barrier)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Nothing of it need be kept for it among the outputs."""
        forget = getattr(self._record_writer, "abort_checkpoint", None)
        if forget is not None:
            forget(checkpoint_id)

    def snapshot_state(
        self,
        futures: MutableMapping[str, Any],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Put each operator's part into `futures`, tail first (C3); if one raises, the caller cancels those (C5)."""
        for wrapper in reversed(self._wrappers):
            wrapper.snapshot_state(futures, metadata, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tail first, all of them; the first error comes out (C12)."""
        _call_all(_told(wrapper.notify_checkpoint_complete, checkpoint_id) for wrapper in self._tail_first())

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tail first, all of them; the first error comes out (C12)."""
        _call_all(_told(wrapper.notify_checkpoint_aborted, checkpoint_id) for wrapper in self._tail_first())

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Tail first, all of them; the first error comes out (C13)."""
        _call_all(_told(wrapper.notify_checkpoint_subsumed, checkpoint_id) for wrapper in self._tail_first())

    def _tail_first(self) -> Iterator[StreamOperatorWrapper]:
        return reversed(self._wrappers)


class FinishedOperatorChain(OperatorChain):
    """A chain that had finished before the restore: none of its operators exists, and events pass it by (C19)."""

    is_task_deployed_as_finished = True

    def __init__(self, operator_ids: Sequence[str], *, record_writer: RecordWriter, inputs: int = 1) -> None:
        self._operator_ids = list(operator_ids)
        self._record_writer = record_writer
        self._wrappers = []
        self.ask_for_room = None
        self.doors = [self._pass_by] * inputs

    def _pass_by(self, element: OperatorInput) -> None:
        """The last watermark, for who reads from here may wait for it."""
        if type(element) is Record:
            raise WrongState(
                f"{self._operator_ids[0]!r} had finished before the restore, but is given {element}"
            )
        self._record_writer.emit(element)

    @property
    def operator_ids(self) -> list[str]:
        """From head to tail."""
        return self._operator_ids

    def end_head_input(self, input_id: int = 1) -> None:
        """It had ended."""


def _doors(head: Any) -> list[Emit]:
    """Where each input's elements go in."""
    return [head.process1, head.process2] if can(head, TwoInputStreamOperator) else [head.process]


def _door(link: OperatorLink, operator: Any) -> Emit:
    """Of an operator that is not the head."""
    if can(operator, TwoInputStreamOperator):
        raise TypeError(f"the operator {link.operator_id!r} has two inputs: put it at the head of its chain")
    process: Emit = operator.process
    return process


def _room_of(
    operator: StreamOperator | TwoInputStreamOperator, *, otherwise: Callable[[], Availability] | None
) -> Callable[[], Availability] | None:
    """One that holds nothing has room if the next has."""
    return partial(getattr, operator, "room") if can(operator, WithRoom) else otherwise  # asked once a record


def _told(notify: Callable[[int], None], checkpoint_id: int) -> Callable[[], None]:
    return lambda: notify(checkpoint_id)


def _call_all(actions: Iterable[Callable[[], None]]) -> None:
    """Call each; then raise the first error, with the others as notes."""
    first: Exception | None = None
    for action in actions:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - raised below, once all were called
            if first is None:
                first = error
            else:
                first.add_note(f"suppressed: {error!r}")
    if first is not None:
        raise first
