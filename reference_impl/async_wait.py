"""The asynchronous wait operator: calls a function for each record and emits results as the mode allows.

Answers to Flink's `AsyncWaitOperator`. Invariant: an element is in the queue from its admission until its
results have been handed to `emit`, and nowhere else; so a snapshot of the queue, with what was emitted
before it, is everything the operator ever took in (A59). All code here runs as mail or from the task's
default action, on one thread, one at a time; a snapshot therefore never sees half a step.

Deviation: a failed call fails the task in the mail of its outcome, and not in its caller's thread (A41), so
that the probe has heard of the outcome before the task ends of it.

    process -> try_put (full: yield to mail) -> timer -> invoke ... handle -> mail -> emit one entry
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, Protocol, TypedDict, Unpack

from reference_impl.async_function import AsyncFunction, Closing
from reference_impl.elements import QueueElement, Record, Watermark
from reference_impl.errors import CallbackFailed, MailboxClosed, StreamElementFailed
from reference_impl.mailbox import MailboxExecutor
from reference_impl.probe import Ending, Probe
from reference_impl.queues.ordered import OrderedQueue
from reference_impl.queues.protocol import ElementQueue, Emit, Entry
from reference_impl.queues.unordered import UnorderedQueue
from reference_impl.result import ResultHandle
from reference_impl.timers import Timer, Timers

__all__ = [
    "DEFAULT_CAPACITY",
    "AsyncWaitOperator",
    "BuildOperator",
    "Mode",
    "Parts",
    "build_operator",
    "ordered_wait",
    "queue_for",
    "unordered_wait",
]

DEFAULT_CAPACITY = 100
"""Elements in the queue at most, unless said otherwise (A1)."""

Mode = Literal["ordered", "unordered"]


class AsyncWaitOperator:
    """One operator of one subtask: `open`, `process`..., `end_input`, `close`. Mutable.

    `emit` gets what leaves; `fail` gets what fails the task (A41). Executor and timers are of one mailbox.
    """

    def __init__(
        self,
        *,
        function: AsyncFunction,
        queue: ElementQueue,
        timeout_ms: int,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Emit,
        fail: Callable[[BaseException], None],
        probe: Probe,
    ) -> None:
        self._function = function
        self._queue = queue
        self._timeout_ms = timeout_ms
        self._executor = executor
        self._timers = timers
        self._emit = emit
        self._fail = fail
        self._probe = probe
        self._closed = False

    def __len__(self) -> int:
        """The elements admitted and not yet emitted."""
        return len(self._queue)

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Replay the elements of a snapshot, each called anew, before any other input (A61).

        More of them than the capacity is legal: the replay yields, and may emit, until slots are free (A62).
        """
        for element in restored:
            self.process(element)

    def process(self, element: QueueElement) -> None:
        """Admit `element`, waiting for a slot if there is none (A27, A51)."""
        match element:
            case Record():
                self._call(element, self._admit(element))
            case Watermark():
                self._admit(element)
                self._emit_completed()
            case _:
                raise TypeError(f"Cannot process {element!r}; the operator takes records and watermarks")

    def snapshot(self) -> tuple[QueueElement, ...]:
        """The elements whose results have not left, in replay order; disturbs no call (A56, A57)."""
        return tuple(self._queue)

    def end_input(self) -> None:
        """Drain: return when every element has left (A66)."""
        while len(self._queue):
            self._executor.yield_()

    def close(self) -> None:
        """Release the function, drop what is queued; a later outcome or timer does nothing (A68, A69)."""
        if self._closed:
            return
        self._closed = True
        if isinstance(self._function, Closing):
            self._function.close()

    def _admit(self, element: QueueElement) -> Entry:
        """Its entry. The mails run meanwhile are our own and downstream's: never a checkpoint's (A30)."""
        while (entry := self._queue.try_put(element)) is None:
            self._executor.yield_()
        return entry

    def _call(self, record: Record, entry: Entry) -> None:
        """The timeout counts from here: not the wait for a slot, but the time inside `invoke` (A28)."""
        flight = _InFlight(record, entry)
        handle = ResultHandle(executor=self._executor, settle=partial(self._settle, flight))
        if self._timeout_ms > 0:
            flight.timer = self._timers.register(self._timeout_ms, partial(self._time_out, flight, handle))
        self._probe.called(record, attempt=flight.attempt)
        try:
            self._function.invoke(record.value, handle)
        except Exception as raised:
            raise CallbackFailed("invoke", record.value, raised) from raised  # to the task: A34

    def _time_out(self, flight: _InFlight, handle: ResultHandle) -> None:
        """The timer's mail. An outcome that was accepted wins, even if its own mail still waits (A43)."""
        if self._closed or handle.done:
            return
        flight.ending = Ending.TIMEOUT
        try:
            self._function.timeout(flight.record.value, handle)
        except Exception as raised:
            raise CallbackFailed("timeout", flight.record.value, raised) from raised  # A47

    def _settle(self, flight: _InFlight, results: Sequence[Any], error: BaseException | None) -> None:
        """The mail of an accepted outcome; a failure fails the task and still frees its slot (A37, A41)."""
        if self._closed:
            return
        if flight.timer is not None:
            flight.timer.cancel()
        self._tell(flight, results, error)
        if error is not None:
            self._fail(StreamElementFailed(flight.record, error))
        flight.entry.complete(results)
        self._emit_completed()

    def _tell(self, flight: _InFlight, results: Sequence[Any], error: BaseException | None) -> None:
        if error is None:
            self._probe.settled(
                flight.record, attempt=flight.attempt, ending=flight.ending, final=True, results=results
            )
        else:
            ending = Ending.TIMEOUT if flight.ending is Ending.TIMEOUT else Ending.FAIL
            self._probe.settled(flight.record, attempt=flight.attempt, ending=ending, final=True, error=error)

    def _emit_completed(self) -> None:
        """One entry, and mail for the next: other mail gets its turn between two (A38)."""
        if self._closed:
            return
        self._queue.emit_completed(self._emit)
        if self._queue.has_completed:
            try:
                self._executor.execute(self._emit_completed, "emit the next entry")
            except MailboxClosed:
                return  # the records stay in the queue, and so in the last snapshot (FLINK-24846)


class _InFlight:
    """One record's call. Mutable; `ending` is how it ends if it ends well."""

    __slots__ = ("attempt", "ending", "entry", "record", "timer")

    def __init__(self, record: Record, entry: Entry) -> None:
        self.record = record
        self.entry = entry
        self.attempt = 1
        self.timer: Timer | None = None
        self.ending = Ending.OK


class Parts(TypedDict):
    """What an operator needs besides its queue."""

    function: AsyncFunction
    timeout_ms: int
    executor: MailboxExecutor
    timers: Timers
    emit: Emit
    fail: Callable[[BaseException], None]
    probe: Probe


class BuildOperator(Protocol):
    """Builds the honest operator, or one with a planted defect (`reference_impl.mutants`)."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
        """An operator of that mode and capacity."""


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """The operator as it should be."""
    return AsyncWaitOperator(queue=queue_for(mode, capacity), **parts)


def ordered_wait(*, capacity: int = DEFAULT_CAPACITY, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """Results leave in the order of their inputs."""
    return build_operator(mode="ordered", capacity=capacity, **parts)


def unordered_wait(*, capacity: int = DEFAULT_CAPACITY, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """Results leave as they come, but never across a watermark."""
    return build_operator(mode="unordered", capacity=capacity, **parts)


def queue_for(mode: Mode, capacity: int) -> ElementQueue:
    """An empty queue of that mode."""
    match mode:
        case "ordered":
            return OrderedQueue(capacity)
        case "unordered":
            return UnorderedQueue(capacity)
        case _:  # a name from a file or a command line: the type does not hold it off
            raise ValueError(f"no output mode {mode!r}; there are 'ordered' and 'unordered'")
