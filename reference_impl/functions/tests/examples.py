"""Ready-made functions: a filter, count windows, and the three stateful examples of Flink's documentation.

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
from reference_impl.state.ttl_states import TtlValueState


class StreamFilter:
    """Passes on the records for which a predicate holds, and everything that is no record. Stateless.

    Answers to Flink's `StreamFilter`. Invariant: elements are passed on unchanged and in order.
    """

    __slots__ = ("_emit", "_predicate")

    def __init__(self, *, predicate: Callable[[Any], bool], emit: Callable[[OperatorInput], None]) -> None:
        self._predicate = predicate
        self._emit = emit

    def process(self, element: OperatorInput) -> None:
        """Pass the element on or drop it; an exception of the predicate fails the task."""
        if not isinstance(element, Record) or self._predicate(element.value):
            self._emit(element)


class BufferingSink:
    """The documentation's example of operator state: a sink that sends `threshold` elements at a time. Mutable.

    A `SinkFunction` and a `CheckpointedFunction`.

    Answers to `BufferingSink` of Flink's "Working with State". Invariant: each element taken was sent or is in the
    buffer, and every snapshot contains the buffer; after a restore at any parallelism, the buffers of all subtasks
    together hold what the snapshot held (S25).
    """

    def __init__(self, *, threshold: int, send: Callable[[list[Any]], None]) -> None:
        if threshold < 1:
            raise ValueError(f"a buffer of {threshold} elements; give 1 or more")
        self._threshold = threshold
        self._send = send
        self._buffered: list[Any] = []
        self._checkpointed: Any = None

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Buffer the value; send a full buffer as a whole, even if a lower parallelism has overfilled it."""
        self._buffered.append(value)
        if len(self._buffered) >= self._threshold:
            sent, self._buffered = self._buffered, []
            self._send(sent)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Replace the state by the buffer (S25)."""
        self._checkpointed.update(self._buffered)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the state; read it only after a restore."""
        self._checkpointed = context.operator_state_store.get_list_state(
            ListStateDescriptor(name="buffered-elements")
        )
        if context.is_restored:
            self._buffered.extend(self._checkpointed.get())


class CountWindow:
    """Count windows: emits the list of each `size` values of a key. Mutable.

    A `KeyedProcessFunction`. With one key for all records it is `countWindowAll`.

    Answers to Flink's `countWindow(size)`: a `GlobalWindow` with a purging `CountTrigger`. Invariant: each record of a
    key is in exactly one window, in order of arrival; an incomplete window is state, and is never emitted.
    """

    def __init__(self, *, size: int) -> None:
        if size < 1:
            raise ValueError(f"a window of {size} records; give 1 or more")
        self._size = size
        self._values: Any = None

    def open(self, context: RuntimeContext) -> None:
        self._values = context.get_list_state(ListStateDescriptor(name="window-contents"))

    def process_element(
        self,
        value: Any,
        context: ProcessContext,
        out: Collector,
    ) -> None:
        """Keep the value; the last one of a window emits it and clears the state."""
        values = [*self._values.get(), value]
        if len(values) < self._size:
            self._values.add(value)
        else:
            self._values.clear()
            out(values)


class Rounding(Enum):
    """How a division of integers is rounded."""

    TRUNCATE = "towards zero"
    """Like Java's `/`."""
    FLOOR = "down"
    """Like Python's `//`."""

    def quotient(self, total: int, count: int) -> int:
        """`total` divided by `count`, which must be positive."""
        match self:
            case Rounding.TRUNCATE:
                return total // count if total >= 0 else -(-total // count)
            case Rounding.FLOOR:
                return total // count


class CountWindowAverage:
    """The documentation's first example of keyed state: the average of every `threshold` numbers of a key. Mutable.

    A `KeyedProcessFunction` over pairs (key, number), which emits (key, average).

    Answers to `CountWindowAverage` of Flink's "Working with State". Invariant: for key 1, the input (1,3) (1,5) (1,7)
    (1,4) (1,2) gives (1,4) after the second and (1,5) after the fourth record, and leaves count 1, sum 2 (S10), with
    or without failures in between.

    The documentation's three versions round differently (V-g): Java's integer division truncates; the Python example
    divides in floating point, which is wrong beyond 2^53. Here the rounding is a parameter, and exact.
    """

    def __init__(self, *, threshold: int = 2, rounding: Rounding = Rounding.TRUNCATE) -> None:
        if threshold < 1:
            raise ValueError(f"the average of {threshold} values; give 1 or more")
        self._threshold = threshold
        self._rounding = rounding
        self._sum: ValueState | TtlValueState

    def open(self, context: RuntimeContext) -> None:
        """Register count and sum as one value."""
        self._sum = context.get_state(
            ValueStateDescriptor(name="average", value_type=tuple[int, int], default=(0, 0))
        )

    def process_element(
        self,
        value: tuple[int, int],
        context: ProcessContext,
        out: Collector,
    ) -> None:
        """Update count and sum; clear the state before the average is emitted."""
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
    """Through which a source function emits."""

    collect: Callable[[Any], None]
    checkpoint_lock: AbstractContextManager[Any]
    """Held by the task during a checkpoint; can be entered repeatedly."""


class CounterSource:
    """The documentation's stateful source: emits 0, 1, 2, ... and resumes from its snapshot. Mutable.

    Answers to `CounterSource` of Flink's "Working with State", a legacy `SourceFunction` whose `run` has a thread of
    its own while checkpoints run on the task's. Invariant: under the lock, the offset equals the count of emitted
    numbers; both change only under the lock, which the task takes for a snapshot.
    """

    def __init__(self, *, end: int | None = None) -> None:
        """With `end`, stop before that number; otherwise run until `cancel`."""
        self._end = end
        self._offset = 0
        self._is_running = True
        self._state: Any = None

    def run(self, context: SourceContext) -> None:
        """Emit until the end, or until `cancel`."""
        while self._is_running and (self._end is None or self._offset < self._end):
            with context.checkpoint_lock:  # emission and offset change together
                context.collect(self._offset)
                self._offset += 1

    def cancel(self) -> None:
        """Stop `run`; any thread may call it. A number being emitted is still emitted."""
        self._is_running = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the offset, and resume from it after a restore.

        More than one offset is refused; the documentation's example keeps only the last. This source has one sequence,
        so fewer subtasks than before cannot continue all of them.
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

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """The caller holds the lock."""
        self._state.update([self._offset])
