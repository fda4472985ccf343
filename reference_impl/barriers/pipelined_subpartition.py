"""One channel on the way out: what a task has emitted and nobody has fetched.

Answers to Flink's `PipelinedSubpartition`. Invariant: elements leave in the order in which they were emitted; only
priority events overtake, and what one overtakes here is captured as output, for it is in no operator's state and has
not reached the receiver (C28).

Where tasks share one loop the receiver's `InputChannel` can be written directly, and nothing is in flight here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from reference_impl.barriers.input_channel import ChannelElement
from reference_impl.barriers.input_channel_info import ResultSubpartitionInfo
from reference_impl.elements import OperatorInput
from reference_impl.events import ChannelEvent, CheckpointBarrier

__all__ = ["OutputWriter", "PipelinedSubpartition"]


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
    """The sender's end of a connection. Mutable; on the task's thread. `len` is what nobody has fetched."""

    def __init__(self, info: ResultSubpartitionInfo, *, writer: OutputWriter | None = None) -> None:
        self.info = info
        self.on_data: Callable[[], None] = _nobody
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


def _nobody() -> None:
    """Before a receiver listens."""
