"""The keyed chain: the operator with state by key in front of the lookups, as a task of the harness drives it.

Answers to an `OperatorChain` whose head is a `KeyedCoProcessOperator`. Invariant: a snapshot holds the head's state and
its timers in front of the elements of the lookups, all of one instant between two elements; so it goes wherever
elements go, into the same transaction, and is taken over before the first of them is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from harness.sut.keyed_task.kept_state import KeptState
from harness.sut.keyed_task.parts import KeyedParts
from harness.sut.keyed_task.session_counter import SessionCounter
from harness.sut.positions import TaskState
from harness.workloads.inputs import Inputs
from harness.workloads.lookups import Lookup
from reference_impl.checkpoint_metadata import CheckpointMetaData
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.elements import OperatorInput, QueueElement, Record
from reference_impl.events import StopMode
from reference_impl.functions.keyed_co_process_operator import KeyedCoProcessOperator
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.queues.availability import Availability
from reference_impl.snapshots.operator_snapshot_futures import OperatorSnapshotFutures
from reference_impl.snapshots.stream_operator_state_handler import StreamOperatorStateHandler
from reference_impl.source_task import ClosableOperator
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.keyed_state_store import KeyedStateStore
from reference_impl.task.operator_chain import OperatorChain, OperatorLink
from reference_impl.task.record_writer import LocalRecordWriter
from reference_impl.timers import Timers

__all__ = ["BuildLookups", "KeyedChain"]
_MAX_PARALLELISM = 8
"""Key groups, all of them this subtask's: few, so that each holds several keys."""
_SESSIONS, _LOOKUPS = "sessions", "lookups"
"""The ids of the two operators."""


class BuildLookups(Protocol):
    """Builds the operator that calls, behind another one."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> ClosableOperator:
        """In its place of the chain."""


class KeyedChain:
    """A `reference_impl.source_task.ClosableOperator`. Mutable: built when it is opened, around what it restores."""

    def __init__(
        self,
        *,
        function: SessionCounter,
        inputs: Inputs,
        parts: KeyedParts,
        lookups: BuildLookups,
        mailbox: Mailbox,
        timers: Callable[[MailboxExecutor], Timers],
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._function = function
        self._inputs = inputs
        self._parts = parts
        self._keeping = parts.keeping()
        self._build_lookups = lookups
        self._mailbox = mailbox
        self._timers = timers
        self._emit = emit
        self._fail = fail
        self._snapshots = 0
        self._chain: OperatorChain | None = None
        self._lookups: _Replaying

    @property
    def room(self) -> Availability:
        """Of the lookups: the operator in front of them holds nothing back."""
        return self._lookups.room

    def open(self, restored: Sequence[Any] = ()) -> None:
        """Take the state over, then replay the elements behind it (A61, C45)."""
        replayed = iter(restored)
        first = next(replayed, None)
        kept = None
        if isinstance(first, TaskState):
            kept = self._keeping.state(first.text)
        elif first is not None:
            raise AssertionError(f"a snapshot of a keyed task begins with its state, not with {first!r}")
        self._chain = self._built(kept, replayed)
        self._chain.initialize_state_and_open_operators()

    def process(self, element: OperatorInput) -> None:
        """A record by the door of its input, a watermark, which has come over all of them, by both (A27)."""
        assert self._chain is not None, "a chain is opened before it is fed"
        doors = self._chain.doors
        if isinstance(element, Record):
            doors[self._inputs.of_record(element.value)](element)
        else:
            for door in doors:
                door(element)

    def snapshot(self) -> tuple[Any, ...]:
        """The state, then what has not left (A56, C6)."""
        assert self._chain is not None, "a chain is opened before it is saved"
        self._snapshots += 1
        futures: dict[str, OperatorSnapshotFutures] = {}
        metadata = CheckpointMetaData(checkpoint_id=self._snapshots)
        self._chain.prepare_snapshot_pre_barrier(metadata.checkpoint_id)
        self._chain.snapshot_state(futures, metadata, CheckpointOptions())
        state = TaskState(text=self._keeping.text(lambda: _finished(futures[_SESSIONS])))
        return (state, *self._lookups.snapshot())

    def end_input(self) -> None:
        """Of all inputs: head first, each with its mail (A66, M45)."""
        assert self._chain is not None, "a chain is opened before it ends"
        for number in range(len(self._chain.doors)):
            self._chain.end_head_input(number + 1)
        self._chain.finish_operators(StopMode.DRAIN)

    def close(self) -> None:
        """Every operator (A70)."""
        if self._chain is not None:
            self._chain.close_all_operators()

    # ------------------------------------------------------------------------------------------- its parts

    def _built(self, kept: KeptState | None, replayed: Iterator[QueueElement]) -> OperatorChain:
        head = _Head(self._function, parts=self._parts, kept=kept)
        return OperatorChain(
            [
                OperatorLink(operator_id=_SESSIONS, build=head.build, state_handler=head.state_handler),
                OperatorLink(operator_id=_LOOKUPS, build=partial(self._built_lookups, replayed)),
            ],
            mailbox=self._mailbox,
            timers=self._timers,
            record_writer=LocalRecordWriter(self._emit),
            fail=self._fail,
        )

    def _built_lookups(
        self, replayed: Iterator[QueueElement], *, downstream: object, **parts: Any
    ) -> _Replaying:
        del downstream  # the sink always has room
        self._lookups = _Replaying(self._build_lookups(**parts), replayed)
        return self._lookups


class _Head:
    """The operator with state by key, and who keeps its state. Mutable: has its parts from `build` on."""

    def __init__(self, function: SessionCounter, *, parts: KeyedParts, kept: KeptState | None) -> None:
        self._function = function
        self._parts = parts
        self._kept = kept
        self._backend: KeyedStateBackend
        self._services: InternalTimerServices

    def build(
        self, *, timers: Timers, emit: Callable[[OperatorInput], None], **parts: Any
    ) -> KeyedCoProcessOperator:
        """With what was kept."""
        del parts
        all_groups = KeyGroupRange(start=0, end=_MAX_PARALLELISM - 1)
        self._backend = self._parts.backend(
            operator=_SESSIONS, key_group_range=all_groups, max_parallelism=_MAX_PARALLELISM, key_type=int
        )
        self._services = self._parts.timer_services(
            timers=timers,
            key_context=self._parts.timers_key_context(self._backend),
            key_group_range=all_groups,
            max_parallelism=_MAX_PARALLELISM,
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
            emit=emit,
        )

    def state_handler(self, operator: Any, timers: Timers) -> StreamOperatorStateHandler:
        """Of the operator that was built."""
        del operator
        return StreamOperatorStateHandler(
            operator_id=_SESSIONS,
            restored_checkpoint_id=None if self._kept is None else 0,
            keyed_state_backend=self._backend,
            keyed_state_store=KeyedStateStore(self._backend),
            timer_services=self._services,
            timers=timers,
        )


class _Replaying:
    """The lookups in their chain, which opens its operators without knowing what they replay."""

    def __init__(self, lookups: ClosableOperator, replayed: Any) -> None:
        self._lookups = lookups
        self._replayed = replayed
        self.process = lookups.process
        self.snapshot = lookups.snapshot
        self.end_input = lookups.end_input
        self.close = lookups.close

    @property
    def room(self) -> Availability:
        """Of the lookups."""
        return self._lookups.room

    def open(self) -> None:
        """Replay."""
        self._lookups.open(self._replayed)


def _key_of(lookup: Lookup) -> int:
    return lookup.key


def _finished(futures: OperatorSnapshotFutures) -> KeptState:
    """The asynchronous part."""
    state = futures.finalize()
    return KeptState(keyed=state.managed_keyed_state, timers=state.raw_keyed_state)
