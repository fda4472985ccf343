"""A source that reads splits: logs that outlive the tasks, each read by one subtask at a time.

Answers to Flink's `SourceOperator` and `SplitEnumerator`, for splits that are all known at the start. Invariant: a
split and its read position are one item of split list state, so at any parallelism each split has one reader, which
resumes from the checkpoint (S20).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference_impl.checkpoint_events import StopMode
from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.task.input_processor import StreamTaskNetworkOutput
from reference_impl.task.stream_operator import Emit

__all__ = ["SPLITS", "Split", "SplitSource"]

SPLITS = "splits"
"""The name of the list state."""


class Split:
    """A log of values that can be appended until `end`. Mutable."""

    def __init__(self, *values: Any) -> None:
        self.values = list(values)
        self.has_ended = False
        self._change = Availability()

    def append(self, *values: Any) -> None:
        self.values.extend(values)
        self._tell()

    def end(self) -> None:
        """No value follows."""
        self.has_ended = True
        self._tell()

    @property
    def on_change(self) -> Availability:
        """Ends with the next change."""
        return self._change

    def _tell(self) -> None:
        change, self._change = self._change, Availability()
        change.end()


class SplitSource:
    """The head of a chain and its input in one. Mutable: reads its splits in turn."""

    def __init__(self, *, splits: Mapping[str, Split], subtask: int, parallelism: int, emit: Emit) -> None:
        self._splits = splits
        self._subtask = subtask
        self._parallelism = parallelism
        self._emit = emit
        self._positions: dict[str, int] = {}
        self._state: Any = None
        self._stopped: StopMode | None = None
        self._has_ended = False
        self._waiting = AVAILABLE

    def initialize_state(self, context: StateInitializationContext) -> None:
        """The restored splits; without a checkpoint, this subtask's share of all splits."""
        self._state = context.operator_state_store.get_list_state(ListStateDescriptor(name=SPLITS))
        if context.is_restored:
            self._positions = dict(self._state.get())
        else:
            mine = list(self._splits)[self._subtask :: self._parallelism]
            self._positions = dict.fromkeys(mine, 0)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Save the position in each split."""
        self._state.update([[name, position] for name, position in self._positions.items()])

    def process(self, element: OperatorInput) -> None:
        self._emit(element)

    @property
    def is_available(self) -> Availability:
        """Whether a split has values, or all have ended."""
        return self._waiting

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:
        """Read the next value, one split after the other."""
        if self._has_ended:
            return DataInputStatus.END_OF_INPUT
        if self._stopped is None:
            for name, position in self._positions.items():
                if position < len(self._splits[name].values):
                    self._read(name, position, output)
                    return DataInputStatus.MORE_AVAILABLE
            if not all(self._splits[name].has_ended for name in self._positions):
                self._wait()
                return DataInputStatus.NOTHING_AVAILABLE
        self._has_ended = True
        is_drained = self._stopped is not StopMode.NO_DRAIN
        return DataInputStatus.END_OF_DATA if is_drained else DataInputStatus.STOPPED

    def stop(self, mode: StopMode) -> None:
        """End now, before the splits do (C17)."""
        self._stopped = mode
        self._wake()

    def _read(self, name: str, position: int, output: StreamTaskNetworkOutput) -> None:
        del self._positions[name]  # moves the split to the end of the order
        self._positions[name] = position + 1
        output.emit(Record(value=self._splits[name].values[position]))

    def _wait(self) -> None:
        self._waiting = Availability()
        for name in self._positions:
            self._splits[name].on_change.then(self._wake)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, AVAILABLE
        if not waiting:
            waiting.end()
