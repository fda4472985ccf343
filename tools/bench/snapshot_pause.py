"""How long a snapshot of many keys pauses the stream while the state keeps changing, in real time.

Answers to C7 and S9 under load. Invariant: the task is the real one, with its mailbox, a keyed operator, checkpoints
and one thread for everything; each measured snapshot is checked to hold every key with its value at the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import msgpack

from harness.system.clock import monotonic_us
from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import TaskStateSnapshot, TaskStateStore
from reference_impl.checkpoints.state_handler import StreamTaskStateInitializer
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.elements import OperatorInput, Record
from reference_impl.functions.keyed_operators import KeyedProcessOperator
from reference_impl.functions.process_function import Collector, ProcessContext, RuntimeContext
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import real_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshots import KeyedStateHandle
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.task.input_processor import StreamOneInputProcessor, StreamTaskNetworkOutput
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink, TaskEnvironment
from reference_impl.task.stream_task import StreamTask
from tools.bench.answer import WrongOutput
from tools.bench.scattered import scattered

_OPERATOR = "keyed"
_VALUE = ValueStateDescriptor(name="value", value_type=int)
_CHANGES_BEHIND = 200
"""Changes made after the acknowledgement, since releasing the snapshot may pause the stream, too."""
_US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPace:
    """One snapshot, and the changes made while it was taken."""

    took_s: float
    """From the trigger to the acknowledgement, including the changes in between."""
    longest_pause_s: float
    """The longest time in which a change was due and none was made."""
    changes: int
    """Changes until the acknowledgement."""


class _Changes:
    """An input that changes one key at each due instant and is empty in between. Mutable."""

    is_available: Availability = AVAILABLE

    def __init__(self, *, keys: int, per_second: int, suspend: Callable[[], None]) -> None:
        self.values = {key: key for key in range(keys)}
        """The values that the state should hold."""
        self.made = 0
        self.longest_pause_us = 0
        self._keys = keys
        self._step = 0
        self._every_us = _US_PER_S // per_second
        self._suspend = suspend
        self._due_us = self._last_us = 0
        self._left: int | None = None

    def begin(self, now_us: int) -> None:
        """Make changes from now on, until `end_soon`."""
        self.made = self.longest_pause_us = 0
        self._due_us = self._last_us = now_us
        self._left = None

    def end_soon(self) -> None:
        """Make a few more changes, then suspend the task."""
        self._left = _CHANGES_BEHIND

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:
        """Emit a change if one is due."""
        if monotonic_us() >= self._due_us:
            self._change(output)
        return DataInputStatus.MORE_AVAILABLE

    def _change(self, output: StreamTaskNetworkOutput) -> None:
        self._step += 1
        key, value = scattered(self._step, self._keys), -self._step
        self.values[key] = value
        output.emit(Record(value=(key, value)))
        now_us = monotonic_us()
        self.longest_pause_us = max(self.longest_pause_us, now_us - max(self._due_us, self._last_us))
        self._last_us = now_us
        self._due_us += self._every_us
        self.made += 1
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._suspend()


class _Write:
    """A keyed function that stores the last value of each key."""

    def open(self, context: RuntimeContext) -> None:
        self._state = context.get_state(_VALUE)

    def process_element(self, value: tuple[int, int], context: ProcessContext, out: Collector) -> None:
        del context, out
        self._state.update(value[1])


class ChangingTask:
    """A task with one keyed operator over `keys` keys, on `loop`. Mutable; call `snapshot` as often as needed."""

    def __init__(self, loop: Any, *, keys: int, changes_per_second: int) -> None:
        self._keys = keys
        processor = MailboxProcessor(Mailbox(loop=loop))
        store = TaskStateStore(responder=self)
        self._states = StreamTaskStateInitializer(task_state_store=store)
        writer = LocalRecordWriter(_ignore_output)
        chain = OperatorChain(
            [
                OperatorLink(
                    operator_id=_OPERATOR,
                    build=self._keyed,
                    state_handler=lambda _operator, _timers: self._states.handler_of(_OPERATOR),
                )
            ],
            mailbox=processor.mailbox,
            timers=partial(Timers, loop),
            record_writer=writer,
            fail=processor.report_throwable,
        )
        self._changes = _Changes(keys=keys, per_second=changes_per_second, suspend=processor.suspend)
        slices = processor.main_mailbox_executor
        self._processor = processor
        self._task = StreamTask(
            loop=loop,
            mailbox_processor=processor,
            operator_chain=chain,
            input_processor=StreamOneInputProcessor(self._changes, operator_chain=chain),
            record_writer=writer,
            environment=TaskEnvironment(task_name="bench", decline_checkpoint=self.decline_checkpoint),
            checkpoints=SubtaskCheckpointCoordinator(
                task_name="bench",
                task_state_store=store,
                executor=lambda part: slices.execute(part, "a slice of the snapshot"),
                fail=processor.report_throwable,
                in_slices=True,
            ),
        )
        self._checkpoint_id = 0
        self._acknowledged: list[tuple[int, int, TaskStateSnapshot | None]] = []
        self._task.restore()
        for key in range(keys):
            chain.process(Record(value=(key, key)))

    def _keyed(
        self, *, timers: Timers, emit: Callable[[OperatorInput], None], **_: Any
    ) -> KeyedProcessOperator:
        context = self._states.keyed_context_of(_OPERATOR, timers=timers, key_type=int)
        assert context.keyed_state_backend is not None, "it was asked for"
        assert context.timer_services is not None, "as above"
        return KeyedProcessOperator(
            function=_Write(),
            key_selector=_key_of,
            key_context=context.keyed_state_backend,
            timer_services=context.timer_services,
            emit=emit,
        )

    def snapshot(self) -> SnapshotPace:
        """Take a snapshot in slices between the changes. Raises WrongOutput if it is not the state at the trigger."""
        self._checkpoint_id += 1
        expected = self._changes.values.copy()
        began_us = monotonic_us()
        self._changes.begin(began_us)
        self._task.trigger_checkpoint_async(
            CheckpointMetaData(checkpoint_id=self._checkpoint_id), CheckpointOptions()
        )
        self._processor.run_mailbox_loop(self._task.process_input)
        ended_us, changes, snapshot = self._acknowledged.pop()
        _require_all(snapshot, expected)
        return SnapshotPace(
            took_s=(ended_us - began_us) / _US_PER_S,
            longest_pause_s=self._changes.longest_pause_us / _US_PER_S,
            changes=changes,
        )

    def close(self) -> None:
        """Cancel the task and release its resources."""
        self._task.cancel()
        self._task.clean_up()

    def acknowledge_checkpoint(
        self, _checkpoint_id: int, _metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """Called in place of the checkpoint coordinator."""
        self._acknowledged.append((monotonic_us(), self._changes.made, snapshot))
        self._changes.end_soon()

    def decline_checkpoint(self, _checkpoint_id: int, cause: CheckpointException) -> None:
        """A decline is not expected: the task fails with it."""
        raise cause


@contextmanager
def changing_task(*, keys: int, changes_per_second: int) -> Iterator[ChangingTask]:
    """A task on its own loop, with its state filled."""
    with real_loop() as loop:
        task = ChangingTask(loop, keys=keys, changes_per_second=changes_per_second)
        try:
            yield task
        finally:
            task.close()


def _require_all(snapshot: TaskStateSnapshot | None, expected: dict[int, int]) -> None:
    if snapshot is None:
        raise WrongOutput(f"the snapshot is empty, where {len(expected)} keys were expected")
    handle: KeyedStateHandle = snapshot.operator_states[_OPERATOR].managed_keyed_state
    held = 0
    for key, _, stored in handle.entries(_VALUE.name):
        held += 1
        if not isinstance(key, int) or msgpack.decode(stored) != expected.get(key):  # type: ignore[arg-type]  # a value's bytes
            raise WrongOutput(f"the snapshot holds {key} with another value than it had at the cut")
    if held != len(expected):
        raise WrongOutput(f"the snapshot holds {held} of {len(expected)} keys")


def _key_of(value: tuple[int, int]) -> int:
    return value[0]


def _ignore_output(element: OperatorInput) -> None:
    """Ignores the task's output."""
