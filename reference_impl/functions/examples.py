"""Ready-made functions: a filter, windows by count, and the three stateful examples of Flink's documentation.

Answers to Flink's `StreamFilter`, to `countWindow(size)`, and to `BufferingSink`, `CountWindowAverage` and
`CounterSource` of its "Working with State".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from reference_impl.checkpoints.state_handler import FunctionInitializationContext, FunctionSnapshotContext
from reference_impl.elements import OperatorInput, Record
from reference_impl.errors import StateError
from reference_impl.functions.process_function import Collector, ProcessContext, RuntimeContext
from reference_impl.functions.sink import SinkContext
from reference_impl.state.keyed_state import ValueState
from reference_impl.state.state_descriptor import ListStateDescriptor, ValueStateDescriptor

__all__ = [
    "BufferingSink",
    "CountWindow",
    "CountWindowAverage",
    "CounterSource",
    "Rounding",
    "SourceContext",
    "StreamFilter",
]


class StreamFilter:
    """Lets through the records that a predicate wants, and everything that is no record.

    Stateless.

    Answers to Flink's `StreamFilter`. Invariant: what passes is the element itself, in its place in the stream.
    """

    __slots__ = ("_emit", "_predicate")

    def __init__(self, *, predicate: Callable[[Any], bool], emit: Callable[[OperatorInput], None]) -> None:
        self._predicate = predicate
        self._emit = emit

    def process(self, element: OperatorInput) -> None:
        """Pass it on or drop it; what the predicate raises fails the task."""
        if not isinstance(element, Record) or self._predicate(element.value):
            self._emit(element)


class BufferingSink:
    """The documentation's example of operator state: a sink that sends so many elements at a time.

    A `SinkFunction` and a `CheckpointedFunction`. Mutable.

    Answers to `BufferingSink` of Flink's "Working with State". Invariant: an element that was taken is sent, or is in
    the buffer, and the buffer is in every snapshot; after a restore, at whatever parallelism, the instances' buffers
    are together what the snapshot held (S25).
    """

    def __init__(self, *, threshold: int, send: Callable[[list[Any]], None]) -> None:
        if threshold < 1:
            raise ValueError(f"a buffer of {threshold} elements; give 1 or more")
        self._threshold = threshold
        self._send = send
        self._buffered: list[Any] = []
        self._checkpointed: Any = None

    def invoke(self, value: Any, context: SinkContext) -> None:  # noqa: ARG002 - the protocol's
        """Buffer it; a full buffer is sent. One that a smaller parallelism has overfilled goes as a whole."""
        self._buffered.append(value)
        if len(self._buffered) >= self._threshold:
            sent, self._buffered = self._buffered, []
            self._send(sent)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:  # noqa: ARG002 - the protocol's
        """The state is the buffer, and not what it was before (S25)."""
        self._checkpointed.update(self._buffered)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the state on each start; its content counts only after a restore."""
        self._checkpointed = context.operator_state_store.get_list_state(
            ListStateDescriptor(name="buffered-elements")
        )
        if context.is_restored:
            self._buffered.extend(self._checkpointed.get())


class CountWindow:
    """Windows by count: so many records of a key, then the next so many.

    A `KeyedProcessFunction` that emits the list of each `size` values of a key. Mutable once opened.

    One key for all makes it `countWindowAll`.

    Answers to Flink's `countWindow(size)`: a `GlobalWindow` with a purging `CountTrigger`. Invariant: each record of a
    key is in exactly one window, in the order of arrival; a window that is not full yet is state, and is never emitted.
    """

    def __init__(self, *, size: int) -> None:
        if size < 1:
            raise ValueError(f"a window of {size} records; give 1 or more")
        self._size = size
        self._values: Any = None

    def open(self, context: RuntimeContext) -> None:
        """Register the window under way."""
        self._values = context.get_list_state(ListStateDescriptor(name="window-contents"))

    def process_element(
        self,
        value: Any,
        context: ProcessContext,  # noqa: ARG002 - the protocol's
        out: Collector,
    ) -> None:
        """Keep the value; the last of a window empties it."""
        values = [*self._values.get(), value]
        if len(values) < self._size:
            self._values.add(value)
        else:
            self._values.clear()
            out(values)


class Rounding(Enum):
    """What becomes of the rest of a division of integers."""

    TRUNCATE = "towards zero"
    """As Java's `/`."""
    FLOOR = "down"
    """As Python's `//`."""

    def quotient(self, total: int, count: int) -> int:
        """`total` by `count`, which is positive."""
        match self:
            case Rounding.TRUNCATE:
                return total // count if total >= 0 else -(-total // count)
            case Rounding.FLOOR:
                return total // count


class CountWindowAverage:
    """The documentation's first example of keyed state: the average of each two values of a key.

    A `KeyedProcessFunction` of pairs (key, number). Mutable once opened.

    It emits (key, average) at each `threshold`-th number of a key.

    Answers to `CountWindowAverage` of Flink's "Working with State". Invariant: key 1 in (1,3) (1,5) (1,7) (1,4) (1,2)
    gives (1,4) after the second and (1,5) after the fourth, and leaves count 1, sum 2 (S10), wherever it crashed on the
    way.

    The three versions of the documentation round differently (V-g): Java's integer division cuts towards zero, Python's
    example divides in floating point first, which is wrong beyond 2^53. Here the rounding is said, and exact.
    """

    def __init__(self, *, threshold: int = 2, rounding: Rounding = Rounding.TRUNCATE) -> None:
        if threshold < 1:
            raise ValueError(f"the average of {threshold} values; give 1 or more")
        self._threshold = threshold
        self._rounding = rounding
        self._sum: ValueState

    def open(self, context: RuntimeContext) -> None:
        """Register count and sum, as one value."""
        self._sum = context.get_state(
            ValueStateDescriptor(name="average", value_type=tuple[int, int], default=(0, 0))
        )

    def process_element(
        self,
        value: tuple[int, int],
        context: ProcessContext,  # noqa: ARG002 - the protocol's
        out: Collector,
    ) -> None:
        """Count and add; the state is cleared before the average goes out."""
        key, number = value
        count, total = self._sum.value()
        count, total = count + 1, total + number
        if count < self._threshold:
            self._sum.update((count, total))
        else:
            self._sum.clear()
            out((key, self._rounding.quotient(total, count)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What a source function emits through."""

    collect: Callable[[Any], None]
    checkpoint_lock: AbstractContextManager[Any]
    """Nothing of a checkpoint happens while somebody else has it; it can be taken again and again."""


class CounterSource:
    """The documentation's stateful source: it counts, and a checkpoint never splits a count from its emission.

    Emits 0, 1, 2, ... and goes on where its snapshot was. Mutable.

    Answers to `CounterSource` of Flink's "Working with State", a legacy `SourceFunction` whose `run` has a thread of
    its own while checkpoints run on the task's. Invariant: whoever holds the lock sees as many numbers emitted as the
    offset says; both change under it, and the task takes it for a snapshot.
    """

    def __init__(self, *, end: int | None = None) -> None:
        """With `end` it stops before that number; else when it is cancelled."""
        self._end = end
        self._offset = 0
        self._is_running = True
        self._state: Any = None

    def run(self, context: SourceContext) -> None:
        """Until the end, or `cancel`."""
        while self._is_running and (self._end is None or self._offset < self._end):
            with context.checkpoint_lock:  # number and offset are one step
                context.collect(self._offset)
                self._offset += 1

    def cancel(self) -> None:
        """From any thread; the number under way is still emitted."""
        self._is_running = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the offset, and go on from it after a restore.

        A second one is refused, where the documentation's example forgets all but the last: this source has one
        sequence, so fewer instances than before cannot go on with all of them.
        """
        self._state = context.operator_state_store.get_list_state(
            ListStateDescriptor(name="state", element_type=int)
        )
        offsets = list(self._state.get()) if context.is_restored else []
        if len(offsets) > 1:
            raise StateError(
                f"this source counts one sequence and was restored with {len(offsets)} offsets, {offsets};"
                " restore it at the parallelism that it had",
                operator=type(self).__name__,
                state="state",
            )
        self._offset = offsets[0] if offsets else 0

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:  # noqa: ARG002 - the protocol's
        """Under the lock."""
        self._state.update([self._offset])
