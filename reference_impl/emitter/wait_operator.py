"""The operator of the first design: a buffer, an emitter thread, and the element that waits for room kept apart.

Answers to `AsyncWaitOperator` of Flink 1.2 to 1.9. Invariant: an element that was given is waiting, or in the buffer,
or out, at each instant at which the checkpoint lock is free; so a snapshot, which is what waits and what is in the
buffer, loses nothing and doubles nothing, even while the task waits for room (B19, A30). Its waiting element is the
capacity + 1st.

    process -> waiting -> (full: yield to mail) -> buffer -> timer -> invoke ... entry -> mail -> the emitter's turn

What differs from the reference: that snapshot; a status is not kept in order, but passes (A55, up to 2.2); there is no
retry (FLIP-232) and no soft back pressure (A33); two of these are not chained in one task (FLINK-13063).
Deviations from the first design, for one harness to judge both: the timeout counts from the slot (A28), where Flink
registered it before; a failed call fails the task at once (A41), where in order it did so only as the head; and there
is nobody to interrupt (FLINK-13635), for all waiting is a yield to mail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition
from typing import Any

from msgspec.structs import replace

from reference_impl.async_function import (
    AsyncFunction,
    ask_for_substitute,
    begin_call,
    close_function,
    open_function,
)
from reference_impl.elements import (
    LatencyMarker,
    OperatorInput,
    QueueElement,
    Record,
    RecordAttributes,
    Watermark,
    WatermarkStatus,
)
from reference_impl.emitter.buffers import Buffer
from reference_impl.emitter.emitter_thread import Emitter
from reference_impl.emitter.entry import Entry, RecordEntry
from reference_impl.errors import MailboxClosed
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.probe import Probe
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.result import ResultHandle
from reference_impl.timers import Timers

__all__ = ["EmitterWaitOperator"]


class EmitterWaitOperator:
    """One operator of one subtask: `open`, `process`..., `end_input`, `close`. Mutable.

    All of it belongs to the task's thread, but for `snapshot`, which any thread may take. `emit` is called on the
    emitter's thread, for what passes the buffer by on the task's: never on both at once.
    """

    def __init__(
        self,
        *,
        function: AsyncFunction,
        buffer: Buffer,
        timeout_ms: int,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
        probe: Probe | None,
        copy_value: Callable[[Any], Any] | None,
    ) -> None:
        self.closed = False
        self.executor = executor
        self.fail = fail
        self.probe = probe
        self._function = function
        self._buffer = buffer
        self._timeout_ms = timeout_ms
        self._timers = timers
        self._emit = emit
        self._copy_value = copy_value
        self._waiting: deque[QueueElement] = deque()
        """What is not in the buffer yet: the element given, or what is left of the replay."""
        self._lock = Condition()
        """The checkpoint lock: of the buffer and of what waits for it."""
        self._emitter = Emitter(buffer=buffer, lock=self._lock, emit=emit)

    def __len__(self) -> int:
        """The elements admitted and not yet emitted."""
        return len(self._buffer)

    @property
    def room(self) -> Availability:
        """Always: whoever has no room waits inside `process`."""
        return AVAILABLE

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Replay the elements of a snapshot, each called anew, before any other input; may wait for room (A61, A62)."""
        open_function(self._function)
        self._waiting.extend(restored)
        self._admit_waiting()

    def process(self, element: OperatorInput) -> None:
        """Admit `element`, waiting for room if there is none (A27, A51); what is no data passes (A54)."""
        match element:
            case Record() | Watermark():
                if self._copy_value is not None and isinstance(element, Record):
                    element = replace(element, value=self._copy_value(element.value))
                self._waiting.append(element)
                self._admit_waiting()
            case WatermarkStatus() | LatencyMarker() | RecordAttributes():
                self._emit(element)
            case _:
                raise TypeError(f"Cannot process {element!r}; it is no input of an operator")

    def snapshot(self) -> tuple[QueueElement, ...]:
        """The elements whose results have not left, in replay order; disturbs no call (A56, A57)."""
        with self._lock:
            return (*self._buffer, *self._waiting)

    def end_input(self) -> None:
        """Drain: return when every element has left (A66)."""
        while len(self._buffer):
            self.executor.yield_()

    def close(self) -> None:
        """Stop the emitter, release the function; a later outcome or timer does nothing (A68, A69)."""
        if self.closed:
            return
        self.closed = True
        self.probe = None
        try:
            self._emitter.stop()
        finally:
            close_function(self._function)

    def _admit_waiting(self) -> None:
        while self._waiting:
            match self._waiting[0]:
                case Record() as record:
                    entry = RecordEntry(record, self)
                    self._put(entry)
                    self._call(entry)
                case Watermark() as watermark:
                    self._put(Entry(watermark))
                    self._let_emit()
                case element:
                    raise TypeError(
                        f"Cannot process {element!r}; a snapshot of this operator holds no such thing"
                    )

    def _put(self, entry: Entry) -> None:
        """The first that waits into the buffer. The mails run meanwhile are our own: no checkpoint's (A30)."""
        while not self._try_put(entry):
            self.executor.yield_()

    def _try_put(self, entry: Entry) -> bool:
        """In one step, so that no snapshot finds the element in both places, or in none."""
        with self._lock:
            if self._buffer.try_put(entry):
                self._waiting.popleft()
                return True
            return False

    def _call(self, entry: RecordEntry) -> None:
        """The probe is told before the timer is set, or the call would seem to time out too early."""
        record = entry.element
        if self.probe is not None:
            self.probe.called(record, attempt=1)
        if self._timeout_ms:
            entry.timer = self._timers.register(self._timeout_ms, entry.time_out)
        begin_call(self._function, record.value, entry)

    def time_out(self, value: Any, handle: ResultHandle) -> None:
        """Ask the function for a substitute."""
        ask_for_substitute(self._function, value, handle)

    def entry_completed(self, entry: Entry) -> None:
        """An entry has its results: it, or another one, may be the next to leave."""
        with self._lock:
            self._buffer.entry_completed(entry)
        self._let_emit()

    def _let_emit(self) -> None:
        """One turn of the emitter, and mail for the next: other mail gets its turn between two (A38)."""
        if self._emitter.turn():
            try:
                self.executor.execute(self._let_emit, "the emitter's next turn")
            except MailboxClosed:
                return  # the records stay in the buffer, and so in the last snapshot (FLINK-24846)
