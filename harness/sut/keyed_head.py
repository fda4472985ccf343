"""The keyed head: the session counter in front of the lookups, and its state in checkpoints.

Answers to a user's `KeyedCoProcessFunction`. Invariant: its stamp on a record equals the expected stamp from
`harness.scenario.workloads.sessions`, which shares no code with it; so a state update or timer that is lost, repeated
or applied to a wrong key shows as a wrong result.

Answers to a `KeyedCoProcessOperator` at the head of an `OperatorChain`. Invariant: a checkpoint holds the head's state
and timers in front of the elements of the lookups, all snapshot between the same two elements. They are stored in the
same transaction, and restored before the first element is replayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from msgspec.structs import asdict

from harness.faults.parts.parts import Task
from harness.scenario.workloads.lookups import Inputs
from harness.scenario.workloads.shape import Lookup, StampedLookup
from harness.sut.gated_inputs import GatedInputs, HeldOutput, SourceClock
from harness.sut.phases import Phases
from harness.sut.positions import ChannelState, TaskState
from harness.sut.rescaling import ALL_GROUPS, HONEST_PARTS, KEY_GROUPS, Keeping, KeptState, KeyedParts
from harness.sut.unaligned_inputs import UnalignedInputs
from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointOptions
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures, OperatorSubtaskState
from reference_impl.checkpoints.barrier_states import CheckpointableTask
from reference_impl.checkpoints.state_handler import StreamOperatorStateHandler
from reference_impl.elements import OperatorInput
from reference_impl.functions.keyed_operators import KeyedCoProcessOperator
from reference_impl.functions.process_function import Collector, ProcessContext, RuntimeContext
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore
from reference_impl.state.snapshots import SnapshotFuture
from reference_impl.state.state_descriptor import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from reference_impl.task.input_processor import DueTime, Reader, Source
from reference_impl.task.operator_chain import OperatorChain, OperatorLink

SESSION = ValueStateDescriptor(name="session", value_type=dict[str, int])
"""`ended`: finished sessions of the key; `place`: records in the open session; `ends`: its end, if one is open."""
BY_INPUT = MapStateDescriptor(name="by input", key_type=int, value_type=int)
"""The number of the key's records on each input."""


class SessionCounter:
    """A `KeyedCoProcessFunction` of lookups. Mutable: gets its states in `open`."""

    def __init__(self, task: Task, *, phases: Phases) -> None:
        self._gap_ms = task.gap
        self._by_clock = task.timers == "processing-time"
        self._ttl = StateTtlConfig(time_to_live_ms=task.ttl) if task.ttl else None
        self._phases = phases
        self._session: Any = None
        self._by_input: Any = None

    def open(self, context: RuntimeContext) -> None:
        self._session = context.get_state(SESSION)
        self._by_input = context.get_map_state(replace(BY_INPUT, ttl=self._ttl))

    def process_element1(self, value: Lookup, context: ProcessContext, out: Collector) -> None:
        out(self._stamped(value, context, number=0))

    def process_element2(self, value: Lookup, context: ProcessContext, out: Collector) -> None:
        out(self._stamped(value, context, number=1))

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        """Ends the session of the current key."""
        del timestamp, context, out
        self._phases.reach("timer")
        session = self._session.value() or _NO_SESSION
        self._session.update({"ended": session["ended"] + 1, "place": 0})

    def close(self) -> None:
        """Holds no resources."""

    def _stamped(self, lookup: Lookup, context: ProcessContext, *, number: int) -> Lookup:
        of_input = (self._by_input.get(number) or 0) + 1
        self._by_input.put(number, of_input)
        session = self._prolonged(context)
        stamp = {
            "nth": sum(count for _, count in self._by_input.entries()),
            "of_input": of_input,
            "session": session["ended"] + 1,
            "place": session["place"],
        }
        return StampedLookup(**asdict(lookup), stamp=stamp)

    def _prolonged(self, context: ProcessContext) -> dict[str, int]:
        """Adds a record to the key's session, and moves the timer if the session ends later now."""
        session = self._session.value() or _NO_SESSION
        assert context.timestamp is not None, "the workload's records have their event time"
        timers = context.timer_service
        if self._by_clock:
            now_ms = timers.current_processing_time
            register, delete = timers.register_processing_time_timer, timers.delete_processing_time_timer
        else:
            now_ms = context.timestamp
            register, delete = timers.register_event_time_timer, timers.delete_event_time_timer
        ends_ms = now_ms + self._gap_ms
        before_ms = session.get("ends")
        if before_ms is None or before_ms < ends_ms:
            if before_ms is not None:
                delete(before_ms)
            register(ends_ms)
        else:
            ends_ms = before_ms
        prolonged = {"ended": session["ended"], "place": session["place"] + 1, "ends": ends_ms}
        self._session.update(prolonged)
        return prolonged


_NO_SESSION = {"ended": 0, "place": 0}


_SESSIONS = "sessions"


class KeyedHead:
    """A `harness.engine.subtask.Head` of one attempt; `reader` hears what is read.

    Mutable: `link` reads its state and the chain builds its parts.
    """

    def __init__(
        self, keyed: KeyedTask, *, reader: Reader, phases: Phases, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._function = SessionCounter(keyed.task, phases=phases)
        self._ahead = keyed.task.async_snapshot
        self._latency_markers = keyed.task.latency_markers
        self._inputs = keyed.inputs
        self._parts = parts = keyed.parts
        self._reader = reader
        self._phases = phases
        self._groups = keyed.groups
        self._loop = loop
        self._clock = SourceClock()
        self._output = HeldOutput()
        self._gated: GatedInputs
        self._keeping = parts.keeping()
        self._timeout_ms = keyed.task.alignment_timeout
        self._recovered: ChannelState | None = None
        self._kept: KeptState | None = None
        self._backend: KeyedStateBackend
        self._services: InternalTimerServices

    def link(self, replayed: Iterator[object]) -> OperatorLink:
        """The operator, with the state from the front of the lookups' elements (C45)."""
        first = next(replayed, None)
        if isinstance(first, TaskState):
            self._kept = self._keeping.state(first.text)
        elif first is not None:
            raise AssertionError(f"a snapshot of a keyed task begins with its state, not with {first!r}")
        if first is not None and self._timeout_ms is not None:
            second = next(replayed)
            assert isinstance(second, ChannelState), (
                f"behind its state stands what its inputs held, not {second!r}"
            )
            self._recovered = second
        return OperatorLink(
            operator_id=_SESSIONS, build=self._built_operator, state_handler=self._built_state_handler
        )

    def elements(
        self, states: Mapping[str, OperatorSubtaskState]
    ) -> tuple[TaskState] | tuple[TaskState, ChannelState]:
        """The state in its stored form, and what barriers have overtaken, if they may."""
        state = TaskState(text=states[_SESSIONS].raw_operator_state)
        if isinstance(self._gated, UnalignedInputs):
            return (state, self._gated.channel_state())
        return (state,)

    def run_async(self, finish: Callable[[], None]) -> None:
        """Runs the asynchronous part of a snapshot at once, or after further elements have changed the state."""
        if self._ahead and not self._gated.has_ended:
            self._gated.finish_later(finish, ahead=self._ahead)
        else:
            finish()

    def inputs(
        self,
        source: Source,
        *,
        task: CheckpointableTask,
        chain: OperatorChain,
        position: int,
        due: DueTime,
        timers: Timers,
        executor: MailboxExecutor,
    ) -> GatedInputs:
        shared: dict[str, Any] = {
            "inputs": self._inputs,
            "parts": self._parts,
            "phases": self._phases,
            "reader": self._reader,
            "task": task,
            "chain": chain,
            "position": position,
            "due": due,
            "clock": self._clock,
            "output": self._output,
            "latency_markers": self._latency_markers,
            "timers": timers,
            "executor": executor,
        }
        if self._timeout_ms is None:
            self._gated = GatedInputs(source, **shared)
        else:
            self._gated = UnalignedInputs(
                source, timeout_ms=self._timeout_ms, recovered=self._recovered, **shared
            )
        return self._gated

    def _built_operator(
        self, *, executor: MailboxExecutor, emit: Callable[[OperatorInput], None], **parts: Any
    ) -> KeyedCoProcessOperator:
        """Builds the operator and restores its state."""
        del parts
        self._backend = self._parts.backend(
            operator=_SESSIONS,
            key_group_range=self._groups,
            max_parallelism=KEY_GROUPS,
            key_type=int,
            now_ms=self._clock.now_ms,
            create_with_ttl=self._parts.create_with_ttl,
        )
        self._services = self._parts.timer_services(
            timers=self._clock.timers(self._loop, executor),
            key_context=self._parts.timers_key_context(self._backend),
            key_group_range=self._groups,
            max_parallelism=KEY_GROUPS,
        )
        if self._kept is not None and self._kept.keyed is not None:
            self._backend.restore([self._kept.keyed])
        if self._kept is not None and self._kept.timers is not None:
            self._services.restore([self._kept.timers])
        return KeyedCoProcessOperator(
            function=self._function,
            key_selectors=(_key_of, _key_of),
            key_context=self._backend,
            timer_services=self._services,
            emit=lambda element: self._output.do(partial(emit, element)),
        )

    def _built_state_handler(self, operator: object, timers: Timers) -> _KeptStateHandler:
        del operator
        handler = StreamOperatorStateHandler(
            operator_id=_SESSIONS,
            restored_checkpoint_id=None if self._kept is None else 0,
            keyed_state_backend=self._backend,
            keyed_state_store=KeyedStateStore(self._backend),
            timer_services=self._services,
            timers=timers,
        )
        return _KeptStateHandler(handler, self._keeping)


class _KeptStateHandler:
    """Wraps a state handler so that the asynchronous part of a snapshot also encodes the state as text."""

    def __init__(self, handler: StreamOperatorStateHandler, keeping: Keeping) -> None:
        self._handler = handler
        self._keeping = keeping
        self.initialize_operator_state = handler.initialize_operator_state
        self.notify_checkpoint_complete = handler.notify_checkpoint_complete
        self.notify_checkpoint_aborted = handler.notify_checkpoint_aborted
        self.notify_checkpoint_subsumed = handler.notify_checkpoint_subsumed
        self.close = handler.close

    def snapshot_state(
        self, operator: object, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        futures = self._handler.snapshot_state(operator, metadata, options)

        def finish() -> KeptState:
            state = futures.finalize()
            return KeptState(keyed=state.managed_keyed_state, timers=state.raw_keyed_state)

        text = SnapshotFuture.calling(lambda: self._keeping.text(finish))
        return OperatorSnapshotFutures(raw_operator_state=text)


def _key_of(lookup: Lookup) -> int:
    assert isinstance(lookup.key, int), "keyed state is kept by number"
    return lookup.key


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTask:
    """The keyed task of one subtask."""

    inputs: Inputs
    task: Task
    parts: KeyedParts = HONEST_PARTS
    groups: KeyGroupRange = ALL_GROUPS
    """The key groups that the subtask owns."""
