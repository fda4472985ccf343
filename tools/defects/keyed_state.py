"""Defects of keyed state: what a checkpoint holds of it, which key groups come back, and when it is copied.

Answers to bugs that keyed backends had in Flink. A defect that a run can show has a scenario in the catalogue, with a
`task:`, in which every later record of a key depends on the key's state: a loss is a wrong value, V8. Invariant: apart
from the one thing that its name says, the task or the backend is the reference's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect
from harness.sut.defects.twelve import SNAPSHOT_OMITS_KEYED_STATE, keeping
from harness.sut.keyed_head import BY_INPUT
from harness.sut.rescaling import Keeping, KeptState, KeyedParts
from harness.sut.variant import Variant
from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.state.copy_on_write_state_map import Cell, Chunk, CopyOnWriteStateMap, EntryKey
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.snapshots import KeyedStateHandle, SnapshotFuture
from reference_impl.state.state_descriptor import StateDescriptor
from tools.defects.kinds import PropertyDefect


class OneCheckpointOld(Keeping):
    """Saves the keyed state of the checkpoint before. Mutable."""

    def __init__(self) -> None:
        self._before: KeptState | None = None

    def text(self, finish: Callable[[], KeptState]) -> str:
        present = finish()
        before, self._before = self._before or present, present
        return super().text(lambda: self.mixed(present, before))

    def mixed(self, present: KeptState, before: KeptState) -> KeptState:
        """What is saved now, of the present state and that of the checkpoint before."""
        return replace(present, keyed=before.keyed)


class _RestoresOneOfTwo(Keeping):
    """Reads back the first of the two states that are registered."""

    def state(self, text: str) -> KeptState:
        kept = super().state(text)
        if kept.keyed is None:
            return kept
        states = {name: meta for name, meta in kept.keyed.states.items() if name != BY_INPUT.name}
        groups = {
            group: {name: blocks for name, blocks in written.items() if name in states}
            for group, written in kept.keyed.key_groups.items()
        }
        return replace(kept, keyed=replace(kept.keyed, states=states, key_groups=groups))


class _LosesLastKeyGroup(Keeping):
    """Reads a range of key groups as if its end were not part of it."""

    def state(self, text: str) -> KeptState:
        kept = super().state(text)
        if kept.keyed is None:
            return kept
        end = kept.keyed.key_group_range.end
        groups = {group: blocks for group, blocks in kept.keyed.key_groups.items() if group != end}
        return replace(kept, keyed=replace(kept.keyed, key_groups=groups))


class _SharingBackend(KeyedStateBackend):
    """Reads its tables in the asynchronous part of a snapshot, while the task goes on writing to them.

    Without a task's `async_snapshot` no defect in a run, which then ends that part before the task goes on.
    """

    def snapshot(
        self, checkpoint_id: int, timestamp: int = 0, options: CheckpointOptions | None = None
    ) -> SnapshotFuture[KeyedStateHandle | None]:
        take = super().snapshot
        return SnapshotFuture.calling(lambda: _ended(take(checkpoint_id, timestamp, options)))

    def dispose(self) -> None:
        """Nothing: a snapshot may still hold the tables."""


def _ended(future: SnapshotFuture[Any]) -> Any:
    future.run()
    return future.result()


class _SharingStateMap(CopyOnWriteStateMap):
    """Shares its chunks with its snapshots, so a restore and replay count later writes twice. Mutable."""

    def own(self, position: int, chunk: Chunk) -> Chunk:
        if not chunk.entries:
            return super().own(position, chunk)
        chunk.version = self.version
        return chunk


class _ShallowStateMap(CopyOnWriteStateMap):
    """Copies entries on write, but shares the lists and maps in them with its snapshots. Mutable."""

    def cell_to_write(self, position: int, key: EntryKey) -> Cell[Any] | None:
        cell: Cell[Any] | None = self.get(position, key)
        return cell


class _DropsUnregisteredState(KeyedStateBackend):
    """Loses a state that a job registers lazily and does not touch between two checkpoints. Mutable."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asked_for: dict[str, None] = {}

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> Any:
        self._asked_for[descriptor.name] = None
        return super().get_or_create_keyed_state(descriptor)

    def snapshot(
        self, checkpoint_id: int, timestamp: int = 0, options: CheckpointOptions | None = None
    ) -> SnapshotFuture[KeyedStateHandle | None]:
        for name in [name for name in self._registry.tables if name not in self._asked_for]:
            del self._registry.tables[name]
        return super().snapshot(checkpoint_id, timestamp, options)


class _RestoresHalfOpenRange(KeyedStateBackend):
    """Loses the last key group of each subtask with the first restart, without any error. Mutable."""

    def restore(self, handles: Iterable[KeyedStateHandle | None]) -> None:
        super().restore(None if handle is None else self._shortened(handle) for handle in handles)

    def _shortened(self, handle: KeyedStateHandle) -> KeyedStateHandle:
        mine = range(self.key_group_range.start, self.key_group_range.end)
        kept = {key_group: blocks for key_group, blocks in handle.key_groups.items() if key_group in mine}
        return replace(handle, key_groups=kept)


OF_KEYED_STATE = (
    SNAPSHOT_OMITS_KEYED_STATE,
    Defect(
        name="state-one-checkpoint-old",
        about="a checkpoint holds the keyed state of the one before it",
        mirrors="FLINK-26968, a copy with the wrong version",
        convicted_by=("V8",),
        variant=keeping(OneCheckpointOld),
        where="`sessions-after-commit`",
        applies=NEVER,
        scenario="sessions-after-commit",
    ),
    Defect(
        name="restores-one-state-of-two",
        about="of two states of one operator one is read back, the other begins anew",
        mirrors="FLINK-17218, a state that is registered too late",
        convicted_by=("V8",),
        variant=keeping(_RestoresOneOfTwo),
        where="`sessions-crash-loop`",
        applies=NEVER,
        scenario="sessions-crash-loop",
    ),
    Defect(
        name="key-group-off-by-one",
        about="the last key group of a range is not restored",
        mirrors="a range that is taken for half open",
        convicted_by=("V8",),
        variant=keeping(_LosesLastKeyGroup),
        where="`sessions-idempotent`",
        applies=NEVER,
        scenario="sessions-idempotent",
    ),
    Defect(
        name="state-shared-with-snapshot",
        about="a snapshot reads the state when it is written, with what the task has changed since it was taken",
        mirrors="FLINK-10567",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(backend=_SharingBackend)),
        where="`sessions-in-async-snapshot`",
        applies=NEVER,
        scenario="sessions-in-async-snapshot",
        levels=SIM_AND_LIVE,
    ),
    PropertyDefect(
        name="backend-range-half-open",
        about="a backend restores its range of key groups without the last one",
        mirrors="a range that is taken for half open",
        replaces="KeyedStateBackend",
        statements=("S8", "S9"),
        wrong=_RestoresHalfOpenRange,
    ),
    PropertyDefect(
        name="chunk-not-copied-on-write",
        about="the first write after a snapshot goes to the chunk that the snapshot holds, not to a copy",
        mirrors="FLINK-26968",
        replaces="CopyOnWriteStateMap",
        statements=("C7", "S9"),
        wrong=_SharingStateMap,
    ),
    PropertyDefect(
        name="shallow-copy-on-write",
        about="a list or a map that grows while a snapshot is written grows in the snapshot too",
        mirrors="a copy on write that stops at the first level",
        replaces="CopyOnWriteStateMap",
        statements=("C7", "S9"),
        wrong=_ShallowStateMap,
    ),
    PropertyDefect(
        name="drops-unregistered-state",
        about="a snapshot leaves out the states that were restored and not asked for since",
        mirrors="a backend that snapshots its state objects instead of its tables",
        replaces="KeyedStateBackend",
        statements=("S9", "C45"),
        wrong=_DropsUnregisteredState,
    ),
)
